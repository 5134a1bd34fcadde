"""What callers pass wrongly: the message names the argument, nothing is done, and nothing is left behind."""

import gc

import pytest

from madspace.core.capture import capture
from madspace.core.creation import asarray, from_dlpack, zeros
from madspace.core.event import Event
from madspace.core.graph import Graph
from madspace.core.module import Module
from madspace.core.pinned import PinnedBuffer
from madspace.core.pool import MemoryPool
from madspace.core.stream import Stream
from madspace.core.workspace import Workspace, WorkspaceLayout
from madspace.errors import ClosedError, KernelImageError

N = 64


@pytest.fixture
def made(fake, device, stream, kernels_ptx):
    """Return one of each thing that has methods, by name."""
    module = Module(kernels_ptx)
    buffer, graph = device.pool.allocate(N, stream=stream), Graph(device)
    kernel = module["ms_test_fill"]
    layout = WorkspaceLayout()
    layout.reserve(N)
    return {
        "buffer": buffer,
        "pinned": PinnedBuffer(N),
        "workspace": Workspace(N),
        "layout": layout,
        "graph": graph,
        "kernel": kernel,
        "bound": kernel.bind(1, 1, buffer, 1, 1, stream=stream),
        "module": module,
        "stream": stream,
        "pool": MemoryPool(device),
    }


NO_INTS = ("1", None, 1.5, float("nan"), [1], b"1")
INTS = {
    "priority": lambda made, bad: Stream(priority=bad),
    "limit": lambda made, bad: setattr(made["pool"], "limit", [] if bad is None else bad),
    "min_bytes_to_keep": lambda made, bad: made["pool"].trim(bad),
    "nbytes": lambda made, bad: made["pool"].allocate(bad),
    "nbytes of pinned memory": lambda made, bad: PinnedBuffer(bad),
    "nbytes of a workspace": lambda made, bad: Workspace(bad),
    "nbytes that are required": lambda made, bad: made["workspace"].require(bad),
    "nbytes of a region": lambda made, bad: made["layout"].reserve(bad),
    "nbytes of a node": lambda made, bad: made["graph"].add_alloc(bad),
    "nbytes of a block": lambda made, bad: made["kernel"].set_max_dynamic_shared(bad),
    "alignment": lambda made, bad: made["layout"].reserve(1, alignment=bad),
    "value": lambda made, bad: made["buffer"].fill(bad),
    "start": lambda made, bad: made["graph"].add_condition([] if bad is None else bad),
    "condition": lambda made, bad: made["graph"].add_if(bad),
    "percent": lambda made, bad: made["kernel"].set_shared_carveout(bad),
    "index of an argument": lambda made, bad: made["bound"].set(bad, 1),
    "index of a region": lambda made, bad: made["layout"].offset(bad),
}


@pytest.mark.parametrize("bad", NO_INTS, ids=repr)
@pytest.mark.parametrize("what", INTS)
def test_what_is_no_int_is_told_by_name(made, what, bad):
    with pytest.raises(TypeError, match=rf"^{what.split()[0]}: expected an int, got "):
        INTS[what](made, bad)


@pytest.mark.parametrize("bad", [-1, -(2**70), 2**64, 2**200], ids=["-1", "-2**70", "2**64", "2**200"])
@pytest.mark.parametrize("what", [what for what in INTS if what not in ("priority", "percent")])
def test_what_is_out_of_range_is_told_by_name(made, what, bad):
    with pytest.raises((ValueError, IndexError, OverflowError), match=rf"^{what.split()[0]}: expected .*, got "):
        INTS[what](made, bad)


OTHERS = {
    "source": lambda made, bad: made["buffer"].copy_from_host(bad),
    "out": lambda made, bad: made["buffer"].copy_to_host(bad),
    "after": lambda made, bad: made["graph"].add_fill(made["buffer"], 1, after=bad),
    "after of a child": lambda made, bad: made["graph"].add_child(Graph(), after=bad),
    "after of a capture": lambda made, bad: capture(made["stream"], after=bad),
    "image": lambda made, bad: Module(bad),
    "path": lambda made, bad: made["graph"].debug_dot(bad),
}


@pytest.mark.parametrize("bad", [7, 1.5, object], ids=repr)
@pytest.mark.parametrize("what", OTHERS)
def test_what_is_of_another_kind_is_told_by_name(made, what, bad):
    with pytest.raises(TypeError, match=rf"^{what.split()[0]}: expected .*, got "):
        OTHERS[what](made, bad)


@pytest.mark.parametrize("bad", [[], {}, 1, b"relaxed"], ids=repr)
def test_a_mode_is_one_of_three_words(made, bad):
    with pytest.raises(ValueError, match=r"^mode: expected one of"):
        capture(made["stream"], mode=bad)


