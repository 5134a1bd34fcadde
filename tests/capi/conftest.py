"""What tests of the C API start from: its table by ctypes, and handles of devices and of a stream."""

import ctypes

import pytest
from capi_table import Table

import madspace

N = 1024  # words


@pytest.fixture(scope="session")
def api():
    """Return the table; calls give the GIL up."""
    return Table(madspace._C_API)


@pytest.fixture(scope="session")
def held():
    """Return the table; calls keep the GIL."""
    return Table(madspace._C_API, keep_gil=True)


@pytest.fixture
def cpu(api):
    """Return the handle of the CPU."""
    return api.make("device_get", api.MS_DEVICE_CPU, 0)


@pytest.fixture
def gpu(api, device):
    """Return the handle of device 0."""
    return api.make("device_get", api.MS_DEVICE_CUDA, 0)


@pytest.fixture
def queue(api, gpu):
    """Return the handle of a new stream of device 0."""
    handle = api.make("stream_create", gpu, 0)
    yield handle
    api.stream_release(handle)


@pytest.fixture
def memory(api, gpu, queue):
    """Return the address of 1024 words on device 0, all zero."""
    address = api.make("alloc", gpu, 4 * N, queue)
    api.fill(gpu, address, 0, 4 * N, queue)
    yield address
    api.free(gpu, address, queue)


@pytest.fixture
def fill_kernel(api, kernels_ptx):
    """Return the handle of ``ms_test_fill(out, value, n)``."""
    module = api.make("module_load", kernels_ptx, len(kernels_ptx), b"kernels")
    kernel = api.make("kernel_get", module, b"ms_test_fill")
    api.module_release(module)
    yield kernel
    api.kernel_release(kernel)


@pytest.fixture
def words(api, gpu, queue):
    """Return a function that brings words at an address to the host, behind the queue."""

    def read(address, n=N):
        host = (ctypes.c_uint32 * n)()
        api.copy(gpu, host, address, 4 * n, queue)
        api.stream_synchronize(queue)
        return list(host)

    return read
