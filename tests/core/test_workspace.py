"""Workspaces: what they are made of, growth and the end."""

import gc
import weakref

import numpy as np
import pytest
import scratch_op

from madspace.core.creation import asarray, zeros
from madspace.core.stream import Stream
from madspace.core.workspace import Workspace, take_workspace
from madspace.errors import ClosedError, DeviceMismatchError, DriverError, OutOfMemoryError, WorkspaceError

N = scratch_op.N


class Interface:
    """An array of another library that speaks __cuda_array_interface__."""

    def __init__(self, tensor, **changes):
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, **changes}


def test_a_new_workspace(device, stream):
    workspace = Workspace(1000, device, stream)
    assert workspace.ptr % 256 == 0
    assert workspace.nbytes == len(workspace) == 1000
    assert (workspace.device, workspace.device_id, workspace.stream) == (device, 0, stream)
    assert (workspace.closed, workspace.borrowed, workspace.largest_request) == (False, False, 0)
    assert repr(workspace) == f"<Workspace {workspace.ptr:#x} of 1000 bytes on device 0, open>"


def test_where_it_is(device, stream):
    assert Workspace(8).stream == device.default_stream
    assert Workspace(8, stream=stream).stream == stream
    assert Workspace(8, "cuda:0", stream.handle).stream == device.default_stream  # a handle may die
    host = Workspace(8, "cpu")
    assert (host.device, host.device_id, host.stream) == ("cpu", None, None)
    assert host.ptr % 64 == 0


@pytest.mark.multi_gpu
def test_the_stream_tells_the_device(device, other_device):
    stream = Stream(other_device)
    workspace = Workspace(N, stream=stream)
    assert workspace.device is other_device
    with pytest.raises(WorkspaceError, match=r"expected a CUDA tensor or Workspace of cuda:0, got memory of cuda:1"):
        workspace.check(device, N)
    with pytest.raises(DeviceMismatchError, match="stream: expected one of device 0"):
        Workspace(N, device).check(device, N, stream)
    with pytest.raises(DeviceMismatchError, match="stream: expected one of device 0"):
        Workspace(N, device, stream)


def test_sizes_that_are_none(device):
    for nbytes in (-1, 2**63):
        with pytest.raises(WorkspaceError, match=rf"nbytes: expected 0 to 2\*\*62, got {nbytes}"):
            Workspace(nbytes, device)
    with pytest.raises(OutOfMemoryError, match="asked for"):
        Workspace(device.total_memory + (1 << 30), device)
    with pytest.raises(ValueError, match="stream: expected None on the cpu"):
        Workspace(8, "cpu", 1)
    workspace = Workspace(0, device)
    workspace.check(device, 0)
    assert (workspace.ptr, workspace.nbytes) == (0, 0)


def test_what_can_be_wrapped_on_the_host():
    for array in (np.zeros((3, 8), np.uint8), bytearray(24), asarray(np.zeros(24, np.uint8))):
        workspace = Workspace.wrap(array)
        assert (workspace.nbytes, workspace.device, workspace.borrowed) == (24, "cpu", True)
        workspace.before(None)
        workspace.after(None)


@pytest.mark.parametrize("kind", ["tensor", "interface"])
def test_what_can_be_wrapped_on_a_device(device, stream, kind):
    tensor = zeros((2, N), "u1", device=device)
    array = tensor if kind == "tensor" else Interface(tensor, stream=stream.handle)
    workspace = Workspace.wrap(array)
    assert (workspace.ptr, workspace.nbytes, workspace.device) == (tensor.ptr, 2 * N, device)
    scratch_op.run(workspace, 7, stream)
    assert scratch_op.content(tensor.ptr) == 7
    workspace.close()
    assert tensor.numpy()[0].tolist() == [7] * N


@pytest.mark.parametrize("end", ["close", "drop"])
def test_a_wrapped_array_is_kept_and_let_go(device, stream, end):
    array = Interface(zeros(N, "u1", device=device))
    alive = weakref.ref(array)
    workspace = Workspace.wrap(array)
    scratch_op.run(workspace, 1, stream)
    del array
    gc.collect()
    assert alive() is not None
    stream.synchronize()
    workspace.close()
    if end == "drop":
        del workspace
    zeros(8, device=device)
    Workspace.wrap(Interface(zeros(N, "u1", device=device)))  # what was held until its work was done goes now
    gc.collect()
    assert alive() is None


def test_a_workspace_is_taken_as_it_is(device):
    workspace = Workspace(N, device)
    assert take_workspace(workspace) is workspace


def test_growth(device, stream):
    workspace = Workspace(100, device, stream)
    ptr = workspace.ptr
    workspace.require(50)
    workspace.require(100)
    assert (workspace.ptr, workspace.nbytes) == (ptr, 100)
    workspace.require(N)
    assert (workspace.nbytes, workspace.largest_request) == (N, N)
    scratch_op.run(workspace, 3, Stream(device))
    assert scratch_op.content(workspace.ptr) == 3
    host = Workspace(10, "cpu")
    host.require(1000)
    host.check(None, 1000)


