"""GraphExec: launches in the order of everything else, updates, what it keeps, how it ends."""

import gc
import itertools

import pytest
from contents import content
from raw_driver import ForeignStream, capturing

from madspace.core.capture import capture
from madspace.core.graph import Graph
from madspace.core.graph_exec import GraphExec
from madspace.core.module import Module
from madspace.core.stream import Stream
from madspace.errors import CaptureError, ClosedError, DeviceMismatchError, DriverError

N = 1024


@pytest.fixture
def out(device, stream):
    """Return another buffer like `words`."""
    buffer = device.pool.allocate(4 * N, stream=stream)
    buffer.fill(0)
    return buffer


def filling(kernels, buffer, value):
    """Return a graph of one kernel that fills the buffer."""
    graph = Graph(buffer.device)
    graph.add_kernel(kernels["ms_test_fill"], 1, 256, buffer, value, N)
    return graph


def test_executables_come_from_graphs_only(device):
    with pytest.raises(TypeError, match=r"Graph\.instantiate"):
        GraphExec()
    graph = Graph(device)
    executable = graph.instantiate()
    assert (executable.graph, executable.device, executable.closed) == (graph, device, False)
    assert f"{executable.handle:#x}" in repr(executable)
    executable.launch()


def test_the_stream_by_any_name(device, kernels, words):
    executable = filling(kernels, words, 5).instantiate()
    foreign = ForeignStream()
    for stream in (None, device.default_stream, foreign, foreign.handle, 1, 2):
        words.fill(0)
        executable.upload(stream)
        executable.launch(stream)
        assert content(words) == 5
    words.stream.synchronize()
    foreign.destroy()


def test_it_is_as_it_was_instantiated(kernels, stream, words):
    graph = Graph(words.device)
    first = graph.add_fill(words, 1)
    executable = graph.instantiate()
    graph.add_fill(words, 2, after=[first])
    graph.close()
    executable.launch(stream)
    assert content(words) == 0x01010101


def test_a_launch_is_behind_a_late_write_of_its_memory(device, stream, words, out, late):
    graph = Graph(device)
    graph.add_copy(out, words)
    words.fill(7, stream=late)
    graph.instantiate().launch(stream)
    assert content(out) == 0x07070707


def test_what_follows_is_behind_a_late_launch(device, kernels, words, out, late):
    filling(kernels, words, 6).instantiate().launch(late)
    out.copy_from(words)
    assert content(out) == 6


def test_a_write_comes_after_a_late_launch_that_reads(device, words, out, late):
    graph = Graph(device)
    graph.add_copy(out, words)
    graph.instantiate().launch(late)
    words.fill(9)
    assert content(out) == 0
    assert content(words) == 0x09090909


def test_the_free_is_behind_a_late_launch(device, stream, words, out, late):
    source = device.pool.allocate(4 * N, stream=stream)
    source.fill(3)
    graph = Graph(device)
    graph.add_copy(out, source)
    executable = graph.instantiate()
    executable.launch(late)
    del source, graph, executable
    gc.collect()
    device.pool.allocate(4 * N, stream=stream).fill(8)  # may well be the same memory
    assert content(out) == 0x03030303


def test_a_launch_on_the_own_stream_asks_for_a_capture_and_launches(fake, kernels, stream, words):
    executable = filling(kernels, words, 5).instantiate()
    executable.launch(stream)
    fake.clear_log()
    executable.launch(stream)
    assert [name for name in fake.names() if "Ctx" not in name] == ["cuStreamIsCapturing", "cuGraphLaunch"]


def test_an_update_takes_over_the_parameters(kernels, stream, words, out):
    executable = filling(kernels, words, 5).instantiate()
    executable.update(filling(kernels, out, 6))
    gc.collect()
    executable.launch(stream)
    assert (content(words), content(out)) == (0, 6)


def test_an_update_keeps_what_is_needed_now(fake, device, kernels, stream, words):
    before = fake.counts()["device_memory"]
    first, second = (device.pool.allocate(4 * N, stream=stream) for _ in range(2))
    executable = filling(kernels, first, 5).instantiate()
    executable.update(filling(kernels, second, 6))
    executable.graph.close()
    del first, second
    gc.collect()
    executable.launch(stream)
    assert fake.counts()["device_memory"] >= before + 1
    executable.close()
    del executable
    gc.collect()
    assert fake.counts()["device_memory"] == before


@pytest.mark.parametrize("order", list(itertools.permutations(["module", "graph", "executable"])))
def test_a_cycle_gives_up_handles_before_their_code(device, kernels_ptx, stream, words, order):
    """The driver goes through the kernels of a graph that it destroys, so their code must be there."""
    for names in (order, order[::-1]):
        things = {"module": Module(kernels_ptx)}
        things["graph"] = filling(things["module"], words, 5)
        things["executable"] = things["graph"].instantiate()
        things["executable"].launch(stream)
        assert content(words) == 5
        cycle = [things.pop(name) for name in names]
        cycle.append(cycle)
        del cycle
    gc.collect()


