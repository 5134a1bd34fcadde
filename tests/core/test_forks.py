"""fork_streams and join_streams: order, the pool of side streams, exceptions, captures."""

import gc

import pytest
from contents import content
from raw_driver import ForeignStream, capturing

import madspace
from madspace import Stream, fork_streams, join_streams
from madspace.errors import CaptureError, ClosedError, DriverError

N = 1024


@pytest.fixture
def kernel(module, device):
    kernel = module["ms_test_fill"]
    kernel.load()
    return kernel


def test_side_streams_come_behind_the_origin(device, stream, block, delay):
    delay(stream)
    block.fill(1, stream)
    fork = fork_streams(stream, 2)
    block.fill(2, fork[1])
    assert set(block.read(fork[1])) == {2}
    join_streams(stream, fork)
    assert set(block.read(stream)) == {2}


def test_the_join_comes_behind_the_side_streams(device, stream, block, delay):
    sides = fork_streams(stream, 3)
    delay(sides[2])
    block.fill(7, sides[2])
    join_streams(stream, sides)
    block.fill(8, stream)
    assert set(block.read(stream)) == {8}


def test_a_fork_is_a_sequence(device, stream):
    fork = fork_streams(stream, 3)
    a, b, c = fork
    assert (len(fork), fork[0], fork[-1], fork[1:]) == (3, a, c, (b, c))
    assert len({side.handle for side in fork} | {stream.handle}) == 4
    assert all(side.device is device for side in fork)
    assert fork.origin is stream
    assert "3 streams, 3 not joined" in repr(fork)
    join_streams(stream, fork)
    assert "0 not joined" in repr(fork)


def test_side_streams_are_used_again(fake, device, stream):
    with fork_streams(stream, 3) as fork:
        handles = {side.handle for side in fork}
    del fork
    fake.clear_log()
    for _ in range(5):
        with fork_streams(stream, 3) as fork:
            assert {side.handle for side in fork} == handles
        del fork
    assert not fake.log("cuStreamCreate") + fake.log("cuStreamDestroy") + fake.log("cuEventCreate")


def test_unjoined_side_streams_come_back_too(fake, device, stream):
    fork = fork_streams(stream, 2)
    del fork
    fake.clear_log()
    assert len(fork_streams(stream, 2)) == 2
    assert not fake.log("cuStreamCreate")


def test_a_side_stream_with_buffers_is_not_given_out_again(device, stream):
    with fork_streams(stream, 1) as fork:
        handle = fork[0].handle
        buffer = device.pool.allocate(64, stream=fork[0])
    del fork
    other = fork_streams(stream, 1)
    assert other[0].handle != handle
    join_streams(stream, other)
    del other
    buffer.fill(1, stream=stream)
    buffer.close()
    gc.collect()
    assert handle in {side.handle for side in fork_streams(stream, 2)}


def test_side_streams_end_with_the_join(device, stream, words):
    fork = fork_streams(stream, 2)
    join_streams(stream, [fork[0]])
    with pytest.raises(ClosedError):
        words.fill(1, stream=fork[0])
    with pytest.raises(ClosedError):
        join_streams(stream, fork)
    words.fill(1, stream=fork[1])
    join_streams(stream, [fork[1]])


def test_other_streams_are_joined_and_stay(device, stream, block, delay):
    other, foreign = Stream(device), ForeignStream()
    delay(other)
    block.fill(5, other)
    join_streams(stream, (other, foreign, foreign.handle))
    assert set(block.read(stream)) == {5}
    assert not other.closed
    foreign.destroy()


def test_the_block_joins_after_an_exception(device, stream, block, delay):
    fork = fork_streams(stream, 1)
    delay(fork[0])
    block.fill(6, fork[0])
    with pytest.raises(ZeroDivisionError), fork:
        raise ZeroDivisionError
    assert fork[0].closed
    assert set(block.read(stream)) == {6}


def test_what_a_block_joined_before_is_left(device, stream):
    with fork_streams(stream, 2) as fork:
        join_streams(stream, [fork[0]])
    assert fork[1].closed


@pytest.mark.parametrize(
    ("n", "error"), [(0, ValueError), (-1, ValueError), (1025, ValueError), (1.5, TypeError), ("2", TypeError)]
)
def test_the_number_is_checked(device, stream, n, error):
    with pytest.raises(error, match="n: expected"):
        fork_streams(stream, n)


def test_what_is_no_stream(device, stream):
    with pytest.raises(TypeError, match="stream: expected"):
        fork_streams(None, 1)
    for bad in (stream, 3, None):
        with pytest.raises(TypeError, match="streams: expected"):
            join_streams(stream, bad)
    with pytest.raises(TypeError, match="stream: expected"):
        join_streams(stream, [None])
    with pytest.raises(TypeError, match=r"use madspace\.fork_streams"):
        madspace.Fork()


