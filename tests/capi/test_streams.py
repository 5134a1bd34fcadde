"""Streams, events and side streams of the C API."""

import ctypes
import threading

import pytest
from capi_table import fill, refused

import madspace
from madspace import CaptureError, errors
from madspace.capi._status import status_of

N = 1024


def stream_object(api, handle):
    """Return the madspace.Stream of a handle."""
    return api.object("stream_to_object", handle)


def test_devices(api, gpu, cpu, device):
    assert api.number("device_count") == madspace.device_count()
    assert api.make("device_get", api.MS_DEVICE_CUDA, 0) == gpu
    for what, value in (
        (api.MS_DEVICE_INFO_KIND, 2),
        (api.MS_DEVICE_INFO_ID, 0),
        (api.MS_DEVICE_INFO_CAPABILITY_MAJOR, device.compute_capability[0]),
        (api.MS_DEVICE_INFO_MULTIPROCESSORS, device.multiprocessor_count),
        (api.MS_DEVICE_INFO_TOTAL_MEMORY, device.total_memory),
    ):
        assert api.number("device_info", gpu, what, kind=ctypes.c_int64) == value
    assert api.number("device_info", cpu, api.MS_DEVICE_INFO_KIND, kind=ctypes.c_int64) == 1
    room = ctypes.byref(ctypes.c_int64())
    assert "device" not in refused(
        "MS_ERROR_UNSUPPORTED", api.device_info, cpu, api.MS_DEVICE_INFO_MULTIPROCESSORS, room
    )
    refused("MS_ERROR_ARGUMENT", api.device_info, gpu, 99, room)
    refused("MS_ERROR_ARGUMENT", api.device_get, 1, 1, ctypes.byref(ctypes.c_void_p()))
    assert "101" in refused("MS_ERROR_DRIVER", api.device_get, 2, 99, ctypes.byref(ctypes.c_void_p()))
    assert api.raw["last_driver_code"]() == 101
    api.device_synchronize(gpu)
    api.device_synchronize(cpu)


@pytest.mark.parametrize(("given", "kind"), [("cpu", 1), ("cuda", 2), ("cuda:0", 2), (0, 2)])
def test_devices_from_python(api, given, kind):
    out = ctypes.c_void_p()
    api.device_from_object(given, ctypes.byref(out))
    assert api.number("device_info", out.value, api.MS_DEVICE_INFO_KIND, kind=ctypes.c_int64) == kind
    refused("MS_ERROR_ARGUMENT", api.device_from_object, "tpu", ctypes.byref(out))


def test_streams_go_to_python_and_back(api, gpu, queue, device):
    stream = stream_object(api, queue)
    assert stream.device is device
    assert stream.handle == api.make("stream_native", queue)
    other = api.make("stream_from_object", stream, gpu)
    assert stream_object(api, other) is stream
    api.stream_release(other)
    assert not stream.closed
    mine = api.make("device_stream", gpu)
    assert stream_object(api, mine) is device.default_stream
    api.stream_release(mine)
    refused("MS_ERROR_ARGUMENT", api.stream_from_object, None, gpu, ctypes.byref(ctypes.c_void_p()))


def test_borrowed_streams_stay(api, gpu, queue, fill_kernel, memory, words):
    native = api.make("stream_native", queue)
    wrapped = api.make("stream_wrap", gpu, native)
    fill(api, fill_kernel, wrapped, memory, 5)
    api.stream_release(wrapped)
    assert words(memory)[:2] == [5, 5]
    legacy = api.make("stream_wrap", gpu, None)
    assert api.make("stream_native", legacy) == 1
    api.stream_release(legacy)


def test_the_handle_outlives_close(api, gpu):
    handle = api.make("stream_create", gpu, 0)
    stream_object(api, handle).close()
    assert "Python has closed" in refused("MS_ERROR_CLOSED", api.stream_synchronize, handle)
    api.stream_release(handle)


def test_queries_and_waits(api, gpu, queue, delay, fill_kernel, memory, real_gpu):
    stream = stream_object(api, queue)
    delay(stream)
    fill(api, fill_kernel, queue, memory, 1)
    assert api.number("stream_query", queue) == 0
    api.stream_synchronize(queue)
    assert api.number("stream_query", queue) == 1


def test_events_order_streams(api, gpu, queue, delay, fill_kernel, memory, words):
    early = api.make("stream_create", gpu, 0)
    delay(stream_object(api, early))
    event = api.make("event_create", gpu, 0)
    api.event_wait(queue, event)  # never recorded: nothing to wait for
    fill(api, fill_kernel, early, memory, 3)
    api.event_record(event, early)
    assert api.number("event_query", event) == 0
    api.event_wait(queue, event)
    assert words(memory)[:2] == [3, 3]
    api.event_synchronize(event)
    assert api.number("event_query", event) == 1
    api.event_release(event)
    api.stream_release(early)


def test_streams_wait_for_streams(api, gpu, queue, delay, fill_kernel, memory, words):
    early = api.make("stream_create", gpu, 0)
    delay(stream_object(api, early))
    fill(api, fill_kernel, early, memory, 4)
    api.stream_wait(queue, early)
    assert words(memory)[:2] == [4, 4]
    api.stream_release(early)