def test_a_closed_module_serves_its_graphs(device, kernels_ptx, stream, words):
    module = Module(kernels_ptx)
    kernel = module["ms_test_fill"]
    executable = filling(module, words, 5).instantiate()
    module.close()
    with pytest.raises(ClosedError, match="module"):
        kernel.launch(1, 32, words, 7, N, stream=stream)
    executable.launch(stream)
    assert content(words) == 5


@pytest.mark.parametrize("end", ["graph last", "module last"])
def test_code_is_unloaded_when_nobody_has_it(fake, device, kernels_ptx, stream, words, end):
    before = fake.counts()["library"]
    module = Module(kernels_ptx)
    graph = filling(module, words, 5)
    executable = graph.instantiate()
    copy = graph.clone()
    if end == "graph last":
        module.close()
    for thing in (copy, executable, graph):
        assert fake.counts()["library"] == before + 1
        thing.close()
    del copy, executable, graph, thing
    if end == "module last":
        assert fake.counts()["library"] == before + 1
        module.close()
    assert fake.counts()["library"] == before


@pytest.mark.parametrize("name", ["cuGraphExecDestroy", "cuGraphDestroy"])
def test_what_cannot_be_destroyed_keeps_its_code(fake, device, kernels_ptx, stream, words, name):
    module = Module(kernels_ptx)
    graph = filling(module, words, 5)
    executable = graph.instantiate()
    with fake.failing(name), pytest.raises(DriverError):
        (executable if name == "cuGraphExecDestroy" else graph).close()
    before = fake.counts()["library"]
    module.close()
    del module, graph, executable
    gc.collect()
    assert fake.counts()["library"] == before


def test_an_update_tells_what_differs(device, kernels, stream, words, out):
    executable = filling(kernels, words, 5).instantiate()
    longer = filling(kernels, words, 6)
    longer.add_copy(out, words, after=longer.nodes())
    with pytest.raises(DriverError, match="the nodes or what they come after differ") as caught:
        executable.update(longer)
    assert caught.value.code == 910
    executable.launch(stream)
    assert (content(words), content(out)) == (5, 0)


def test_a_kernel_node_is_replaced(kernels, stream, words, out):
    graph = filling(kernels, words, 5)
    (node,) = graph.nodes()
    executable = graph.instantiate()
    executable.set_kernel(node, kernels["ms_test_fill"], 2, 128, out, 8, N)
    executable.launch(stream)
    assert (content(words), content(out)) == (0, 8)
    graph.instantiate().launch(stream)  # the graph is as it was
    assert content(words) == 5


def test_only_kernel_nodes_of_the_graph_are_replaced(device, kernels, words):
    graph = filling(kernels, words, 5)
    executable = graph.instantiate()
    for node in (graph.add_fill(words, 1), *filling(kernels, words, 5).nodes()):
        with pytest.raises(ValueError, match="node: expected a kernel node of"):
            executable.set_kernel(node, kernels["ms_test_fill"], 1, 1, words, 1, 1)


def test_a_launch_in_a_capture_is_refused(kernels, stream, words):
    inner = filling(kernels, words, 5).instantiate()
    with capture(stream) as graph, pytest.raises(CaptureError, match="add_child"):
        inner.launch(stream)
    assert graph.node_counts() == {}


def test_neither_a_launch_nor_an_upload_joins_a_foreign_capture(kernels, stream, words):
    executable = filling(kernels, words, 5).instantiate()
    with capturing(stream):
        with pytest.raises(CaptureError, match="is being captured"):
            executable.upload(stream)
        with pytest.raises(CaptureError, match="is being captured"):
            executable.launch(stream)
    assert content(words) == 0


@pytest.mark.parametrize("end", ["close", "with", "drop"])
def test_every_end_destroys_it_once(fake, kernels, stream, words, end):
    filling(kernels, words, 5).instantiate().launch(stream)  # makes what stays: the kernel, its function
    before = fake.counts()
    fake.clear_log()
    executable = filling(kernels, words, 5).instantiate()
    executable.launch(stream)
    if end == "close":
        executable.close()
        executable.close()
    elif end == "with":
        with executable:
            pass
    del executable
    gc.collect()
    assert len(fake.log("cuGraphExecDestroy")) == 1
    assert fake.counts() == before


def test_a_closed_one_says_so(kernels, stream, words):
    graph = filling(kernels, words, 5)
    executable = graph.instantiate()
    executable.close()
    (node,) = graph.nodes()
    for use in (
        executable.launch,
        executable.upload,
        lambda: executable.update(graph),
        executable.__enter__,
        lambda: executable.set_kernel(node, kernels["ms_test_fill"], 1, 1, words, 1, 1),
    ):
        with pytest.raises(ClosedError, match="expected an open GraphExec"):
            use()


@pytest.mark.multi_gpu
def test_streams_and_graphs_of_another_device_are_refused(other_device, kernels, words):
    executable = filling(kernels, words, 5).instantiate()
    with pytest.raises(DeviceMismatchError, match="stream"):
        executable.launch(Stream(other_device))
    with pytest.raises(DeviceMismatchError, match="graph: expected one of device 0"):
        executable.update(Graph(other_device))
