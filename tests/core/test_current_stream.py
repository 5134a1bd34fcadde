"""The stream of calls that name none: blocks, threads, tasks, generators."""

import asyncio
import contextlib
import threading

import pytest
from raw_driver import ForeignStream

import madspace
from madspace import Stream, StreamScopeError, get_stream, set_stream, zeros
from madspace.errors import ClosedError, DeviceMismatchError


@pytest.fixture(autouse=True)
def nothing_is_left(device):
    yield
    assert get_stream(device) == device.default_stream


@pytest.fixture
def streams(device):
    return [Stream(device) for _ in range(3)]


def suspended(stream):
    """Return a generator that is suspended in a block of the stream."""

    def run():
        with madspace.stream(stream):
            yield

    generator = run()
    next(generator)
    return generator


def test_a_block_gives_its_stream_and_the_one_before_is_back(device, streams):
    a, b, _ = streams
    assert get_stream() == get_stream("cuda:0") == device.default_stream
    with madspace.stream(a) as given:
        assert given is a
        assert get_stream() is a
        with madspace.stream(b):
            assert get_stream(device) is b
        assert get_stream() is a
        with madspace.stream(a):
            assert get_stream() is a
        assert get_stream() is a
    assert get_stream() == device.default_stream


def test_exceptions_pass_and_end_the_block(device, stream):
    with pytest.raises(ZeroDivisionError), madspace.stream(stream):
        raise ZeroDivisionError
    assert get_stream() == device.default_stream


@pytest.mark.parametrize(("handle", "seen"), [(0, 1), (1, 1), (2, 2)])
def test_default_streams(device, handle, seen):
    with madspace.stream(handle) as given:
        assert given.handle == get_stream().handle == seen


@pytest.mark.multi_gpu
def test_a_default_stream_is_that_of_every_device(device, other_device):
    with madspace.stream(0):
        assert (get_stream(other_device).handle, get_stream(other_device).device) == (1, other_device)
    with madspace.stream(0, device):
        assert get_stream(other_device) == other_device.default_stream


def test_streams_of_other_libraries(device):
    class Torch:
        device_index = 0
        cuda_stream = 0

    foreign = ForeignStream()
    for given, handle in ((foreign, foreign.handle), (foreign.handle, foreign.handle), (Torch(), 1)):
        with madspace.stream(given):
            assert get_stream().handle == handle
    foreign.destroy()


@pytest.mark.multi_gpu
def test_streams_are_for_their_device(device, other_device, stream):
    there = ForeignStream(1)

    class Torch:
        device_index = 1
        cuda_stream = there.handle

    for given in (there.handle, Torch(), Stream(other_device)):
        with madspace.stream(stream), madspace.stream(given) as second:
            assert second.device is other_device
            assert get_stream(device) is stream
            assert get_stream(other_device) == get_stream() == second
    with pytest.raises(DeviceMismatchError, match="stream: expected one of device 1"):
        madspace.stream(stream, other_device)
    there.destroy()


@pytest.mark.parametrize("bad", [None, True, 1.5, "s", -1])
def test_what_is_no_stream(device, bad):
    for choose in (madspace.stream, set_stream) if bad is not None else (madspace.stream,):
        with pytest.raises((TypeError, ValueError), match="stream: expected"):
            choose(bad)


def test_closed_streams(device, stream):
    scope = madspace.stream(stream)
    with madspace.stream(stream):
        stream.close()
        with pytest.raises(ClosedError, match="stream: expected an open stream"):
            zeros(3, device=device)
    with pytest.raises(ClosedError), scope:
        pass
    with pytest.raises(ClosedError):
        madspace.stream(stream)


def test_a_block_is_entered_once_at_a_time(stream):
    scope = madspace.stream(stream)
    with scope, pytest.raises(StreamScopeError, match="not entered"):
        scope.__enter__()
    with pytest.raises(StreamScopeError, match="was entered"):
        scope.__exit__(None, None, None)
    with scope:
        assert get_stream() is stream