def test_growth_after_the_stream_was_closed(device, stream):
    workspace = Workspace(8, device, stream)
    stream.close()
    workspace.require(N)
    assert workspace.stream == device.default_stream
    workspace.require(2 * N, stream=Stream(device))


def test_growth_that_fails_changes_nothing(device):
    workspace = Workspace(N, device)
    ptr = workspace.ptr
    with pytest.raises(OutOfMemoryError):
        workspace.require(device.total_memory + (1 << 30))
    assert (workspace.ptr, workspace.nbytes) == (ptr, N)
    with pytest.raises(WorkspaceError, match=f"too small: expected at least {N + 1} bytes, got {N} borrowed"):
        Workspace.wrap(zeros(N, "u1", device=device)).require(N + 1)


def test_nothing_changes_within_a_use(device, stream):
    workspace = Workspace(N, device)
    workspace.before(stream)
    for change in (lambda: workspace.require(2 * N), workspace.close):
        with pytest.raises(WorkspaceError, match="no use by this thread to go on"):
            change()
    with pytest.raises(WorkspaceError, match="the stream of the call that uses it"):
        workspace.before(Stream(device))
    workspace.before(stream)  # an op within the op
    workspace.after(stream)
    workspace.after(stream)
    with pytest.raises(WorkspaceError, match=r"expected a before\(\) of this thread"):
        workspace.after(stream)
    workspace.close()


def test_the_end(device, stream):
    workspace = Workspace(N, device, stream)
    with workspace as same:
        assert same is workspace
    workspace.close()
    assert (workspace.closed, workspace.ptr, workspace.stream) == (True, 0, None)
    assert "closed" in repr(workspace)
    for use in (
        workspace.tensor,
        lambda: workspace.before(stream),
        lambda: workspace.after(stream),
        lambda: workspace.require(8),
        workspace.__enter__,
    ):
        with pytest.raises(ClosedError, match="workspace: expected an open workspace"):
            use()


@pytest.mark.parametrize("end", ["close", "drop"])
def test_every_end_frees_once(fake, device, stream, end):
    before = fake.counts()["device_memory"]
    workspace = Workspace(N, device, stream)
    ptr = workspace.ptr
    scratch_op.run(workspace, 1, Stream(device))
    fake.clear_log()
    if end == "close":
        workspace.close()
    del workspace
    assert [call.args for call in fake.log("cuMemFreeAsync")] == [{"ptr": ptr, "stream": stream.handle}]
    assert fake.counts()["device_memory"] == before


def test_views_keep_the_memory(fake, device):
    before = fake.counts()["device_memory"]
    workspace = Workspace(N, device)
    view = workspace.tensor()
    assert (view.shape, view.dtype, view.ptr) == ((N,), np.uint8, workspace.ptr)
    workspace.require(2 * N)
    workspace.close()
    assert view.numpy().shape == (N,)
    del view
    assert fake.counts()["device_memory"] == before


@pytest.mark.parametrize("action", ["make", "use elsewhere", "use a bare stream", "grow", "close", "view", "wrap"])
def test_each_failure_leaves_nothing(fake, device, action):
    tensor = zeros(N, "u1", device=device)
    streams = [Stream(device), Stream(device)]
    bare = [Stream.from_handle(stream.handle) for stream in streams]
    workspace, kept = Workspace(N, device), []

    def use(choice):
        for stream in choice:
            workspace.before(stream)
            workspace.after(stream)

    def close():
        with Workspace(N, device, streams[0]) as closed:
            kept.append(closed)
            closed.before(streams[1])
            closed.after(streams[1])

    def grow():
        kept.append(Workspace(8, device))
        kept[-1].before(streams[0])
        kept[-1].after(streams[0])
        kept[-1].require(N)

    actions = {
        "make": lambda: kept.append(Workspace(N, device, streams[0])),
        "use elsewhere": lambda: use(streams),
        "use a bare stream": lambda: use(bare),
        "grow": grow,
        "close": close,
        "view": lambda: kept.append(Workspace(N, device).tensor()),
        "wrap": lambda: kept.append(Workspace.wrap(Interface(tensor, stream=streams[1].handle))),
    }
    actions[action]()
    kept.clear()
    before = fake.handles()
    for name, error in fake.each_failure(actions[action]):
        if error is None:  # a free does what destructors do, which cannot tell of this one
            assert name == "cuCtxPopCurrent"
            assert "cuMemFreeAsync" in fake.names()[-3:]
            continue
        assert isinstance(error, DriverError)
        freeing = error.call == "cuMemFreeAsync"
        del error
        kept.clear()
        if name != "cuCtxPopCurrent" and not freeing:  # the memory was handed out, or is lost
            assert fake.handles() == before, name
        workspace.check(device, N)
        scratch_op.run(workspace, 1, streams[0])
