"""Driver calls of the tests themselves, apart from the code under test: what a foreign library would do."""

from __future__ import annotations

import contextlib
import functools

import numpy as np
from cuda.bindings import driver


def checked(result):
    """Return what a driver call gave, without its code, which must be success."""
    code, *values = result
    assert code == driver.CUresult.CUDA_SUCCESS, code.name
    return values[0] if len(values) == 1 else tuple(values)


class current:
    """Make the primary context of a device current for a block."""

    def __init__(self, device_id=0):
        checked(driver.cuInit(0))
        self.device = checked(driver.cuDeviceGet(device_id))

    def __enter__(self):
        self.context = checked(driver.cuDevicePrimaryCtxRetain(self.device))
        checked(driver.cuCtxPushCurrent(self.context))
        return self.context

    def __exit__(self, *exception):
        checked(driver.cuCtxPopCurrent())
        checked(driver.cuDevicePrimaryCtxRelease(self.device))


class ForeignStream:
    """A stream that another library made; non-blocking unless flags say otherwise."""

    def __init__(self, device_id=0, flags=1):
        self.device_id = device_id
        with current(device_id):
            self.raw = checked(driver.cuStreamCreate(flags))

    @property
    def handle(self):
        """The handle as an int."""
        return int(self.raw)

    def __cuda_stream__(self):
        """Answer the stream protocol."""
        return 0, self.handle

    def destroy(self):
        """End it."""
        with current(self.device_id):
            checked(driver.cuStreamDestroy(self.raw))


class Block:
    """Device memory of another library: ``n`` uint32 on device 0, zero at first."""

    def __init__(self, n=1024):
        self.n = n
        with current(0):
            self.ptr = checked(driver.cuMemAlloc(4 * n))
            checked(driver.cuMemcpyHtoD(self.ptr, bytes(4 * n), 4 * n))

    def fill(self, value, stream):
        """Queue a fill on a stream."""
        with current(0):
            checked(driver.cuMemsetD32Async(self.ptr, value, self.n, stream.handle))

    def read(self, stream):
        """Copy to the host, ordered on a stream, waiting for it."""
        out = np.empty(self.n, np.uint32)
        with current(0):
            checked(driver.cuMemcpyDtoHAsync(out.ctypes.data, self.ptr, out.nbytes, stream.handle))
            checked(driver.cuStreamSynchronize(stream.handle))
        return out

    def free(self):
        """Give it back."""
        with current(0):
            checked(driver.cuMemFree(self.ptr))


@contextlib.contextmanager
def capturing(stream, mode=driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL, launches=0):
    """Capture a stream for a block; the capture must be intact at the end, and is launched there so many times."""
    with current(stream.device.id):
        checked(driver.cuStreamBeginCapture(stream.handle, mode))
    try:
        yield
    finally:
        with current(stream.device.id):
            code, graph = driver.cuStreamEndCapture(stream.handle)
    assert code == driver.CUresult.CUDA_SUCCESS, f"the capture ended with {code.name}"
    with current(stream.device.id):
        if launches:
            executable = checked(driver.cuGraphInstantiate(graph, 0))
            for _ in range(launches):
                checked(driver.cuGraphLaunch(executable, stream.handle))
            checked(driver.cuStreamSynchronize(stream.handle))
            checked(driver.cuGraphExecDestroy(executable))
        checked(driver.cuGraphDestroy(graph))


def current_context():
    """Return the handle of this thread's current context, 0 for none."""
    return int(checked(driver.cuCtxGetCurrent()))


@functools.cache
def _kernel(image, name):
    library = checked(driver.cuLibraryLoadData(image, None, None, 0, None, None, 0))
    return checked(driver.cuLibraryGetKernel(library, name.encode()))


def launch(image, name, stream_handle, *args, grid=1, block=128):
    """Launch a kernel of the image with NumPy scalars as parameters, on a stream of device 0."""
    cells = [np.array(arg) for arg in args]
    pointers = np.array([cell.ctypes.data for cell in cells], dtype=np.uint64)
    with current(0):
        kernel = _kernel(image, name)
        function = driver.CUfunction(int(kernel))
        checked(driver.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream_handle, pointers.ctypes.data, 0))


def spin(image, stream_handle, ms):
    """Keep a stream of device 0 busy for a time."""
    launch(image, "ms_test_spin", stream_handle, np.uint64(ms * 1_000_000), block=1)


def capture_status(stream_handle):
    """Return 0 for no capture, 1 for an active one, 2 for a broken one."""
    with current(0):
        return int(checked(driver.cuStreamIsCapturing(stream_handle)))
