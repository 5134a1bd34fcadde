"""Memory of the C API: from the pool and on the CPU, counted, refused where it must be; workspaces."""

import ctypes
import gc
import threading

import numpy as np
import pytest
from capi_table import fill, refused
from raw_driver import capturing

import madspace

ROOM = ctypes.byref(ctypes.c_void_p())
TWO_MIB = 1 << 21


@pytest.mark.parametrize("nbytes", [1, 100, 1 << 20])
def test_host_memory(api, cpu, nbytes):
    address = api.make("alloc", cpu, nbytes, None)
    assert address % 64 == 0
    ctypes.memset(address, 7, nbytes)
    target = ctypes.create_string_buffer(nbytes)
    api.copy(cpu, target, address, nbytes, None)
    assert target.raw == b"\7" * nbytes
    api.fill(cpu, address, 9, nbytes, None)
    assert ctypes.string_at(address, nbytes) == b"\11" * nbytes
    api.free(cpu, address, None)


def test_no_bytes(api, cpu, gpu, queue):
    assert api.make("alloc", cpu, 0, None) is None
    assert api.make("alloc", gpu, 0, queue) is None
    api.free(gpu, None, queue)
    api.copy(gpu, None, None, 0, queue)
    api.fill(gpu, None, 0, 0, queue)


def test_too_much(api, cpu, gpu, queue, device):
    before = device.pool.stats()
    assert "host memory" in refused("MS_ERROR_MEMORY", api.alloc, cpu, 1 << 60, None, ROOM)
    for nbytes in (1 << 50, (1 << 64) - 1):
        assert "asked for" in refused("MS_ERROR_MEMORY", api.alloc, gpu, nbytes, queue, ROOM)
    assert api.last_driver_code() == 2
    assert device.pool.stats().current_bytes == before.current_bytes


def test_what_was_not_allocated_is_not_freed(api, cpu, gpu, queue):
    address, other = api.make("alloc", gpu, 512, queue), api.make("alloc", cpu, 512, None)
    for place, stream, wrong in ((cpu, None, address), (gpu, queue, other), (gpu, queue, address + 8), (cpu, None, 64)):
        assert "ms_alloc" in refused("MS_ERROR_ARGUMENT", api.free, place, wrong, stream)
    api.free(gpu, address, queue)
    api.free(cpu, other, None)
    refused("MS_ERROR_ARGUMENT", api.free, gpu, address, queue)
    refused("MS_ERROR_ARGUMENT", api.free, cpu, other, None)


def test_memory_is_counted_with_that_of_buffers(api, gpu, queue, device):
    before = device.pool.stats()
    buffer = device.pool.allocate(1000)
    address = api.make("alloc", gpu, 3000, queue)
    now = device.pool.stats()
    assert now.current_bytes - before.current_bytes == 4000
    assert now.total_count - before.total_count == 2
    api.free(gpu, address, queue)
    buffer.close()
    assert device.pool.stats().current_bytes == before.current_bytes


def test_observers_see_it(api, gpu, queue):
    outside = api.make("alloc", gpu, 100, queue)
    with madspace.statistics() as seen:
        address = api.make("alloc", gpu, 700, queue)
        api.free(gpu, address, queue)
        address = api.make("alloc", gpu, 50, queue)
        api.free(gpu, outside, queue)
    assert (seen.total_bytes, seen.total_count) == (750, 2)
    api.free(gpu, address, queue)


def test_the_limit_of_the_pool_holds(api, gpu, queue, device):
    device.pool.limit = device.pool.stats().current_bytes + 1000
    try:
        address = api.make("alloc", gpu, 800, queue)
        assert "limit" in refused("MS_ERROR_MEMORY", api.alloc, gpu, 300, queue, ROOM)
    finally:
        device.pool.limit = None
    api.free(gpu, address, queue)


def test_an_allocator_of_another_library_serves(api, gpu, queue, device, words):
    calls = []
    pool = madspace.MemoryPool(device)
    kept = {}

    def allocate(nbytes, number, stream):
        buffer = pool.allocate(nbytes, stream=stream)
        kept[buffer.ptr] = buffer
        calls.append(("allocate", nbytes))
        return buffer.ptr

    def free(ptr, nbytes, number, stream):
        calls.append(("free", nbytes))
        kept.pop(ptr).close()

    madspace.set_allocator(device, allocate, free)
    try:
        address = api.make("alloc", gpu, 4096, queue)
        api.fill(gpu, address, 1, 4096, queue)
        assert words(address)[0] == 0x01010101
    finally:
        madspace.set_allocator(device, None)
    api.free(gpu, address, queue)  # to whom it came from
    gc.collect()
    assert calls == [("allocate", 4096), ("free", 4096)]


def test_freed_memory_waits_for_the_stream(api, gpu, delay, fill_kernel):
    late = api.make("stream_create", gpu, 0)
    address = api.make("alloc", gpu, 4096, late)
    delay(api.object("stream_to_object", late))
    fill(api, fill_kernel, late, address, 5)
    api.free(gpu, address, late)  # the fake driver notes it where the kernel comes too late
    api.stream_synchronize(late)
    api.stream_release(late)


