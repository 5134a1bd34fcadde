"""Graph: nodes put together by hand, copies, drawings, life."""

import gc
import weakref

import pytest
from contents import content

from madspace.core.capture import capture
from madspace.core.graph import Graph
from madspace.core.graph_node import GraphNode
from madspace.errors import ClosedError, DeviceMismatchError, ShapeError

N = 1024


@pytest.fixture
def more(device, stream):
    """Return another buffer like `words`."""
    buffer = device.pool.allocate(4 * N, stream=stream)
    buffer.fill(0)
    return buffer


def run(graph, stream):
    """Launch a graph once."""
    graph.instantiate().launch(stream)


def test_a_new_graph(device):
    graph = Graph()
    assert graph.device is device
    assert not graph.closed
    assert graph.n_nodes == 0
    assert graph.nodes() == ()
    assert graph.node_counts() == {}
    assert f"{graph.handle:#x}" in repr(graph)
    assert Graph("cuda:0").device is device


def test_nodes_run_after_those_that_they_name(graph, kernels, stream, words, more):
    first = graph.add_kernel(kernels["ms_test_fill"], 1, 256, words, 5, N)
    second = graph.add_kernel(kernels["ms_test_copy"], 1, 256, more, words, N, after=[first])
    third = graph.add_fill(words, 1, after=[second])
    graph.add_copy(more, words, after=(third, first))
    assert graph.node_counts() == {"kernel": 2, "memset": 1, "memcpy": 1}
    assert {first, second, third} <= set(graph.nodes())
    run(graph, stream)
    assert content(more) == 0x01010101


def test_a_node_tells_what_it_is(graph, words):
    node = graph.add_fill(words, 1)
    assert (node.kind, node.graph, node.bodies, node.ptr) == ("memset", graph, (), None)
    assert node == graph.nodes()[0]
    assert node != 1
    assert f"{node.handle:#x}" in repr(node)
    with pytest.raises(TypeError, match="add_ methods"):
        GraphNode()


def test_after_must_be_nodes_of_the_graph(device, graph, words):
    foreign = Graph(device).add_fill(words, 1)
    with pytest.raises(ValueError, match="after: expected nodes of"):
        graph.add_fill(words, 2, after=[foreign])
    with pytest.raises(TypeError, match="after: expected GraphNodes, got int"):
        graph.add_fill(words, 2, after=[1])
    with pytest.raises(ValueError, match="after: expected nothing without into="):
        capture(words.stream, after=[foreign])
    assert graph.n_nodes == 0


def test_arguments_are_checked_as_for_a_launch(graph, kernels, words, stream):
    fill = kernels["ms_test_fill"]
    with pytest.raises(ShapeError, match="takes 3 parameters"):
        graph.add_kernel(fill, 1, 256, words)
    with pytest.raises(ValueError, match="grid"):
        graph.add_kernel(fill, 0, 256, words, 1, N)
    with pytest.raises(ValueError, match="block"):
        graph.add_kernel(fill, 1, 4096, words, 1, N)
    with pytest.raises(TypeError, match="stream: expected none"):
        graph.add_kernel(fill, 1, 256, words, 1, N, stream=stream)
    with pytest.raises(ValueError, match="value: expected a byte"):
        graph.add_fill(words, 256)
    with pytest.raises(ValueError, match="source: expected another buffer"):
        graph.add_copy(words, words)
    assert graph.n_nodes == 0


def test_buffers_without_bytes_are_refused(device, graph, words):
    empty = device.pool.allocate(0)
    with pytest.raises(ValueError, match="buffer: expected a buffer of at least 1 byte"):
        graph.add_fill(empty, 1)
    with pytest.raises(ValueError, match="target: expected a buffer of at least 1 byte"):
        graph.add_copy(empty, words)


