"""Workspaces: what they are made of, what ops may ask of them, growth and the end."""

import gc
import weakref

import numpy as np
import pytest
import scratch_op

from madspace.core.creation import asarray, zeros
from madspace.core.stream import Stream
from madspace.core.workspace import Workspace, WorkspaceLayout, take_workspace
from madspace.errors import (
    ClosedError,
    DeviceMismatchError,
    DriverError,
    OutOfMemoryError,
    WorkspaceError,
)

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
    assert Workspace(8, "cuda:0", stream.handle).stream == stream
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


@pytest.mark.parametrize("make", ["owned", "wrapped", "plain"])
@pytest.mark.parametrize("where", ["device", "cpu"])
def test_what_a_check_refuses(device, stream, make, where):
    owner = device if where == "device" else None
    made = {
        "owned": lambda: Workspace(N, device if owner else "cpu"),
        "wrapped": lambda: Workspace.wrap(zeros(N, "u1", device=owner or "cpu")),
        "plain": lambda: take_workspace(zeros(N, "u1", device=owner or "cpu"), stream=stream if owner else None),
    }
    workspace = made[make]()
    workspace.check(owner, N, stream if owner else None)
    with pytest.raises(WorkspaceError, match=f"scratch: too small: expected at least {N + 1} bytes, got {N}"):
        workspace.check(owner, N + 1, name="scratch")
    assert workspace.largest_request == N + 1
    other, text = (None, "memory of the CPU, got memory of cuda:0") if owner else (device, "cuda:0, got memory of the CPU")
    with pytest.raises(WorkspaceError, match=f"workspace: expected .*{text}"):
        workspace.check(other, N)
    workspace.close()
    with pytest.raises(ClosedError, match="workspace: expected an open workspace, got .*closed"):
        workspace.check(owner, N)


def test_a_check_looks_at_the_stream(device, stream):
    workspace = Workspace(N, device)
    stream.close()
    with pytest.raises(ClosedError, match="stream: expected an open stream"):
        workspace.check(device, N, stream)
    with pytest.raises(DeviceMismatchError, match="stream: expected None on the CPU"):
        Workspace(N, "cpu").check(None, N, device.default_stream)


def test_a_check_looks_at_the_address(device):
    tensor = zeros(N + 512, "u1", device=device)
    for workspace in (Workspace.wrap(tensor[128:]), take_workspace(tensor[128:])):
        with pytest.raises(WorkspaceError, match=f"aligned to 256 bytes, got {tensor.ptr + 128:#x}"):
            workspace.check(device, N)
        workspace.check(device, N, alignment=128)
    Workspace.wrap(tensor[256:]).check(device, N)
    host = asarray(np.zeros(N + 64, np.uint8))
    start = -host.ptr % 64
    Workspace.wrap(host[start + 16 :]).check(None, 100, alignment=256)  # arrays on the host have no more
    with pytest.raises(WorkspaceError, match="aligned to 16 bytes"):
        Workspace.wrap(host[start + 8 :]).check(None, 100)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(8, np.float32), "dtype uint8, got float32"),
        (np.zeros(8, np.int8), "dtype uint8, got int8"),
        (np.zeros((4, 4), np.uint8)[:, ::2], r"contiguous memory, got shape \(4, 2\) with strides \(4, 2\)"),
        (b"12345678", "writable memory, got a read-only array"),
    ],
    ids=["float32", "int8", "strided", "readonly"],
)
def test_arrays_that_are_no_workspace(array, message):
    with pytest.raises(WorkspaceError, match=f"array: expected {message}"):
        Workspace.wrap(array)
    with pytest.raises(WorkspaceError, match=f"scratch: expected {message}"):
        take_workspace(array, name="scratch")
    with pytest.raises(TypeError, match="array: expected an array"):
        Workspace.wrap([1, 2, 3])


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


def test_a_readonly_device_array(device):
    tensor = zeros(N, "u1", device=device)
    with pytest.raises(WorkspaceError, match="array: expected writable memory"):
        Workspace.wrap(Interface(tensor, data=(tensor.ptr, True)))


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
    for use in (workspace.tensor, lambda: workspace.before(stream), lambda: workspace.after(stream),
                lambda: workspace.require(8), workspace.__enter__):
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


def test_regions():
    layout = WorkspaceLayout()
    assert (layout.nbytes, layout.alignment, len(layout)) == (0, 1, 0)
    assert [layout.reserve(100), layout.reserve(0, alignment=1), layout.reserve(300), layout.reserve(8, alignment=8)] == [0, 1, 2, 3]
    assert [layout.offset(i) for i in range(4)] == [0, 100, 256, 560]
    assert [layout.size(i) for i in range(4)] == [100, 0, 300, 8]
    assert (layout.nbytes, layout.alignment, len(layout)) == (568, 256, 4)
    assert repr(layout) == "<WorkspaceLayout of 4 regions in 568 bytes, aligned to 256>"
    for index in (-1, 4):
        with pytest.raises(IndexError, match=f"index: expected a region from 0 to 3, got {index}"):
            layout.offset(index)


def test_regions_that_are_none():
    layout = WorkspaceLayout()
    for alignment in (0, -1, 3, 1 << 21):
        with pytest.raises(ValueError, match="alignment: expected a power of two from 1 to 1048576"):
            layout.reserve(8, alignment=alignment)
    with pytest.raises(ValueError, match="nbytes: expected 0 or more, got -1"):
        layout.reserve(-1)
    layout.reserve(1 << 61)
    for nbytes in (1 << 62, 1 << 70):
        with pytest.raises(OverflowError, match=r"at most 2\*\*62 bytes"):
            layout.reserve(nbytes)
    assert (layout.nbytes, len(layout)) == (1 << 61, 1)


@pytest.mark.parametrize("where", ["device", "cpu"])
def test_carving(device, where):
    layout = WorkspaceLayout()
    layout.reserve(100)
    layout.reserve(0)
    layout.reserve(50)
    workspace = Workspace(layout.nbytes, device if where == "device" else "cpu")
    first, none, last = workspace.carve(layout)
    assert (first.ptr, last.ptr) == (workspace.ptr, workspace.ptr + 256)
    assert [part.nbytes for part in (first, none, last)] == [100, 0, 50]
    last.copy_from(np.arange(50, dtype=np.uint8))
    assert workspace.tensor().numpy()[256:].tolist() == list(range(50))
    layout.reserve(1)
    with pytest.raises(WorkspaceError, match=f"too small: expected at least {layout.nbytes} bytes, got 306"):
        workspace.carve(layout)
    assert workspace.largest_request == layout.nbytes


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
    before = handles(fake)
    for name, error in fake.each_failure(actions[action]):
        assert isinstance(error, DriverError), f"the failure of {name} was lost"
        del error
        kept.clear()
        if name not in ("cuCtxPopCurrent", "cuMemFreeAsync"):  # the memory was handed out, or is lost
            assert handles(fake) == before, name
        workspace.check(device, N)
        scratch_op.run(workspace, 1, streams[0])


def handles(fake):
    """Count what lives, but for idle events."""
    return {kind: n for kind, n in fake.counts().items() if kind != "event"}
