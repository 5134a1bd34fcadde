"""Memory of other libraries goes back to them only behind its last reader."""

import gc
import weakref

import numpy as np
import pytest
from raw_driver import ForeignStream, capturing

from madspace.core.creation import asarray, zeros
from madspace.core.stream import Stream
from madspace.errors import DriverError


class Lender:
    """An array of another library that speaks DLPack and does not tell its stream."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream, max_version):
        return self.tensor.__dlpack__(stream=-1, max_version=max_version)


class Interface:
    """An array of another library that speaks __cuda_array_interface__ and tells its stream."""

    def __init__(self, tensor, stream):
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "stream": stream}


@pytest.fixture
def producer(device):
    stream = ForeignStream()
    yield stream
    stream.destroy()


@pytest.fixture
def lent(device):
    """Return a lender, and a function that tells whether its memory is still lent."""
    source = zeros(1000, device=device)
    alive = weakref.ref(source)
    return [Lender(source)], lambda: gc.collect() >= 0 and alive() is not None


def look(device):
    """Take something else in: what is held is looked through then."""
    asarray(Lender(zeros(3, device=device)))


def waits(fake):
    return [(call.args["stream"]) for call in fake.log("cuStreamWaitEvent")]


def test_what_nobody_reads_goes_back_at_once(device, stream, lent):
    lenders, is_lent = lent
    tensor = asarray(lenders.pop(), stream=stream)
    stream.synchronize()
    assert is_lent()
    del tensor
    assert not is_lent()


def test_what_is_read_is_held(device, stream, lent, delay):
    lenders, is_lent = lent
    target = zeros(1000, device=device, stream=stream)
    tensor = asarray(lenders.pop(), stream=stream)
    delay(stream)
    target.copy_from(tensor, stream=stream)
    del tensor
    look(device)
    assert is_lent()
    stream.synchronize()
    look(device)
    assert not is_lent()
    assert target.numpy().sum() == 0.0


def test_readers_on_other_streams_are_waited_for(device, stream, lent, delay):
    lenders, is_lent = lent
    late = Stream(device)
    target = zeros(1000, device=device, stream=late)
    tensor = asarray(lenders.pop(), stream=stream)
    delay(late)
    target.copy_from(tensor, stream=late)
    del tensor
    look(device)
    assert is_lent()
    late.synchronize()
    stream.synchronize()
    look(device)
    assert not is_lent()


@pytest.mark.parametrize("name", ["cuEventRecord", "cuEventCreate", "cuStreamWaitEvent", "cuStreamIsCapturing"])
def test_readers_that_cannot_be_noted_are_over_before_the_memory_goes_back(fake, device, stream, name):
    n_read = 0
    for nth in range(1, 30):
        source, late = zeros(1000, device=device), Stream(device)
        lenders, alive = [Lender(source)], weakref.ref(source)
        del source
        target = zeros(1000, device=device, stream=late)
        tensor = asarray(lenders.pop(), stream=stream)
        fake.defer(late)
        fake.clear_log()
        fake.fail(name, nth)
        try:
            target.copy_from(tensor, stream=late)
        except DriverError:
            n_read += "cuMemcpyDtoDAsync" in fake.names()
        is_last = not fake.failures_fired()
        fake.clear_failures()
        del tensor
        gc.collect()
        look(device)
        assert alive() is not None or late.query()
        stream.synchronize()
        late.synchronize()
        if is_last:
            break
    else:
        pytest.fail("expected a copy without a failure at last")
    assert n_read or name == "cuEventCreate"


def test_looking_breaks_no_capture(device, stream, lent, delay):
    lenders, is_lent = lent
    tensor = asarray(lenders.pop(), stream=stream)
    delay(stream)
    zeros(1000, device=device, stream=stream).copy_from(tensor, stream=stream)
    del tensor
    captured = Stream(device)
    with capturing(captured):
        look(device)
        assert is_lent()
    stream.synchronize()
    look(device)
    assert not is_lent()


def test_a_captured_stream_is_left_alone(device, lent):
    lenders, is_lent = lent
    captured = Stream(device)
    tensor = asarray(lenders.pop(), stream=captured)
    with capturing(captured):
        del tensor
        assert not is_lent()


def test_a_producer_on_the_legacy_stream_waits_on_it(fake, device, stream):
    tensor = asarray(Interface(zeros(3, device=device), 1), stream=stream)
    fake.clear_log()
    del tensor
    assert waits(fake) == [1]
    assert not fake.log("cuEventQuery")


def test_the_handles_of_both_sides_may_die_before_the_memory(device, delay):
    producer, consumer = ForeignStream(), ForeignStream()
    source = zeros(1000, device=device)
    alive = weakref.ref(source)
    tensor = asarray(Interface(source, producer.handle), stream=consumer.handle)
    target = zeros(1000, device=device)
    late = Stream(device)
    delay(late)
    target.copy_from(tensor, stream=late)
    del source
    device.synchronize()
    producer.destroy()
    consumer.destroy()
    del tensor  # a use of a dead handle would be a fault
    gc.collect()
    look(device)
    assert alive() is None


def test_memory_is_ordered_with_later_streams(fake, device, stream, producer):
    tensor = asarray(Interface(zeros(3, device=device), producer.handle), stream=stream)
    late = Stream(device)
    source = zeros(3, device=device, stream=late)
    fake.clear_log()
    tensor.copy_from(source, stream=late)
    assert waits(fake) == [late.handle, stream.handle]  # before the write, and behind it


def test_an_export_of_foreign_memory_is_ordered(fake, device, stream, producer):
    tensor = asarray(Interface(zeros(3, device=device), producer.handle), stream=stream)
    consumer = Stream(device)
    fake.clear_log()
    capsule = tensor.__dlpack__(stream=consumer.handle)
    assert waits(fake) == [consumer.handle]
    fake.clear_log()
    del capsule
    assert waits(fake) == [stream.handle]


def test_a_closed_stream_still_gives_memory_back(fake, device, producer):
    stream = Stream(device)
    tensor = asarray(Interface(zeros(3, device=device), producer.handle), stream=stream)
    handle = stream.handle
    stream.close()
    assert not fake.log("cuStreamDestroy")
    del tensor
    assert [call.args["stream"] for call in fake.log("cuStreamDestroy")] == [handle]


def test_the_per_thread_stream_is_replaced(device, producer):
    tensor = asarray(Interface(zeros(3, device=device), producer.handle), stream=2)
    assert tensor.stream == device.default_stream


def test_the_producer_is_told_the_stream_that_replaces_the_per_thread_one(device, lent):
    lenders, _ = lent
    told = []

    class Asked(Lender):
        def __dlpack__(self, *, stream, max_version):
            told.append(stream)
            return super().__dlpack__(stream=stream, max_version=max_version)

    tensor = asarray(Asked(lenders.pop().tensor), stream=2)
    assert told == [tensor.stream.handle] == [device.default_stream.handle]


def test_trimming_gives_back_what_is_held_no_longer(device, stream, lent, delay):
    lenders, is_lent = lent
    target = zeros(1000, device=device, stream=stream)
    tensor = asarray(lenders.pop(), stream=stream)
    delay(stream)
    target.copy_from(tensor, stream=stream)
    del tensor
    assert is_lent()
    stream.synchronize()
    device.pool.trim()
    assert not is_lent()


def test_running_out_of_memory_gives_back_what_is_held_no_longer(fake, device, stream, lent, delay):
    lenders, is_lent = lent
    target = zeros(1000, device=device, stream=stream)
    tensor = asarray(lenders.pop(), stream=stream)
    delay(stream)
    target.copy_from(tensor, stream=stream)
    del tensor
    stream.synchronize()
    assert is_lent()
    with fake.failing("cuMemAllocFromPoolAsync", code=2):
        device.pool.allocate(8)
    assert not is_lent()


def test_memory_is_kept_where_the_readers_cannot_be_asked(fake, device, stream, lent):
    lenders, is_lent = lent
    tensor = asarray(lenders.pop(), stream=stream)
    with fake.failing("cuEventRecord"), pytest.warns(RuntimeWarning, match="memory of another library was kept"):
        del tensor
    look(device)
    assert is_lent()


def test_host_memory_asks_no_driver(fake):
    fake.clear_log()
    array = np.zeros(3)
    alive = weakref.ref(array)
    tensor = asarray(array)
    del array
    assert alive() is not None
    del tensor
    assert alive() is None
    assert fake.names() == []
