"""PinnedBuffer: page-locked memory, copies that do not wait, and reuse after the last of them."""

import gc
import threading

import numpy as np
import pytest
from contents import byte
from cuda.bindings import driver
from raw_driver import capturing, checked, current, current_context

from madspace import PinnedBuffer
from madspace.core.stream import Stream
from madspace.errors import ClosedError, DriverError, ShapeError

N = 4096


@pytest.fixture(autouse=True)
def nothing_idle(device):
    """Begin without idle memory."""
    device.synchronize()
    PinnedBuffer.trim()


@pytest.fixture
def pinned(device):
    """Return N bytes of value 3."""
    pinned = PinnedBuffer(N)
    pinned.numpy()[:] = 3
    return pinned


@pytest.fixture
def buffer(device, stream):
    """Return N zero bytes on a stream of their own."""
    buffer = device.pool.allocate(N, stream=stream)
    buffer.fill(0)
    return buffer


def test_a_new_one(device):
    pinned = PinnedBuffer(1000)
    assert pinned.ptr % 256 == 0
    assert pinned.nbytes == len(pinned) == 1000
    assert pinned.device is device
    assert f"{pinned.ptr:#x} of 1000 bytes" in repr(pinned)
    with current():
        assert (
            checked(
                driver.cuPointerGetAttribute(driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pinned.ptr)
            )
            == 1
        )  # known as host memory


def test_no_bytes_need_no_memory(fake, device):
    fake.clear_log()
    pinned = PinnedBuffer(0)
    assert (pinned.ptr, pinned.nbytes, pinned.numpy().size, bytes(pinned)) == (0, 0, 0, b"")
    pinned.copy_to(device.pool.allocate(0))
    assert pinned.query()
    pinned.close()
    assert fake.log("cuMemHostAlloc") == []


