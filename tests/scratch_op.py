"""An op that needs a workspace: it fills the workspace with a byte, and copies it from there to its output."""

import functools

import numpy as np
from cuda.bindings import driver
from raw_driver import checked

from madspace.core.stream import Stream
from madspace.core.workspace import Workspace, take_workspace

N = 4096  # bytes that it needs


@functools.cache
def _context(device_id):
    return checked(driver.cuDevicePrimaryCtxRetain(checked(driver.cuDeviceGet(device_id))))


class _Current:
    """Make a device's context current, by nothing that a capture could mind."""

    def __init__(self, device_id):
        self.context = _context(device_id)

    def __enter__(self):
        checked(driver.cuCtxPushCurrent(self.context))

    def __exit__(self, *exception):
        checked(driver.cuCtxPopCurrent())


def same_stream(stream, kind):
    """Return a Stream for the same handle: "own", with an "owner", or "bare"."""
    if kind == "own":
        return stream
    return Stream.from_handle(stream.handle, owner=stream if kind == "owner" else None)


def late_stream(device, delay):
    """Return a stream on which everything happens late, and on which the op has been run before."""
    stream, out = Stream(device), device.pool.allocate(N)
    run(Workspace(N, device), 0, stream, out.ptr)  # what the driver does once is done before the delay
    delay(stream)
    return stream


def run(workspace, value, stream, out=None):
    """Queue the op on a stream; `out` is the address of N bytes on the device, or None for no output."""
    workspace = take_workspace(workspace, stream=stream)
    workspace.check(stream.device, N, stream)
    workspace.before(stream)
    try:
        with _Current(stream.device.id):
            checked(driver.cuMemsetD8Async(workspace.ptr, value, N, stream.handle))
            if out is not None:
                checked(driver.cuMemcpyDtoDAsync(out, workspace.ptr, N, stream.handle))
    finally:
        workspace.after(stream)


def content(ptr):
    """Return the value of all N bytes at a device address, which must be equal, when device 0 has done everything."""
    found = np.empty(N, np.uint8)
    with _Current(0):
        checked(driver.cuCtxSynchronize())
        checked(driver.cuMemcpyDtoH(found.ctypes.data, ptr, N))
    (value,) = np.unique(found)
    return value