def test_set_stream(device, streams):
    a, b, c = streams
    set_stream(a)
    try:
        assert get_stream() is a
        with madspace.stream(b):
            set_stream(c)
            set_stream(a)
            set_stream(c)
            assert get_stream() is c
        assert get_stream() is a  # not what was chosen inside, nor the device's own
        with madspace.stream(b):
            set_stream(None)
            assert get_stream() == device.default_stream
        assert get_stream() is a
        set_stream(b)
        assert get_stream() is b
    finally:
        set_stream(None)


@pytest.mark.multi_gpu
def test_set_stream_is_by_device(device, other_device, streams):
    there = Stream(other_device)
    set_stream(streams[0])
    set_stream(there)
    set_stream(streams[1])
    try:
        assert get_stream(device) is streams[1]
        assert get_stream(other_device) is there
    finally:
        set_stream(None)
    assert get_stream(other_device) == other_device.default_stream


def test_threads_choose_for_themselves(device, streams):
    seen = []

    def work():
        seen.append(get_stream())
        set_stream(streams[1])
        with madspace.stream(streams[2]):
            seen.append(get_stream())

    with madspace.stream(streams[0]):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert get_stream() is streams[0]
    assert seen == [device.default_stream, streams[2]]


def test_tasks_choose_for_themselves(device, streams):
    a, b, c = streams

    async def work(stream, seen):
        seen.append(get_stream())
        with madspace.stream(stream):
            for _ in range(3):
                await asyncio.sleep(0)
                seen.append(get_stream())
        seen.append(get_stream())

    async def main():
        first, second = [], []
        with madspace.stream(c):
            await asyncio.gather(work(a, first), work(b, second))
            assert get_stream() is c
        return first, second

    assert asyncio.run(main()) == ([c, a, a, a, c], [c, b, b, b, c])


def test_a_task_keeps_its_creators_choice(device, stream):
    async def late():
        await asyncio.sleep(0)
        return get_stream()

    async def main():
        with madspace.stream(stream):
            task = asyncio.create_task(late())
        assert get_stream() == device.default_stream
        return await task

    assert asyncio.run(main()) is stream


def test_a_cancelled_task_leaves_its_block(device, stream):
    async def work():
        with madspace.stream(stream):
            await asyncio.sleep(10)

    async def main():
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return get_stream()

    assert asyncio.run(main()) == device.default_stream


def test_a_generator_that_outlives_the_block_around_it(device, streams):
    a, b, _ = streams
    scope = madspace.stream(a)
    scope.__enter__()
    generator = suspended(b)
    with pytest.raises(StreamScopeError, match="order of their nesting"):
        scope.__exit__(None, None, None)
    assert get_stream() == device.default_stream
    generator.close()  # its block was left with the other
    assert get_stream() == device.default_stream


def test_a_generator_that_ends_inside_a_later_block(device, streams):
    a, b, _ = streams
    generator = suspended(a)
    with madspace.stream(b):
        with pytest.raises(StreamScopeError, match="order of their nesting"):
            generator.close()
        assert get_stream() is b
    assert get_stream() == device.default_stream


def test_two_generators_that_end_in_the_order_they_began(device, streams):
    a, b, c = streams
    with madspace.stream(c):
        first, second = suspended(a), suspended(b)
        with pytest.raises(StreamScopeError):
            first.close()
        second.close()
        assert get_stream() is c


def test_a_generator_that_ends_in_order(device, streams):
    a, b, _ = streams
    with madspace.stream(a):
        generator = suspended(b)
        assert get_stream() is b  # as with any context variable
        generator.close()
        assert get_stream() is a


def test_a_block_that_ends_in_another_thread(device, streams):
    scope = madspace.stream(streams[0])
    errors = []

    def work():
        scope.__enter__()

    def end():
        with madspace.stream(streams[1]):
            try:
                scope.__exit__(None, None, None)
            except StreamScopeError as error:
                errors.append((str(error), get_stream()))

    for target in (work, end):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    ((message, seen),) = errors
    assert "another thread or task" in message
    assert seen is streams[1]


def test_nothing_keeps_a_stream_after_its_block(fake, device):
    stream = Stream(device)
    with madspace.stream(stream):
        pass
    generator = suspended(stream)
    generator.close()
    fake.clear_log()
    del stream, generator
    assert len(fake.log("cuStreamDestroy")) == 1
