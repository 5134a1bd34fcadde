"""Workspaces in captures: ordered within one, refused in two at a time, and apart from all other uses."""

import pytest
import scratch_op
from cuda.bindings import driver
from raw_driver import ForeignStream, capturing, checked, current

from madspace.core.capture import capture
from madspace.core.creation import zeros
from madspace.core.stream import Stream
from madspace.core.workspace import Workspace
from madspace.errors import CaptureError, DriverError, WorkspaceError

N = scratch_op.N
MODES = [mode for mode in driver.CUstreamCaptureMode if "INVALID" not in mode.name]


@pytest.fixture
def late(device, delay):
    """Return a stream on which everything happens late."""
    return scratch_op.late_stream(device, delay)


@pytest.mark.parametrize("kind", ["own", "bare"])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name[23:].lower())
def test_two_streams_of_one_capture(device, workspace, stream, mode, kind):
    side = Stream(device)
    with capturing(stream, mode):
        side.wait(stream)
        scratch_op.run(workspace, 1, scratch_op.same_stream(side, kind))
        # That the side stream's work comes before this is all that joins it to the capture again.
        scratch_op.run(workspace, 2, scratch_op.same_stream(stream, kind))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name[23:].lower())
def test_two_captures_at_the_same_time_are_refused_and_go_on(device, workspace, stream, mode):
    other = Stream(device)
    with capturing(stream, mode), capturing(other, mode):
        scratch_op.run(workspace, 1, stream)
        for refused in (lambda: scratch_op.run(workspace, 2, other), lambda: workspace.require(2 * N)):
            with pytest.raises(CaptureError, match="workspace: "):
                refused()
        scratch_op.run(workspace, 3, stream)
    scratch_op.run(workspace, 4, other)
    assert scratch_op.content(workspace.ptr) == 4


@pytest.mark.parametrize("kind", ["own", "owner", "bare"])
def test_one_capture_after_the_other(device, workspace, kind):
    for _ in range(3):
        foreign = ForeignStream()
        stream = Stream(device)
        if kind != "own":
            stream = Stream.from_handle(foreign.handle, owner=foreign if kind == "owner" else None)
        with capturing(stream):
            scratch_op.run(workspace, 1, stream)
        if kind == "bare":
            foreign.destroy()  # the next capture must not ask it


def test_captured_uses_and_others_are_apart(device, workspace, stream, late):
    other = Stream(device)
    scratch_op.run(workspace, 1, late)
    with capturing(stream):
        scratch_op.run(workspace, 2, stream)  # does not reach out of the capture
        scratch_op.run(workspace, 3, other)  # and this one does not wait for something inside of it
        assert not other.is_capturing
    scratch_op.run(workspace, 4, stream)
    assert scratch_op.content(workspace.ptr) == 4


def test_a_wait_for_a_captured_stream_is_refused(device, workspace, stream):
    other = Stream(device)
    scratch_op.run(workspace, 1, stream)
    with capturing(stream):
        with pytest.raises(CaptureError, match="which used it last, is being captured"):
            scratch_op.run(workspace, 2, other)
        assert not other.is_capturing
    scratch_op.run(workspace, 3, other)
    assert scratch_op.content(workspace.ptr) == 3


def test_growth_in_a_capture_is_refused_and_the_capture_goes_on(device, workspace, stream):
    with capturing(stream):
        workspace.require(N)  # nothing to do
        with pytest.raises(CaptureError, match="cannot grow during a capture"):
            workspace.require(N + 1, stream=stream)
    workspace.require(N + 1, stream=stream)


@pytest.mark.parametrize("end", ["close", "drop"])
@pytest.mark.parametrize("captured", ["own", "last"])
def test_a_free_in_a_capture_is_put_off(fake, device, stream, captured, end):
    before = fake.counts()["device_memory"]
    last = Stream(device)
    workspace = Workspace(N, device, stream)
    scratch_op.run(workspace, 1, last)
    with capturing(stream if captured == "own" else last):
        if end == "close":
            workspace.close()
        del workspace
        assert fake.counts()["device_memory"] == before + 1
        device.pool.allocate(8).close()
        assert fake.counts()["device_memory"] == before + 1
    device.pool.allocate(8).close()
    assert fake.counts()["device_memory"] == before


def test_a_broken_capture_is_told(fake, device, workspace, stream):
    with current(0):
        checked(driver.cuStreamBeginCapture(stream.handle, MODES[0]))
        assert driver.cuStreamSynchronize(stream.handle)[0] != driver.CUresult.CUDA_SUCCESS
        with pytest.raises(CaptureError, match="cuStreamGetCaptureInfo"):
            scratch_op.run(workspace, 1, stream)
        assert driver.cuStreamEndCapture(stream.handle)[0] != driver.CUresult.CUDA_SUCCESS
    scratch_op.run(workspace, 1, stream)


def test_each_failure_in_a_capture_leaves_nothing(fake, device, stream):
    side = Stream(device)
    kept = []

    def action():
        kept.append(Workspace.wrap(tensor))
        for where in (side, stream):
            kept[0].before(where)
            kept[0].after(where)

    tensor = zeros(N, "u1", device=device)
    with capturing(stream):
        side.wait(stream)
        action()
        kept.clear()
        before = fake.counts()
        for name, error in fake.each_failure(action):
            assert isinstance(error, DriverError), f"the failure of {name} was lost"
            del error
            kept.clear()
            assert fake.counts() == before, name
        stream.wait(side)


def test_a_graph_keeps_a_workspace_and_orders_its_launches(device, workspace, stream, late):
    out = device.pool.allocate(N, stream=stream)
    with capture(stream) as graph:
        scratch_op.run(workspace, 5, stream, out.ptr)
    executable = graph.instantiate()
    executable.launch(late)
    scratch_op.run(workspace, 6, stream)  # behind the late launch, which copies what it has written
    assert scratch_op.content(workspace.ptr) == 6
    assert scratch_op.content(out.ptr) == 5
    del workspace, graph
    executable.launch(stream)
    assert scratch_op.content(out.ptr) == 5


def test_a_launch_that_fails_gives_its_turn_back(fake, device, workspace, stream):
    with capture(stream) as graph:
        scratch_op.run(workspace, 5, stream)
    executable = graph.instantiate()
    with fake.failing("cuGraphLaunch"), pytest.raises(DriverError, match="cuGraphLaunch"):
        executable.launch(stream)
    with pytest.raises(WorkspaceError, match=r"before\(\) of this thread"):
        workspace.after(stream)
