"""Each driver call of the operations that no other file lets fail, failing in turn.

One clean exception comes out, nothing is left behind, the caller's context and the captures are as before.
"""

import gc
import warnings
from types import SimpleNamespace

import pytest

from madspace.core.capture import capture
from madspace.core.creation import asarray, from_dlpack, zeros
from madspace.core.device import Device
from madspace.core.event import Event
from madspace.core.graph import Graph
from madspace.core.module import Module, preload
from madspace.core.pool import MemoryPool, memory_stats
from madspace.core.stream import Stream
from madspace.core.workspace import Workspace, WorkspaceLayout
from madspace.errors import MadspaceError, MadspaceWarning

N = 64
# A failed end loses what it could not give back, and says so.
ENDS = (
    "cuMemFreeAsync",
    "cuStreamDestroy",
    "cuEventDestroy",
    "cuMemPoolDestroy",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
)


@pytest.fixture
def have(fake, device, stream, kernels_ptx, tmp_path):
    """Return the things that the operations are tried on."""
    module = Module(kernels_ptx)
    kernel = module["ms_test_fill"]
    kernel.load()
    preload()
    buffer = device.pool.allocate(N, stream=stream)
    graph, same = Graph(device), Graph(device)
    node = graph.add_kernel(kernel, 1, 1, buffer, 1, 1)
    same.add_kernel(kernel, 1, 1, buffer, 2, 1)
    early, late = Event(timing=True), Event(timing=True)
    early.record(stream)
    late.record(stream)
    return SimpleNamespace(
        device=device, stream=stream, other=Stream(device), module=module, kernel=kernel, buffer=buffer, graph=graph,
        same=same, node=node, executable=graph.instantiate(), early=early, late=late, pool=MemoryPool(device),
        tensor=zeros((4, 4), device=device), path=tmp_path / "graph.dot",
    )  # fmt: skip


class Other:
    """Another library's array, by one protocol."""

    def __init__(self, tensor, name):
        self.tensor = tensor
        if name == "interface":
            self.__cuda_array_interface__ = tensor.__cuda_array_interface__


class Producer(Other):
    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def wrap(have):
    workspace, layout = Workspace.wrap(zeros(512, "u1", device=0)), WorkspaceLayout()
    layout.reserve(N)
    workspace.before(have.other)
    workspace.after(have.other)
    workspace.carve(layout)
    workspace.close()


def child(have):
    with Graph(have.device) as parent:
        parent.add_child(have.same)
        parent.clone().close()
        parent.debug_dot(have.path)
        assert parent.node_counts() == {"child": 1}


ACTIONS = {
    "device": lambda have: [getattr(have.device, name) for name in ("name", "uuid", "pci_bus_id", "free_memory")],
    "foreign stream": lambda have: Stream.from_handle(have.other.handle).close(),
    "stream": lambda have: (have.stream.priority, have.stream.is_capturing, have.stream.query()),
    "stream, host": lambda have: have.stream.synchronize(),
    "event": lambda have: (have.early.record(have.stream), have.early.query(), have.early.synchronize()),
    "event, time": lambda have: have.late.elapsed_since(have.early),
    "pool": lambda have: (have.pool.stats(), have.pool.release_threshold, have.pool.reset_peaks(), have.pool.trim()),
    "own pool": lambda have: memory_stats(0),
    "wrapped workspace": wrap,
    "child graph": child,
    "upload": lambda have: have.executable.upload(have.other),
    "update": lambda have: have.executable.update(have.same),
    "kernel node": lambda have: have.executable.set_kernel(have.node, have.kernel, 1, 1, have.buffer, 3, 1),
    "launch of a graph": lambda have: (have.executable.launch(have.stream), have.executable.launch(have.other)),
    "preload": lambda have: preload(),
    "DLPack": lambda have: from_dlpack(Producer(have.tensor, "dlpack"), stream=have.other),
    "interface": lambda have: asarray(Other(have.tensor, "interface"), stream=have.other),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_each_failure_leaves_nothing(fake, have, action):
    ACTIONS[action](have)
    settle(have)
    before, depth = fake.counts(), fake.context_depth()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for name, error in fake.each_failure(lambda: ACTIONS[action](have)):
            gc.collect()
            assert error is None or isinstance(error, MadspaceError), (name, error)
            assert not [each for each in told if not issubclass(each.category, MadspaceWarning)], name
            assert fake.context_depth() == depth, name
            assert not have.stream.is_capturing, name
            settle(have)
            if not told and getattr(error, "call", "") not in ENDS:
                assert {**fake.counts(), "null_stream": 0} == {**before, "null_stream": 0}, name
            told.clear()
            before = fake.counts()


def settle(have):
    gc.collect()
    have.device.synchronize()
    have.device.pool.trim()


def test_a_capture_whose_calls_fail_ends(fake, have):
    def action():
        with capture(have.stream, mode="global") as graph:
            have.buffer.fill(1)
        graph.close()

    for name, error in fake.each_failure(action):
        assert error is None or isinstance(error, MadspaceError), name
        assert not have.stream.is_capturing, name
        assert Device(0).pool.allocate(8).close() is None
