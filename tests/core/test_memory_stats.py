"""What a pool counts, and the limit that it keeps."""

import threading

import pytest
from raw_driver import capturing

import madspace
from madspace.core.pool import MemoryPool
from madspace.core.stream import Stream
from madspace.errors import ClosedError, OutOfMemoryError

N = 1 << 20


def test_a_new_pool_has_counted_nothing(device):
    stats = MemoryPool().stats()
    assert stats == (0,) * 10 + (None,)
    assert stats._fields[:6] == (
        "current_bytes",
        "peak_bytes",
        "total_bytes",
        "current_count",
        "peak_count",
        "total_count",
    )


def test_allocations_and_frees_are_counted(device, stream):
    pool = MemoryPool()
    first = pool.allocate(N, stream=stream)
    second = pool.allocate(1000, stream=stream)
    second.close()
    third = pool.allocate(24, stream=stream)
    pool.allocate(0, stream=stream)  # needs no memory
    stats = pool.stats()
    assert (stats.current_bytes, stats.peak_bytes, stats.total_bytes) == (N + 24, N + 1000, N + 1024)
    assert (stats.current_count, stats.peak_count, stats.total_count) == (2, 2, 3)
    assert N + 24 <= stats.used_bytes <= stats.reserved_bytes
    assert stats.peak_used_bytes >= stats.used_bytes
    assert stats.peak_reserved_bytes >= stats.reserved_bytes
    del first, third
    stream.synchronize()
    pool.reset_peaks()
    stats = pool.stats()
    assert (stats.current_bytes, stats.peak_bytes, stats.current_count, stats.peak_count) == (0, 0, 0, 0)
    assert (stats.used_bytes, stats.peak_used_bytes) == (0, 0)
    assert (stats.total_bytes, stats.total_count) == (N + 1024, 3)


def test_memory_stats_are_those_of_the_own_pool(device):
    before = madspace.memory_stats()
    buffer = device.pool.allocate(N)
    for after in (madspace.memory_stats(), madspace.memory_stats(device), madspace.memory_stats("cuda:0")):
        assert after.total_bytes == before.total_bytes + N
        assert after.current_count == before.current_count + 1
    buffer.close()
    assert madspace.memory_stats().current_bytes == before.current_bytes


def test_tensors_count(device):
    before = madspace.memory_stats()
    tensor = madspace.zeros(1000, device=device)
    assert madspace.memory_stats().current_bytes == before.current_bytes + 8000
    del tensor
    assert madspace.memory_stats().current_bytes == before.current_bytes


def test_closed_pools_have_no_stats(device):
    pool = MemoryPool()
    pool.close()
    with pytest.raises(ClosedError, match="pool: expected an open pool"):
        pool.stats()


# The limit.


def test_the_limit_is_kept_before_the_driver_is_asked(fake, device, stream):
    pool = MemoryPool(limit=2 * N)
    kept = pool.allocate(N + 1, stream=stream)
    fake.clear_log()
    with pytest.raises(OutOfMemoryError) as caught:
        pool.allocate(N, stream=stream)
    assert fake.log("cuMemAllocFromPoolAsync") == []
    assert f"got {N} bytes on device 0 with {N + 1} bytes in use and a limit of {2 * N}" in str(caught.value)
    assert (caught.value.code, caught.value.call) == (2, "MemoryPool.allocate")
    assert pool.stats()[:6] == (N + 1, N + 1, N + 1, 1, 1, 1)
    del kept


def test_what_is_freed_may_be_had_again(device, stream):
    pool = MemoryPool(limit=N)
    for _ in range(5):
        with pool.allocate(N, stream=stream), pytest.raises(OutOfMemoryError):
            pool.allocate(1, stream=stream)
    assert pool.stats().total_count == 5


def test_a_limit_may_be_set_and_lifted(device):
    pool = MemoryPool()
    assert pool.limit is None
    buffer = pool.allocate(N)
    pool.limit = 100  # less than is in use
    assert pool.limit == pool.stats().limit == 100
    with pytest.raises(OutOfMemoryError):
        pool.allocate(1)
    buffer.close()
    pool.allocate(100).close()
    pool.limit = None
    pool.allocate(N).close()


@pytest.mark.parametrize(
    ("limit", "error"), [(-1, ValueError), (2**64, ValueError), (1.5, TypeError), ("1", TypeError)]
)
def test_a_limit_is_a_number_of_bytes(fake, device, limit, error):
    before = fake.counts()["pool"]
    with pytest.raises(error):
        MemoryPool(limit=limit)
    assert fake.counts()["pool"] == before


def test_a_limit_of_nothing_and_a_size_beyond_all(device):
    pool = MemoryPool(limit=0)
    assert pool.allocate(0).nbytes == 0
    for nbytes in (1, 2**63, 2**64 - 1):
        with pytest.raises(OutOfMemoryError):
            pool.allocate(nbytes)
    assert pool.stats().current_bytes == 0


def test_a_refused_allocation_takes_nothing(fake, device, stream):
    pool = MemoryPool()
    with fake.failing("cuMemAllocFromPoolAsync", code=999), pytest.raises(madspace.DriverError):
        pool.allocate(N, stream=stream)
    assert pool.stats()[:6] == (0,) * 6


def test_frees_that_are_put_off_count_until_they_happen(device, stream):
    pool = MemoryPool(limit=N)
    buffer = pool.allocate(N, stream=stream)
    with capturing(stream):
        buffer.close()
        assert pool.stats().current_bytes == N
    pool.allocate(N, stream=stream).close()  # makes room first
    assert pool.stats().current_bytes == 0


def test_threads_together_keep_the_limit(device):
    pool = MemoryPool(limit=3000)
    wrong = []

    def work():
        stream = Stream(device)
        for _ in range(1000):
            try:
                with pool.allocate(1000, stream=stream):
                    if pool.stats().current_bytes > 3000:
                        wrong.append(pool.stats())
            except OutOfMemoryError:
                pass

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    stats = pool.stats()
    assert stats.current_count == 0
    assert stats.peak_bytes <= 3000
    assert 0 < stats.total_count <= 6000
