"""Buffers: life, copies, and memory that goes back only after its last reader."""

import gc
import threading

import numpy as np
import pytest
from contents import byte
from raw_driver import capturing, current, current_context

from madspace.core.memory import Buffer
from madspace.core.pool import MemoryPool
from madspace.core.stream import Stream
from madspace.errors import (
    CaptureError,
    ClosedError,
    DeviceMismatchError,
    DriverError,
    MadspaceWarning,
    OutOfMemoryError,
    ShapeError,
)

N = 4096


@pytest.fixture
def buffer(device, stream):
    """Return N zero bytes on a stream of their own."""
    buffer = device.pool.allocate(N, stream=stream)
    buffer.fill(0)
    return buffer


def test_a_new_buffer(device, stream):
    buffer = device.pool.allocate(1000, stream=stream)
    assert buffer.ptr % 256 == 0
    assert buffer.nbytes == len(buffer) == 1000
    assert (buffer.device, buffer.device_id, buffer.pool, buffer.stream) == (device, 0, device.pool, stream)
    assert f"{buffer.ptr:#x} of 1000 bytes" in repr(buffer)
    assert device.pool.allocate(1).stream is device.default_stream


def test_no_bytes_need_no_memory(fake, device, stream):
    fake.clear_log()
    buffer = device.pool.allocate(0, stream=stream)
    buffer.fill(1)
    buffer.copy_from_host(b"")
    assert (buffer.ptr, buffer.nbytes, buffer.copy_to_host()) == (0, 0, bytearray())
    buffer.close()
    assert not {"cuMemAllocFromPoolAsync", "cuMemsetD8Async", "cuMemFreeAsync"} & set(fake.names())


def test_it_is_made_by_a_pool_only():
    with pytest.raises(TypeError, match=r"use MemoryPool.allocate\(\)"):
        Buffer()
    with pytest.raises(TypeError, match=r"use MemoryPool.allocate\(\)"):
        Buffer.__new__(Buffer)


@pytest.mark.parametrize("end", ["close", "with", "drop", "drop in another thread"])
def test_every_end_frees_once_on_the_own_stream(fake, device, stream, end):
    before = fake.counts()["device_memory"]
    buffer = device.pool.allocate(N, stream=stream)
    ptr = buffer.ptr
    if end == "close":
        buffer.close()
        buffer.close()
        assert buffer.ptr == 0
    elif end == "with":
        with buffer:
            pass
    elif end == "drop":
        del buffer
    else:
        box = [buffer]
        del buffer
        thread = threading.Thread(target=box.clear)
        thread.start()
        thread.join()
    gc.collect()
    assert [call.args for call in fake.log("cuMemFreeAsync")] == [{"ptr": ptr, "stream": stream.handle}]
    assert fake.counts()["device_memory"] == before


def test_a_closed_buffer_says_so(device, buffer):
    buffer.close()
    other = device.pool.allocate(N)
    for use in (
        lambda: buffer.fill(1),
        buffer.copy_to_host,
        lambda: buffer.copy_from_host(bytes(N)),
        lambda: other.copy_from(buffer),
        lambda: buffer.copy_from(other),
        buffer.__enter__,
    ):
        with pytest.raises(ClosedError, match="buffer: expected an open buffer"):
            use()


