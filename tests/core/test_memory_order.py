"""What orders the uses of a buffer: reads, writes and its free on several streams, on the device.

"late" is a stream whose work comes after everything that does not wait for it.
"""

import threading

import pytest
from contents import byte
from raw_driver import ForeignStream

from madspace.core.stream import Stream
from madspace.errors import DriverError

N = 4096


@pytest.fixture
def buffer(device, stream):
    """Return N zero bytes on a stream of their own."""
    buffer = device.pool.allocate(N, stream=stream)
    buffer.fill(0)
    return buffer


@pytest.mark.parametrize("reader", ["own", "third"])
def test_a_read_comes_after_a_late_write(device, buffer, late, reader):
    buffer.fill(7, stream=late)
    assert byte(buffer, stream=buffer.stream if reader == "own" else Stream(device)) == 7


def test_a_late_read_sees_the_write_of_the_own_stream(device, buffer, late):
    buffer.fill(7)
    assert byte(buffer, stream=late) == 7


@pytest.mark.parametrize("writer", ["own", "third"])
def test_a_write_comes_after_a_late_read(device, buffer, late, writer):
    target = device.pool.allocate(N, stream=late)
    target.copy_from(buffer, stream=late)
    buffer.fill(9, stream=buffer.stream if writer == "own" else Stream(device))
    assert byte(target) == 0
    assert byte(buffer) == 9


@pytest.mark.parametrize("second", ["own", "third"])
def test_a_write_comes_after_a_late_write(device, buffer, late, second):
    buffer.fill(7, stream=late)
    buffer.fill(9, stream=buffer.stream if second == "own" else Stream(device))
    late.synchronize()
    assert byte(buffer) == 9


def test_two_late_readers_are_both_waited_for(device, buffer, late, delay):
    another = Stream(device)
    delay(another)
    targets = [device.pool.allocate(N, stream=stream) for stream in (late, another)]
    for target in targets:
        target.copy_from(buffer, stream=target.stream)
    buffer.fill(9)
    assert [byte(target) for target in targets] == [0, 0]


def test_the_own_stream_queues_no_events(fake, device, buffer):
    fake.clear_log()
    for value in range(10):
        buffer.fill(value)
    assert set(fake.names()) <= {"cuMemsetD8Async", "cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent"}


def test_the_free_waits_for_a_late_reader_on_the_device(device, buffer, late):
    target = device.pool.allocate(N, stream=late)
    buffer.fill(5)
    target.copy_from(buffer, stream=late)
    buffer.close()
    assert not late.query()  # the host has not waited
    again = device.pool.allocate(N, stream=buffer.stream)
    again.fill(6)  # may well be the same memory
    assert byte(target) == 5


def test_a_reader_that_is_gone_before_the_free(device, buffer, late):
    target = device.pool.allocate(N)
    target.copy_from(buffer, stream=late)
    late.close()
    buffer.close()
    assert byte(target) == 0


def test_a_foreign_reader_that_is_destroyed_before_the_free(device, buffer):
    foreign = ForeignStream()
    buffer.fill(3, stream=foreign.handle)
    buffer.stream.synchronize()
    foreign.destroy()
    buffer.close()  # a use of the dead handle would be a fault
    device.synchronize()


def test_a_foreign_handle_that_is_destroyed_before_its_buffer(device):
    foreign = ForeignStream()
    buffer = device.pool.allocate(N, stream=foreign.handle)
    buffer.fill(3, stream=foreign.handle)
    assert byte(buffer) == 3
    foreign.destroy()
    buffer.close()  # a use of the dead handle would be a fault
    device.synchronize()


def test_a_failure_to_note_one_use_does_not_lose_the_other(fake, device, buffer):
    late = Stream(device)
    target = device.pool.allocate(N)
    with fake.failing("cuEventRecord", nth=3):  # two come before the copy
        fake.clear_log()
        with pytest.raises(DriverError):
            target.copy_from(buffer, stream=late)
    names = fake.names()
    assert names[names.index("cuMemcpyDtoDAsync") :].count("cuEventRecord") == 2


@pytest.mark.parametrize("name", ["cuEventRecord", "cuStreamIsCapturing", "cuEventCreate", "cuStreamWaitEvent"])
def test_a_use_that_cannot_be_noted_is_over_before_the_free(fake, device, name):
    for nth in range(1, 9):
        late = Stream(device)
        fake.defer(late)
        source, target = device.pool.allocate(N), device.pool.allocate(N, stream=late)
        source.fill(5)
        fake.clear_failures()
        fake.fail(name, nth)
        try:
            target.copy_from(source, stream=late)
        except DriverError:
            copied = "cuMemcpyDtoDAsync" in fake.names()
        else:
            break
        finally:
            fake.clear_failures()
        source.close()
        if copied:
            assert byte(target) == 5
        fake.check()
        fake.clear_log()
    else:
        pytest.fail("expected a copy without a failure at last")


def test_a_buffer_outlives_its_stream_and_its_thread(device):
    made = []

    def work():
        with Stream(device) as stream:
            made.append(device.pool.allocate(N, stream=stream))
            made[0].fill(4)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert byte(made[0], stream=Stream(device)) == 4
    made.clear()
    device.synchronize()


def test_the_stream_of_a_buffer_ends_with_it(fake, device):
    before = fake.counts()["stream"]
    stream = Stream(device)
    buffer = device.pool.allocate(N, stream=stream)
    stream.close()
    assert fake.counts()["stream"] == before + 1
    buffer.close()
    del buffer
    assert fake.counts()["stream"] == before


@pytest.mark.multi_gpu
def test_a_copy_between_devices_is_in_the_order_of_both(device, other_device, buffer, late):
    source = other_device.pool.allocate(N)
    source.fill(7)
    buffer.copy_from(source, stream=late)
    source.fill(8)
    assert byte(buffer) == 7
    assert byte(source) == 8
