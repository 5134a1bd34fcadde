"""How the uses of a workspace on several streams are ordered on the device.

"late" is a stream whose work comes after everything that does not wait for it.
"""

from contextlib import nullcontext

import pytest
import scratch_op
from raw_driver import ForeignStream

from madspace.core.capture import capture
from madspace.core.creation import asarray, zeros
from madspace.core.stream import Stream
from madspace.core.workspace import Workspace
from madspace.errors import CaptureError, DriverError

N = scratch_op.N


@pytest.fixture
def late(device, delay):
    """Return a stream on which everything happens late."""
    return scratch_op.late_stream(device, delay)


@pytest.mark.parametrize("second", ["own", "owner", "bare"])
@pytest.mark.parametrize("first", ["own", "owner", "bare"])
def test_a_use_waits_for_the_one_before(device, workspace, block, late, first, second):
    scratch_op.run(workspace, 1, scratch_op.same_stream(late, first))
    other = Stream(device)
    scratch_op.run(workspace, 2, scratch_op.same_stream(other, second), int(block.ptr))
    assert not late.query()  # the host has not waited
    assert scratch_op.content(int(block.ptr)) == 2
    assert scratch_op.content(workspace.ptr) == 2


def test_a_use_waits_for_all_before(device, workspace, late):
    scratch_op.run(workspace, 1, late)
    for value in (2, 3, 4):
        scratch_op.run(workspace, value, Stream(device))
    assert scratch_op.content(workspace.ptr) == 4


@pytest.mark.parametrize("how", ["wrap", "view"])
def test_uses_of_a_tensor_and_of_its_workspace_are_ordered(device, stream, delay, how):
    late, ones = Stream(device), asarray(b"\1" * N, device)
    if how == "wrap":
        tensor = zeros(N, "u1", device=device)
        workspace = Workspace.wrap(tensor)
    else:
        workspace = Workspace(N, device)
        tensor = workspace.tensor()
    delay(late)
    tensor.copy_from(ones, stream=late)
    scratch_op.run(workspace, 2, stream)
    assert tensor.numpy().tolist() == [2] * N
    delay(late)
    scratch_op.run(workspace, 3, late)
    assert tensor.numpy().tolist() == [3] * N


def test_a_view_sees_the_use_before_it(workspace, late):
    scratch_op.run(workspace, 5, late)
    assert workspace.tensor().numpy().tolist() == [5] * N


def test_a_wrapped_array_comes_behind_its_producer(device, block, late, stream):
    class Interface:
        def __init__(self, block):
            self.__cuda_array_interface__ = {
                "shape": (4 * block.n,),
                "typestr": "|u1",
                "version": 3,
                "data": (int(block.ptr), False),
                "stream": late.handle,
            }

    block.fill(1, late)
    workspace = Workspace.wrap(Interface(block))
    scratch_op.run(workspace, 2, stream)
    assert scratch_op.content(int(block.ptr)) == 2


@pytest.mark.parametrize("change", ["close", "grow"])
def test_the_memory_goes_back_behind_the_last_use(device, stream, block, late, change):
    workspace = Workspace(N, device, stream)
    scratch_op.run(workspace, 5, late, int(block.ptr))
    if change == "close":
        workspace.close()
    else:
        workspace.require(2 * N)
    assert not late.query()
    again = device.pool.allocate(N, stream=stream)
    again.fill(6)  # may well be the same memory
    assert scratch_op.content(int(block.ptr)) == 5


def test_one_stream_queues_no_events(fake, workspace, stream):
    workspace.before(stream)
    workspace.after(stream)
    fake.clear_log()
    for _ in range(10):
        workspace.before(stream)
        workspace.after(stream)
    assert set(fake.names()) <= {"cuStreamIsCapturing", "cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent"}


def test_a_bare_stream_creates_no_events_for_long(fake, device, workspace, stream):
    for _ in range(3):
        scratch_op.run(workspace, 1, scratch_op.same_stream(stream, "bare"))
    fake.clear_log()
    scratch_op.run(workspace, 1, scratch_op.same_stream(stream, "bare"))
    assert "cuEventCreate" not in fake.names()


def test_streams_that_are_gone(device, workspace, stream):
    foreign = ForeignStream()
    scratch_op.run(workspace, 1, Stream.from_handle(foreign.handle))
    device.synchronize()
    foreign.destroy()
    scratch_op.run(workspace, 2, stream)  # a use of the dead handle would be a fault
    stream.close()
    scratch_op.run(workspace, 3, Stream(device))
    assert scratch_op.content(workspace.ptr) == 3
    workspace.close()


def test_a_stream_ends_when_the_next_one_comes(fake, device, workspace):
    before = fake.counts()["stream"]
    stream = Stream(device)
    scratch_op.run(workspace, 1, stream)
    stream.close()
    assert fake.counts()["stream"] == before + 1
    del stream
    scratch_op.run(workspace, 1, device.default_stream)
    assert fake.counts()["stream"] == before


@pytest.mark.parametrize("name", ["cuEventRecord", "cuEventCreate", "cuStreamIsCapturing"])
@pytest.mark.parametrize("capturing", [False, True], ids=["alone", "beside a capture"])
def test_a_use_that_cannot_be_noted_is_over_before_the_next(fake, device, block, name, capturing):
    """Of a stream whose handle may be dead later: it has to be noted at once, also where another stream is captured."""
    aside, n_noted = Stream(device), 0
    for nth in range(1, 30):
        workspace, bare = Workspace(N, device), scratch_op.same_stream(late := Stream(device), "bare")
        scratch_op.run(workspace, 9, Stream(device))  # an earlier use
        with capture(aside) if capturing else nullcontext():
            fake.defer(late)
            fake.clear_log()
            fake.fail(name, nth)
            try:
                scratch_op.run(workspace, 1, bare)
            except DriverError:
                n_noted += "cuMemsetD8Async" in fake.names()
            is_last = not fake.failures_fired()
            fake.clear_failures()
        scratch_op.run(workspace, 2, Stream(device), int(block.ptr))
        assert scratch_op.content(int(block.ptr)) == scratch_op.content(workspace.ptr) == 2
        if is_last:
            break
    else:
        pytest.fail("expected a use without a failure at last")
    assert n_noted or name == "cuEventCreate" or (name == "cuStreamIsCapturing" and not capturing)


def test_a_captured_use_that_cannot_be_noted_lets_no_other_stream_in(fake, device, stream):
    """In a capture a stream that did not wait would be out of order at every launch."""
    workspace, other = Workspace(N, device), Stream(device)
    with capture(stream):
        other.wait(stream)
        with fake.failing("cuEventRecord"), pytest.raises(DriverError):
            scratch_op.run(workspace, 1, stream)
        scratch_op.run(workspace, 2, stream)  # in order as it is, and noted
        with fake.failing("cuEventRecord"), pytest.raises(DriverError):
            scratch_op.run(workspace, 3, stream)
        with pytest.raises(CaptureError, match="its last use in this capture could not be noted"):
            scratch_op.run(workspace, 4, other)
        stream.wait(other)