@pytest.mark.multi_gpu
def test_a_fork_is_on_the_device_of_its_origin(other_device):
    origin = Stream(other_device)
    with fork_streams(origin, 2) as fork:
        assert all(side.device is other_device for side in fork)


@pytest.mark.parametrize("handle", [0, 1, 2])
def test_default_streams_fork(device, handle, block):
    with fork_streams(handle, 1) as fork:
        block.fill(3, fork[0])
        assert fork.origin.handle == max(handle, 1)
    assert set(block.read(fork.origin)) == {3}


def test_each_failure_leaves_everything_usable(fake, device, stream, words):
    def action():
        with fork_streams(stream, 2) as fork:
            words.fill(1, stream=fork[0])

    for name, raised in fake.each_failure(action):
        assert isinstance(raised, DriverError), name
    action()
    stream.synchronize()


def test_forks_in_a_capture(device, stream, words, kernel):
    other = device.pool.allocate(4 * N, stream=stream)
    with madspace.capture(stream) as graph, fork_streams(stream, 2) as fork:
        kernel.launch(1, 256, words, 7, N, stream=fork[0])
        kernel.launch(1, 256, other, 9, N, stream=fork[1])
    graph.instantiate().launch(stream)
    assert (content(words), content(other)) == (7, 9)


def test_an_unjoined_fork_in_a_capture_is_named(fake, device, stream, words, kernel):
    scope = madspace.capture(stream)
    scope.__enter__()
    fork = fork_streams(stream, 3)
    for side in fork:
        kernel.launch(1, 256, words, 7, N, stream=side)
    join_streams(stream, [fork[1]])
    with pytest.raises(CaptureError, match=r"2 of the streams that fork_streams\(\) forked off <Stream") as info:
        scope.__exit__(None, None, None)
    assert (info.value.code, f"{stream.handle:#x}" in str(info.value)) == (904, True)
    for _ in range(2):  # the same stream, the same side streams
        with madspace.capture(stream) as graph, fork_streams(stream, 3) as again:
            kernel.launch(1, 256, words, 8, N, stream=again[2])
        graph.instantiate().launch(stream)
        assert content(words) == 8
    with fork_streams(stream, 3) as outside:
        assert not any(side.is_capturing for side in outside)


def test_side_streams_that_were_dropped_in_a_capture_break_nothing_else(fake, device, stream, words, kernel):
    scope = madspace.capture(stream)
    scope.__enter__()
    for side in fork_streams(stream, 2):
        kernel.launch(1, 256, words, 7, N, stream=side)
    del side
    assert not fake.log("cuStreamDestroy")
    with pytest.raises(CaptureError, match="fork_streams"):
        scope.__exit__(None, None, None)
    with madspace.capture(stream):
        kernel.launch(1, 256, words, 7, N, stream=stream)


def test_a_capture_lets_go_of_its_forks_at_its_end(fake, device, words, kernel):
    stream = Stream(device)
    with madspace.capture(stream), fork_streams(stream, 1) as fork:
        kernel.launch(1, 256, words, 7, N, stream=fork[0])
    handle = fork[0].handle
    del fork
    gc.collect()
    fake.clear_log()
    stream.close()
    assert len(fake.log("cuStreamDestroy")) == 1
    assert handle in {side.handle for side in fork_streams(words.stream, 1)}


def test_side_streams_of_a_capture_stay_in_it_until_its_end(device, stream, kernel, words):
    other = Stream(device)
    with capturing(stream):
        with fork_streams(stream, 2) as fork:
            inside = {side.handle for side in fork}
        del fork
        with fork_streams(other, 2) as outside:
            assert not inside & {side.handle for side in outside}
            words.fill(1, stream=outside[0])


def test_an_exception_in_a_capture_passes(device, stream, words, kernel):
    def run():
        with madspace.capture(stream), fork_streams(stream, 2) as fork:
            kernel.launch(1, 256, words, 7, N, stream=fork[0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert not stream.is_capturing
    assert content(words) == 0


def test_leaving_with_forks_is_silent(run_python):
    done = run_python(
        "import madspace\n"
        "stream = madspace.Stream()\n"
        "fork = madspace.fork_streams(stream, 2)\n"
        "with madspace.fork_streams(stream, 2): pass\n"
        "scope = madspace.stream(stream); scope.__enter__()\n"
    )
    assert (done.returncode, done.stderr, done.faults) == (0, "", [])