def test_elapsed(api, gpu, queue, memory):
    start, end, plain = (api.make("event_create", gpu, flags) for flags in (api.MS_EVENT_TIMING,) * 2 + (0,))
    room = ctypes.byref(ctypes.c_float())
    refused("MS_ERROR_DRIVER", api.event_elapsed, start, end, room)
    assert api.last_driver_code() == 400
    api.event_record(start, queue)
    api.fill(gpu, memory, 1, 4 * N, queue)
    for event in (end, plain):
        api.event_record(event, queue)
    api.stream_synchronize(queue)
    assert api.number("event_elapsed", start, end, kind=ctypes.c_float) >= 0
    refused("MS_ERROR_DRIVER", api.event_elapsed, start, plain, room)
    refused("MS_ERROR_ARGUMENT", api.event_create, gpu, 8, ctypes.byref(ctypes.c_void_p()))
    for event in (start, end, plain):
        api.event_release(event)


def test_events_of_python_know_what_c_did(api, device, queue):
    event = madspace.Event(device)
    handle = api.make("event_from_object", event)
    assert "not recorded" in repr(event)
    api.event_record(handle, queue)
    assert "not recorded" not in repr(event)
    event.close()
    refused("MS_ERROR_CLOSED", api.event_record, handle, queue)
    api.event_release(handle)


def test_fork_and_join(api, gpu, queue, delay, fill_kernel, memory, words):
    sides = (ctypes.c_void_p * 3)()
    delay(stream_object(api, queue))
    fill(api, fill_kernel, queue, memory, 1)
    api.stream_fork(queue, 3, sides)
    for i, side in enumerate(sides):
        fill(api, fill_kernel, side, memory + 400 * i, 10 + i, 100)
    api.stream_join(queue, 3, sides)
    assert words(memory)[:300:100] == [10, 11, 12]
    assert words(memory)[300] == 1
    for side in sides:
        refused("MS_ERROR_HANDLE", api.stream_synchronize, side)
    for n in (0, -1, 1025):
        refused("MS_ERROR_ARGUMENT", api.stream_fork, queue, n, sides)
    other = (ctypes.c_void_p * 1)(api.make("stream_create", gpu, 0))
    api.stream_join(queue, 1, other)
    api.stream_synchronize(other[0])  # not a side stream: it stays
    api.stream_release(other[0])


def test_what_a_capture_forbids(api, gpu, queue, memory):
    event, inside = api.make("event_create", gpu, 0), api.make("event_create", gpu, 0)
    other = api.make("stream_create", gpu, 0)
    api.event_record(event, other)
    capture = api.make("capture_begin", queue)
    for call in (
        (api.stream_synchronize, queue),
        (api.stream_query, queue, ctypes.byref(ctypes.c_int())),
        (api.event_wait, queue, event),
        (api.capture_begin, queue, ctypes.byref(ctypes.c_void_p())),
    ):
        refused("MS_ERROR_CAPTURE", *call)
    api.event_record(inside, queue)
    refused("MS_ERROR_CAPTURE", api.event_query, inside, ctypes.byref(ctypes.c_int()))
    refused("MS_ERROR_CAPTURE", api.event_synchronize, inside)
    api.event_wait(other, inside)
    api.fill(gpu, memory, 1, 64, other)
    api.event_record(event, other)
    api.event_wait(queue, event)
    api.graph_release(api.make("capture_end", capture))  # nothing of this has broken it
    for used in (event, inside):
        api.event_release(used)
    api.stream_release(other)


@pytest.mark.multi_gpu
def test_another_device(api, gpu, queue, other_device):
    other = api.make("device_get", 2, 1)
    there = api.make("stream_create", other, 0)
    event = api.make("event_create", gpu, 0)
    refused("MS_ERROR_DEVICE", api.event_record, event, there)
    refused("MS_ERROR_DEVICE", api.alloc, gpu, 64, there, ctypes.byref(ctypes.c_void_p()))
    refused("MS_ERROR_DEVICE", api.stream_wrap, gpu, api.make("stream_native", there), ctypes.byref(ctypes.c_void_p()))
    address = api.make("alloc", gpu, 64, queue)
    refused("MS_ERROR_ARGUMENT", api.free, other, address, there)
    api.free(gpu, address, queue)
    api.event_record(event, queue)
    api.event_wait(there, event)  # between devices
    api.event_release(event)
    api.stream_release(there)


def test_streams_are_not_of_the_cpu(api, cpu, queue):
    for call in (api.stream_create, api.stream_wrap, api.event_create):
        refused("MS_ERROR_UNSUPPORTED", call, cpu, 0, ctypes.byref(ctypes.c_void_p()))
    refused("MS_ERROR_DEVICE", api.alloc, cpu, 64, queue, ctypes.byref(ctypes.c_void_p()))


def test_errors_of_this_thread_alone(api, gpu):
    refused("MS_ERROR_ARGUMENT", api.device_get, 7, 7, ctypes.byref(ctypes.c_void_p()))
    before = api.last_error()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(api.last_error()))
    thread.start()
    thread.join()
    assert seen == [b""]
    assert api.last_error() == before


def test_every_exception_has_a_code():
    python = status_of(RuntimeError)
    for name in errors.__all__:
        kind = getattr(errors, name)
        if kind not in (errors.MadspaceError, errors.MadspaceWarning):
            assert status_of(kind) != python, name
    assert issubclass(CaptureError, errors.DriverError)
    assert status_of(CaptureError) != status_of(errors.DriverError)