@pytest.mark.parametrize("bad", ["x", -1, "(f4", "\udcff", object()], ids=["x", "-1", "(f4", "surrogate", "object"])
def test_what_is_no_dtype_is_told_by_name(made, bad):
    with pytest.raises(TypeError, match=r"^dtype: expected a"):
        zeros(3, bad)
    with pytest.raises((TypeError, ValueError), match=r"^dtype: expected"):
        made["pinned"].numpy(bad)


@pytest.mark.parametrize("name", ["ms_test_fill\0", "ms_test_fill\0x", "\udcff", ""], ids=ascii)
def test_a_kernels_name_is_taken_whole(made, name):
    with pytest.raises(KernelImageError, match="no kernel named"):
        made["module"].get(name)


def test_the_cluster_is_not_called_a_grid(made):
    with pytest.raises(TypeError, match=r"^cluster: expected an int"):
        made["kernel"].occupancy(32, cluster="x")
    with pytest.raises(ValueError, match=r"^cluster: expected numbers"):
        made["kernel"].occupancy(32, cluster=17)


@pytest.mark.parametrize("take", [asarray, from_dlpack], ids=lambda function: function.__name__)
def test_arrays_are_not_taken_in_on_a_closed_stream(fake, device, take):
    closed = Stream(device)
    closed.close()
    with pytest.raises(ClosedError, match="stream: expected an open stream"):
        take(zeros(3, device=device), stream=closed)


def test_a_workspace_is_not_used_on_a_closed_stream(made, device):
    closed = Stream(device)
    closed.close()
    with pytest.raises(ClosedError, match="stream: expected an open stream"):
        made["workspace"].before(closed)
    made["workspace"].before(made["stream"])
    made["workspace"].after(made["stream"])


# ---- code of the caller that runs while arguments are read ----


class Closing:
    """A number, a stream and an iterable: reading it closes something."""

    def __init__(self, thing, stream=None):
        self.thing, self.stream = thing, stream

    def __index__(self):
        self.thing.close()
        return 1

    def __cuda_stream__(self):
        self.thing.close()
        return 0, self.stream.handle

    def __iter__(self):
        self.thing.close()
        return iter(())


def executable(graph, buffer):
    graph.add_fill(buffer, 1)
    return graph.instantiate()


USES = {
    "executable launched": lambda made, other: (thing := executable(made["graph"], made["buffer"])).launch(
        Closing(thing, other)
    ),
    "executable uploaded": lambda made, other: (thing := executable(made["graph"], made["buffer"])).upload(
        Closing(thing, other)
    ),
    "event recorded": lambda made, other: (thing := Event()).record(Closing(thing, other)),
    "graph with a child": lambda made, other: (thing := made["graph"]).add_child(Graph(), after=Closing(thing)),
    "graph with an allocation": lambda made, other: (thing := made["graph"]).add_alloc(8, after=Closing(thing)),
    "graph with a free": lambda made, other: (thing := made["graph"]).add_free(
        thing.add_alloc(8), after=Closing(thing)
    ),
    "graph with a condition": lambda made, other: (thing := made["graph"]).add_condition(Closing(thing)),
    "graph with a choice": lambda made, other: (thing := made["graph"]).add_if(Closing(thing)),
    "module of a launch": lambda made, other: made["kernel"].launch(
        Closing(made["module"]), 1, made["buffer"], 1, 1, stream=made["stream"]
    ),
    "stream of a launch": lambda made, other: made["kernel"].launch(
        1, 1, made["buffer"], 1, 1, stream=(thing := Stream()), shared=Closing(thing)
    ),
}


@pytest.mark.parametrize("use", USES)
def test_what_is_closed_while_arguments_are_read_is_not_used(made, device, use):
    with pytest.raises(ClosedError, match="expected an open"):
        USES[use](made, Stream(device))
    gc.collect()


def test_a_node_of_a_closed_graph_is_not_looked_at(made):
    graph, kernel, buffer = made["graph"], made["kernel"], made["buffer"]
    node = graph.add_kernel(kernel, 1, 1, buffer, 1, 1)
    made = graph.instantiate()
    graph.close()
    with pytest.raises(ClosedError, match="graph: expected an open graph"):
        made.set_kernel(node, kernel, 1, 1, buffer, 2, 1)


def test_a_body_is_closed_with_its_graph(made):
    graph = made["graph"]
    (body,) = graph.add_if(graph.add_condition(1)).bodies
    assert not body.closed
    graph.close()
    assert body.closed
    assert "closed" in repr(body)
