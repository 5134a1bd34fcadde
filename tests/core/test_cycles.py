"""Garbage of a cycle: the collector ends objects in any order, and each still finds what its end needs."""

import gc

import pytest
import scratch_op

import madspace
from madspace import Graph, PinnedBuffer, Stream, Workspace

pytestmark = pytest.mark.fake
N = 4096


def of_a_buffer(device, home, late):
    buffer = device.pool.allocate(N, stream=home)
    buffer.fill(1, stream=late)
    return [buffer]


def of_a_tensor(device, home, late):
    tensor = madspace.zeros(N, device=device, stream=home)
    tensor.fill(1.0, stream=late)
    return [tensor, tensor[1:]]


def of_a_graph(device, home, late):
    buffer = device.pool.allocate(N, stream=home)
    graph = Graph(device)
    graph.add_fill(buffer, 1)
    executable = graph.instantiate()
    executable.launch(late)
    return [buffer, graph, executable]


def of_a_workspace(device, home, late):
    with madspace.stream(home):
        workspace = Workspace(scratch_op.N, device)
    scratch_op.run(workspace, 1, late)
    return [workspace]


def of_a_wrapped_array(device, home, late):
    workspace = Workspace.wrap(madspace.zeros(scratch_op.N, "u1", device=device, stream=home))
    scratch_op.run(workspace, 1, late)
    return [workspace]


def of_a_captured_workspace(device, home, late):
    things = of_a_workspace(device, home, late)
    with madspace.capture(late) as graph:
        scratch_op.run(things[0], 2, late)
    graph.instantiate().launch(late)
    return [*things, graph]


MAKERS = [of_a_buffer, of_a_tensor, of_a_graph, of_a_workspace, of_a_wrapped_array, of_a_captured_workspace]


@pytest.fixture
def collector():
    """Leave collecting to the test."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("cycle_first", [False, True])
def test_memory_waits_for_its_readers(fake, device, collector, make, cycle_first):
    """The collector goes by age: what notes the uses may be older than the cycle, or younger."""
    home, late = Stream(device), Stream(device)

    def drop():
        older = []
        things = make(device, home, late)
        cycle = older if cycle_first else []
        cycle += [*things, cycle]

    device.synchronize()
    fake.defer(late.handle)
    drop()
    assert "cuMemFreeAsync" not in fake.names()
    fake.clear_log()
    gc.collect()
    freed = [i for i, call in enumerate(fake.log()) if call.name == "cuMemFreeAsync"]
    waits = [
        i
        for i, call in enumerate(fake.log())
        if call.name == "cuStreamWaitEvent" and call.args["stream"] == home.handle
    ]
    assert len(freed) == 1
    assert waits
    assert waits[-1] < freed[0]
    fake.run(late.handle)


def test_page_locked_memory_waits_for_its_readers(fake, device, collector):
    late = Stream(device)
    target = device.pool.allocate(N, stream=late)
    device.synchronize()
    fake.defer(late.handle)

    def drop():
        pinned = PinnedBuffer(N)
        pinned.copy_to(target, stream=late)
        cycle = [pinned]
        cycle.append(cycle)
        return pinned.ptr

    busy = drop()
    gc.collect()
    assert PinnedBuffer(N).ptr != busy
    fake.run(late.handle)
