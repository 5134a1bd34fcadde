"""What ops check of a workspace, and which arrays are none."""

import numpy as np
import pytest
import scratch_op

from madspace.core.creation import asarray, zeros
from madspace.core.workspace import Workspace, take_workspace
from madspace.errors import ClosedError, DeviceMismatchError, WorkspaceError

N = scratch_op.N


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
    here, there = ("cuda:0", "the CPU") if owner else ("the CPU", "cuda:0")
    with pytest.raises(WorkspaceError, match=f"workspace: expected .* of {there}, got memory of {here}"):
        workspace.check(None if owner else device, N)
    workspace.close()
    with pytest.raises(ClosedError, match=r"workspace: expected an open workspace, got .*closed"):
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


def test_a_readonly_device_array(device):
    tensor = zeros(N, "u1", device=device)

    class ReadOnly:
        def __init__(self):
            self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "data": (tensor.ptr, True)}

    with pytest.raises(WorkspaceError, match="array: expected writable memory"):
        Workspace.wrap(ReadOnly())