def test_copies_to_and_from_the_host(buffer):
    data = np.arange(N // 8, dtype=np.float64)
    buffer.copy_from_host(data)
    out = np.zeros_like(data)
    assert buffer.copy_to_host(out) is out
    assert (out == data).all()
    assert buffer.copy_to_host() == data.tobytes()


def test_copies_check_the_host_side(buffer):
    with pytest.raises(ShapeError, match=f"source: expected {N} bytes, got 3"):
        buffer.copy_from_host(b"abc")
    with pytest.raises(ShapeError, match=f"out: expected {N} bytes, got 3"):
        buffer.copy_to_host(bytearray(3))
    with pytest.raises((BufferError, ValueError)):
        buffer.copy_from_host(np.zeros(2 * N, np.uint8)[::2])
    with pytest.raises((BufferError, ValueError)):
        buffer.copy_to_host(bytes(N))
    assert byte(buffer) == 0


def test_copies_between_buffers(device, buffer):
    source = device.pool.allocate(N)
    source.fill(7)
    buffer.copy_from(source)
    assert byte(buffer) == 7
    with pytest.raises(ShapeError, match=f"source: expected {N} bytes, got 1"):
        buffer.copy_from(device.pool.allocate(1))


@pytest.mark.parametrize("value", [-1, 256])
def test_a_fill_takes_bytes(buffer, value):
    with pytest.raises(ValueError, match=rf"value: expected a byte, 0 to 255, got {value}"):
        buffer.fill(value)


@pytest.mark.multi_gpu
def test_streams_of_another_device_are_refused(device, other_device, buffer):
    for use in (lambda s: device.pool.allocate(8, stream=s), lambda s: buffer.fill(1, stream=s)):
        with pytest.raises(DeviceMismatchError, match="stream: expected one of device 0"):
            use(Stream(other_device))


@pytest.mark.multi_gpu
def test_the_current_context_stays(device, other_device, buffer):
    with current(1) as context:
        other = device.pool.allocate(N)
        other.fill(1, stream=buffer.stream)
        buffer.copy_from(other)
        assert byte(buffer) == 1
        other.close()
        assert current_context() == int(context)


# Failures and captures.


def test_too_large_an_allocation_says_how_large(device, stream):
    nbytes = device.total_memory + (1 << 30)
    with pytest.raises(OutOfMemoryError, match=f"asked for {nbytes} bytes on device 0") as caught:
        device.pool.allocate(nbytes, stream=stream)
    assert isinstance(caught.value, MemoryError)
    assert caught.value.code == 2
    device.pool.allocate(8, stream=stream).fill(1)


def test_an_allocation_that_fails_leaves_the_memory_to_others(device, stream):
    with MemoryPool(device) as pool:
        with pytest.raises(OutOfMemoryError):
            pool.allocate(device.total_memory + (1 << 30), stream=stream)
        assert pool.reserved_bytes == 0


def test_idle_memory_is_given_back_before_an_allocation_fails(fake, device, stream):
    fake.clear_log()
    with fake.failing("cuMemAllocFromPoolAsync", code=2):
        device.pool.allocate(N, stream=stream)
    names = fake.names()
    assert names.index("cuMemPoolTrimTo") < len(names) - 1 - names[::-1].index("cuMemAllocFromPoolAsync")


def test_an_allocation_in_a_capture_is_refused_and_the_capture_goes_on(device, stream):
    with capturing(stream), pytest.raises(CaptureError, match="out="):
        device.pool.allocate(N, stream=stream)


def test_a_free_in_a_capture_is_put_off(fake, device, stream):
    before = fake.counts()["device_memory"]
    buffer = device.pool.allocate(N, stream=stream)
    with capturing(stream):
        buffer.close()
        assert fake.counts()["device_memory"] == before + 1
    device.pool.allocate(N).close()
    assert fake.counts()["device_memory"] == before


def test_host_copies_in_a_capture_are_refused_and_the_capture_goes_on(buffer, stream):
    with capturing(stream):
        for use in (buffer.copy_to_host, lambda: buffer.copy_from_host(bytes(N))):
            with pytest.raises(CaptureError):
                use()


@pytest.mark.parametrize("action", ["allocate", "fill elsewhere", "copy to host", "copy"])
def test_each_failure_leaves_nothing(fake, device, buffer, action):
    late, other, kept = Stream(device), device.pool.allocate(N), []
    actions = {
        "allocate": lambda: kept.append(device.pool.allocate(N, stream=late)),
        "fill elsewhere": lambda: buffer.fill(1, stream=late),
        "copy to host": lambda: buffer.copy_to_host(stream=late),
        "copy": lambda: buffer.copy_from(other, stream=late),
    }
    actions[action]()
    kept.clear()
    before = fake.handles()
    for name, error in fake.each_failure(actions[action]):
        assert isinstance(error, DriverError), f"the failure of {name} was lost"
        del error
        kept.clear()
        if name != "cuCtxPopCurrent":  # the block was handed out by then
            assert fake.handles() == before, name


def test_a_destructor_that_fails_warns(fake, device, stream):
    buffer = device.pool.allocate(N, stream=stream)
    with fake.failing("cuMemFreeAsync"), pytest.warns(MadspaceWarning, match="cuMemFreeAsync"):
        del buffer