def test_a_capture_adds_to_a_graph(graph, stream, words, more):
    first = graph.add_fill(words, 3)
    with capture(stream, into=graph, after=[first]) as same:
        more.copy_from(words)
    assert same is graph
    assert graph.node_counts() == {"memset": 1, "memcpy": 1}
    run(graph, stream)
    assert content(more) == 0x03030303


def test_an_exception_in_a_capture_into_a_graph_leaves_it_open(graph, stream):
    with pytest.raises(KeyError), capture(stream, into=graph):
        raise KeyError
    assert not graph.closed
    assert graph.n_nodes == 0


def test_operands_live_as_long_as_the_graph(device, graph, stream, words):
    source = device.pool.allocate(4 * N, stream=stream)
    source.fill(2)
    graph.add_copy(words, source)
    seen = weakref.ref(source)
    del source
    gc.collect()
    assert seen() is not None
    run(graph, stream)
    assert content(words) == 0x02020202


def test_a_copy_is_a_graph_of_its_own(graph, stream, words, more):
    node = graph.add_fill(words, 1)
    copy = graph.clone()
    graph.add_copy(more, words, after=[node])
    assert (copy.n_nodes, graph.n_nodes) == (1, 2)
    graph.close()
    run(copy, stream)
    assert (content(words), content(more)) == (0x01010101, 0)


def test_a_child_is_one_node(device, graph, stream, words, more):
    child = Graph(device)
    child.add_fill(words, 2, after=[child.add_fill(words, 1)])
    node = graph.add_child(child)
    graph.add_copy(more, words, after=[node])
    child.close()
    assert graph.node_counts() == {"child": 1, "memcpy": 1}
    run(graph, stream)
    assert content(more) == 0x02020202


def test_a_graph_is_no_child_of_itself(graph):
    with pytest.raises(ValueError, match="other: expected another graph"):
        graph.add_child(graph)


def test_it_is_drawn(graph, words, tmp_path):
    graph.add_fill(words, 2, after=[graph.add_fill(words, 1)])
    path = tmp_path / "graph.dot"
    graph.debug_dot(path)
    text = path.read_text()
    assert text.startswith("digraph")
    assert "->" in text
    graph.debug_dot(str(path), verbose=True)
    assert path.read_text().startswith("digraph")
    with pytest.raises(FileNotFoundError):
        graph.debug_dot(tmp_path / "none" / "graph.dot")


@pytest.mark.parametrize("end", ["close", "with", "drop"])
def test_every_end_destroys_it_once(fake, device, words, end):
    before = fake.counts()
    graph = Graph(device)
    graph.add_fill(words, 1)
    if end == "close":
        graph.close()
        graph.close()
    elif end == "with":
        with graph:
            pass
    del graph
    gc.collect()
    assert len(fake.log("cuGraphDestroy")) == 1
    assert fake.counts() == before


def test_a_closed_graph_says_so(graph, words, tmp_path):
    graph.close()
    assert "closed" in repr(graph)
    for use in (
        graph.nodes,
        graph.clone,
        graph.instantiate,
        lambda: graph.n_nodes,
        lambda: graph.add_fill(words, 1),
        lambda: graph.debug_dot(tmp_path / "x"),
        graph.add_condition,
        lambda: graph.add_alloc(8),
        graph.__enter__,
    ):
        with pytest.raises(ClosedError, match="graph: expected an open graph"):
            use()


def test_without_init_it_is_closed_and_harmless():
    graph = Graph.__new__(Graph)
    assert graph.closed
    with pytest.raises(ClosedError):
        graph.nodes()


@pytest.mark.multi_gpu
def test_memory_and_children_of_another_device_are_refused(other_device, graph):
    foreign = other_device.pool.allocate(8)
    with pytest.raises(DeviceMismatchError):
        graph.add_fill(foreign, 1)
    with pytest.raises(DeviceMismatchError, match="other: expected a graph of device 0"):
        graph.add_child(Graph(other_device))
    assert graph.n_nodes == 0
