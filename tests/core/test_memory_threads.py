"""Buffers that several threads use at once, each on its own stream."""

import gc
import threading

import pytest

from madspace.core.stream import Stream

N_THREADS = 4
N_ROUNDS = 5000  # enough for threads to change places inside of one operation


def run_together(work):
    """Run work(i) in N_THREADS threads that start together, and return what they raised."""
    barrier, errors = threading.Barrier(N_THREADS), []

    def body(i):
        try:
            barrier.wait()
            work(i)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@pytest.mark.parametrize("own_too", [False, True], ids=["other streams", "own stream too"])
def test_one_buffer_many_streams(device, stream, own_too):
    buffer = device.pool.allocate(256, stream=stream)
    buffer.fill(0)
    targets = [device.pool.allocate(256) for _ in range(N_THREADS)]
    streams = [Stream(device) for _ in range(N_THREADS)]
    if own_too:
        streams[0] = stream

    def work(i):
        for n in range(N_ROUNDS):
            buffer.fill((i + n) % 256, stream=streams[i])
            targets[i].copy_from(buffer, stream=streams[i])

    assert run_together(work) == []
    buffer.fill(9)
    assert set(buffer.copy_to_host()) == {9}


def test_buffers_of_one_pool_come_and_go(fake, device, stream):
    before = fake.counts()["device_memory"]

    def work(i):
        kept = [device.pool.allocate(64 * (i + 1), stream=stream) for _ in range(8)]
        for n in range(N_ROUNDS):
            kept[n % 8].fill(i, stream=device.default_stream)
            kept[n % 8] = device.pool.allocate(64 * (i + 1), stream=stream)

    assert run_together(work) == []
    gc.collect()
    assert fake.counts()["device_memory"] == before


def test_streams_are_ordered_from_many_threads(device):
    streams = [Stream(device) for _ in range(N_THREADS)]

    def work(i):
        for n in range(N_ROUNDS):
            streams[i].wait(streams[(i + n) % N_THREADS])

    assert run_together(work) == []
    device.synchronize()