@pytest.mark.parametrize("direction", ["down", "up", "across"])
def test_copies(api, gpu, queue, words, direction):
    numbers = np.arange(1024, dtype=np.uint32)
    a, b = (api.make("alloc", gpu, 4096, queue) for _ in range(2))
    api.copy(gpu, a, numbers.ctypes.data, 4096, queue)
    if direction == "across":
        api.copy(gpu, b, a, 4096, queue)
        a, b = b, a
    assert words(a) == numbers.tolist()
    for address in (a, b):
        api.free(gpu, address, queue)
    refused("MS_ERROR_ARGUMENT", api.copy, gpu, None, 64, 8, queue)
    refused("MS_ERROR_ARGUMENT", api.fill, gpu, 64, 256, 8, queue)


def test_in_a_capture_of_another_library(api, gpu, queue, memory, fake):
    with capturing(api.object("stream_to_object", queue)):
        refused("MS_ERROR_CAPTURE", api.alloc, gpu, 64, queue, ROOM)
        refused("MS_ERROR_CAPTURE", api.free, gpu, memory, queue)
    assert api.number("stream_query", queue) == 1  # and `memory` is freed by its fixture


def test_failures_leak_nothing(api, gpu, queue, fake, device):
    live = fake.counts()["device_memory"]
    before = device.pool.stats().current_bytes
    with fake.failing("cuMemAllocFromPoolAsync", code=999):
        refused("MS_ERROR_DRIVER", api.alloc, gpu, 64, queue, ROOM)
    address = api.make("alloc", gpu, 64, queue)
    with fake.failing("cuMemFreeAsync", code=999):
        refused("MS_ERROR_DRIVER", api.free, gpu, address, queue)
    api.free(gpu, address, queue)
    assert fake.counts()["device_memory"] == live
    assert device.pool.stats().current_bytes == before


def test_room_is_made_where_the_device_is_full(api, gpu, queue, fake):
    with fake.failing("cuMemAllocFromPoolAsync", code=2):
        address = api.make("alloc", gpu, 64, queue)  # at the second attempt
    api.free(gpu, address, queue)


def test_threads_allocate_at_the_same_time(api, gpu, cpu, device):
    before = device.pool.stats()
    errors = []

    def work():
        try:
            queue = api.make("stream_create", gpu, 0)
            for i in range(200):
                addresses = [api.make("alloc", gpu, 256 + i, queue), api.make("alloc", cpu, 100, None)]
                api.free(gpu, addresses[0], queue)
                api.free(cpu, addresses[1], None)
            api.stream_release(queue)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    after = device.pool.stats()
    assert after.current_bytes == before.current_bytes
    assert after.total_count - before.total_count == 800


# ---- workspaces ----


@pytest.fixture(params=["cpu", "gpu"])
def place(request, api, cpu, gpu, queue):
    """Return a device and its stream."""
    return (cpu, None) if request.param == "cpu" else (gpu, queue)


def test_workspaces(api, place):
    device, stream = place
    workspace = api.make("workspace_create", device, 4096, stream)
    assert api.number("workspace_size", workspace, kind=ctypes.c_size_t) == 4096
    api.workspace_check(workspace, device, 4096, 0, stream)
    assert "too small" in refused("MS_ERROR_WORKSPACE", api.workspace_check, workspace, device, 4097, 0, stream)
    address = api.make("workspace_begin", workspace, stream)
    api.fill(device, address, 1, 4096, stream)
    api.workspace_end(workspace, stream)
    refused("MS_ERROR_WORKSPACE", api.workspace_end, workspace, stream)
    api.workspace_release(workspace)


def test_a_workspace_is_on_one_device(api, cpu, gpu, queue):
    workspace = api.make("workspace_create", gpu, 64, queue)
    refused("MS_ERROR_WORKSPACE", api.workspace_check, workspace, cpu, 64, 0, None)
    refused("MS_ERROR_HANDLE", api.workspace_begin, workspace, None, ROOM)
    api.workspace_release(workspace)
    workspace = api.make("workspace_create", cpu, 64, None)
    refused("MS_ERROR_DEVICE", api.workspace_begin, workspace, queue, ROOM)
    api.workspace_release(workspace)


def test_workspaces_of_python(api, device, gpu, queue):
    workspace = madspace.Workspace(1000, device)
    handle = api.make("workspace_from_object", workspace)
    assert api.make("workspace_begin", handle, queue) == workspace.ptr
    api.workspace_end(handle, queue)
    workspace.close()
    refused("MS_ERROR_CLOSED", api.workspace_size, handle, ctypes.byref(ctypes.c_size_t()))
    refused("MS_ERROR_CLOSED", api.workspace_begin, handle, queue, ROOM)
    api.workspace_release(handle)
    array = np.zeros(100, np.uint8)
    handle = api.make("workspace_from_object", array)
    assert api.make("workspace_begin", handle, None) == array.ctypes.data
    api.workspace_end(handle, None)
    api.workspace_release(handle)
    refused("MS_ERROR_WORKSPACE", api.workspace_from_object, np.zeros(3), ROOM)
    refused("MS_ERROR_ARGUMENT", api.workspace_from_object, "text", ROOM)


def test_a_use_waits_for_that_of_another_thread(api, cpu):
    workspace = api.make("workspace_create", cpu, 64, None)
    api.make("workspace_begin", workspace, None)
    order = []

    def other():
        api.make("workspace_begin", workspace, None)
        order.append("other")
        api.workspace_end(workspace, None)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(0.1)
    order.append("first")
    api.workspace_end(workspace, None)
    thread.join()
    assert order == ["first", "other"]
    api.workspace_release(workspace)