def test_the_memory_is_the_hosts(pinned):
    floats = pinned.numpy(np.float64)
    assert floats.shape == (N // 8,)
    assert floats.ctypes.data == pinned.ptr
    floats[:] = 1.5
    assert bytes(pinned) == np.full(N // 8, 1.5).tobytes()
    memoryview(pinned)[0] = 7
    assert pinned.numpy()[0] == 7
    with pytest.raises(ValueError, match="dtype: expected elements whose size divides"):
        PinnedBuffer(10).numpy("f8")


def test_views_keep_it(pinned):
    view = pinned.numpy()
    ptr = pinned.ptr
    with pytest.raises(
        BufferError, match="close: expected neither views of the memory nor copies in other threads, got 1"
    ):
        pinned.close()
    del pinned
    gc.collect()
    assert PinnedBuffer(N).ptr != ptr
    assert set(view) == {3}


@pytest.fixture
def back(device):
    """Return another one, made before anything is late: the driver may wait when it locks memory."""
    return PinnedBuffer(N)


def test_copies_do_not_wait(pinned, back, buffer, late):
    back.numpy()[:] = 9
    pinned.copy_to(buffer, stream=late)
    back.copy_from(buffer, stream=late)
    assert not late.query()
    assert not pinned.query()
    assert not back.query()
    back.synchronize()
    assert back.query()
    assert set(back.numpy()) == {3}


def test_the_stream_is_the_buffers_own_by_default(fake, pinned, buffer):
    fake.clear_log()
    pinned.copy_to(buffer)
    pinned.copy_from(buffer)
    assert [fake.log(name)[0].args["stream"] for name in ("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync")] == [
        buffer.stream.handle
    ] * 2
    assert fake.log("cuStreamSynchronize") == []


def test_a_write_of_the_device_comes_before_a_read_on_another_stream(device, pinned, buffer, late):
    source = device.pool.allocate(N, stream=late)
    source.fill(8, stream=late)
    pinned.copy_from(source, stream=late)
    pinned.copy_to(buffer)
    assert byte(buffer) == 8


def test_a_write_of_the_device_comes_behind_late_reads(device, pinned, buffer, late, delay):
    another = Stream(device)
    delay(another)
    targets = [device.pool.allocate(N, stream=stream) for stream in (late, another)]
    for target in targets:
        pinned.copy_to(target)
    pinned.copy_from(buffer)
    assert [byte(target) for target in targets] == [3, 3]
    pinned.synchronize()
    assert set(pinned.numpy()) == {0}


@pytest.mark.parametrize("end", ["close", "with", "drop", "drop in another thread"])
def test_it_is_reused_when_the_device_is_done_with_it(fake, device, buffer, end, late):
    pinned = PinnedBuffer(N)
    pinned.numpy()[:] = 3
    ptr = pinned.ptr
    pinned.copy_to(buffer, stream=late)
    fake.clear_log()
    if end == "close":
        pinned.close()
        pinned.close()
        assert (pinned.ptr, pinned.closed) == (0, True)
    elif end == "with":
        with pinned:
            pass
    elif end == "drop":
        del pinned
    else:
        box = [pinned]
        del pinned
        thread = threading.Thread(target=box.clear)
        thread.start()
        thread.join()
    assert fake.names() == []  # nothing waits, nothing is given back
    other = PinnedBuffer(N)
    assert other.ptr != ptr
    other.numpy()[:] = 9
    late.synchronize()
    assert byte(buffer) == 3
    assert PinnedBuffer(N - 1000).ptr == ptr


def test_late_work_has_the_memory_of_a_closed_one(pinned, buffer, late):
    pinned.copy_to(buffer, stream=late)
    pinned.close()
    others = [PinnedBuffer(N) for _ in range(3)]
    for other in others:
        other.numpy()[:] = 9
    late.synchronize()
    assert byte(buffer) == 3


def test_trim_gives_idle_memory_back_only(fake, buffer, late):
    before = fake.counts()["host_memory"]
    used, idle = PinnedBuffer(N), PinnedBuffer(N)
    used.copy_to(buffer, stream=late)
    used.close()
    idle.close()
    PinnedBuffer.trim()
    assert fake.counts()["host_memory"] == before + 1
    late.synchronize()
    PinnedBuffer.trim()
    assert fake.counts()["host_memory"] == before


def test_a_closed_one_says_so(pinned, buffer):
    pinned.close()
    for use in (
        lambda: pinned.copy_to(buffer),
        lambda: pinned.copy_from(buffer),
        pinned.numpy,
        pinned.query,
        pinned.synchronize,
        pinned.__enter__,
        lambda: memoryview(pinned),
    ):
        with pytest.raises(ClosedError, match="pinned buffer: expected an open one"):
            use()


def test_copies_are_checked(device, pinned, buffer):
    with pytest.raises(ShapeError, match=f"buffer: expected {N} bytes, got 8"):
        pinned.copy_to(device.pool.allocate(8))
    buffer.close()
    with pytest.raises(ClosedError, match="buffer: expected an open buffer"):
        pinned.copy_from(buffer)
    with pytest.raises(TypeError):
        pinned.copy_to(np.zeros(N, np.uint8))


def test_it_is_made_once(pinned):
    with pytest.raises(TypeError, match="called twice"):
        pinned.__init__(5)
    assert PinnedBuffer.__new__(PinnedBuffer).closed


def test_copies_may_be_captured(fake, device, stream, pinned, buffer):
    fake.clear_log()
    with capturing(stream):
        pinned.copy_to(buffer, stream=stream)
        pinned.copy_from(buffer, stream=stream)
    assert pinned.query()
    assert fake.log("cuEventRecord") == []


def test_memory_may_be_taken_during_a_capture(device, stream, pinned, buffer):
    pinned.copy_to(buffer)
    with capturing(stream):
        pinned.close()
        kept = [PinnedBuffer(n) for n in (N, 4 * N)]
        kept.clear()
        PinnedBuffer.trim()


def test_no_room_makes_room(fake, device):
    PinnedBuffer(N).close()
    fake.clear_log()
    with fake.failing("cuMemHostAlloc", code=2):
        PinnedBuffer(64 * N)
    assert fake.names().index("cuMemFreeHost") > fake.names().index("cuMemHostAlloc")
    with (
        fake.failing("cuMemHostAlloc", nth=1, code=999),
        pytest.raises(DriverError, match=f"asked for {256 * N} bytes"),
    ):
        PinnedBuffer(256 * N)


def test_too_much_is_an_error(device):
    with pytest.raises(DriverError, match=f"asked for {1 << 60} bytes of page-locked host memory"):
        PinnedBuffer(1 << 60)


@pytest.mark.multi_gpu
def test_every_device_may_copy(device, other_device, pinned):
    with current(1) as context:
        buffer = other_device.pool.allocate(N)
        pinned.copy_to(buffer)
        assert byte(buffer) == 3
        buffer.fill(4)
        pinned.copy_from(buffer)
        pinned.synchronize()
        assert current_context() == int(context)
    assert set(pinned.numpy()) == {4}


@pytest.mark.parametrize("action", ["make", "copy to", "copy from", "wait", "trim"])
def test_each_failure_leaves_nothing(fake, device, pinned, buffer, action):
    late = Stream(device)
    actions = {
        "make": lambda: PinnedBuffer(16 * N).close() or PinnedBuffer.trim(),
        "copy to": lambda: pinned.copy_to(buffer, stream=late),
        "copy from": lambda: pinned.copy_from(buffer, stream=late),
        "wait": pinned.synchronize,
        "trim": PinnedBuffer.trim,
    }
    pinned.copy_to(buffer, stream=late)
    before = fake.counts()["host_memory"]
    for name, error in fake.each_failure(actions[action]):
        assert isinstance(error, DriverError), f"the failure of {name} was lost"
        del error
        PinnedBuffer.trim()
        assert fake.counts()["host_memory"] == before, name
