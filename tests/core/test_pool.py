"""MemoryPool: life, statistics, and the pool of everybody else left alone."""

import gc

import pytest

from madspace.core.pool import MemoryPool
from madspace.errors import ClosedError, DriverError

N = 1 << 20


def test_a_new_pool(device):
    pool = MemoryPool()
    assert pool.device is device
    assert not pool.closed
    assert pool.used_bytes == 0
    assert pool.release_threshold == 2**64 - 1
    assert f"{pool.handle:#x}" in repr(pool)
    assert MemoryPool("cuda:0", release_threshold=N).release_threshold == N


def test_the_current_pool_of_the_device_is_left_alone(fake, device):
    fake.clear_log()
    MemoryPool().allocate(N)
    device.pool.allocate(N)
    assert not {"cuDeviceSetMemPool", "cuDeviceGetMemPool", "cuDeviceGetDefaultMemPool", "cuMemAllocAsync"} & set(
        fake.names()
    )


@pytest.mark.parametrize("end", ["close", "with", "drop"])
def test_every_end_destroys_it_once(fake, device, end):
    before = fake.counts()["pool"]
    pool = MemoryPool()
    if end == "close":
        pool.close()
        pool.close()
    elif end == "with":
        with pool:
            pass
    del pool
    gc.collect()
    assert len(fake.log("cuMemPoolDestroy")) == 1
    assert fake.counts()["pool"] == before


def test_a_closed_pool_says_so(device):
    pool = MemoryPool()
    pool.close()
    for use in (lambda: pool.allocate(8), pool.trim, pool.reset_peaks, lambda: pool.used_bytes, pool.__enter__):
        with pytest.raises(ClosedError, match="pool: expected an open pool"):
            use()


def test_without_init_it_is_closed_and_harmless():
    pool = MemoryPool.__new__(MemoryPool)
    assert pool.closed
    with pytest.raises(ClosedError):
        pool.trim()


def test_buffers_outlive_their_pool(device):
    pool = MemoryPool()
    buffer = pool.allocate(N)
    pool.close()
    buffer.fill(3)
    assert set(buffer.copy_to_host()) == {3}
    buffer.close()


def test_a_pool_goes_after_its_last_buffer(fake, device):
    device.pool.trim()  # destroys what earlier tests left
    before = fake.counts()["pool"]
    fake.clear_log()
    pool = MemoryPool()
    buffer = pool.allocate(N)
    pool.close()
    assert not fake.log("cuMemPoolDestroy")
    buffer.close()
    device.pool.trim()
    assert len(fake.log("cuMemPoolDestroy")) == 1
    assert fake.counts()["pool"] == before


def test_a_pool_is_kept_by_its_buffers(fake, device):
    before = fake.counts()["pool"]
    buffer = MemoryPool().allocate(N)
    gc.collect()
    assert fake.counts()["pool"] == before + 1
    del buffer
    gc.collect()
    assert fake.counts()["pool"] == before


def test_the_devices_own_pool_cannot_be_closed(device):
    with pytest.raises(ValueError, match="own pool of device 0 is shared"):
        device.pool.close()


def test_statistics(device, stream):
    pool = MemoryPool()
    buffers = [pool.allocate(N, stream=stream) for _ in range(2)]
    assert 2 * N <= pool.used_bytes <= pool.reserved_bytes
    assert pool.peak_used_bytes >= 2 * N
    buffers.clear()
    stream.synchronize()
    assert pool.used_bytes == 0
    assert pool.reserved_bytes >= 2 * N  # kept for the next one
    pool.reset_peaks()
    assert pool.peak_used_bytes == 0
    pool.trim()
    assert pool.reserved_bytes == 0


def test_trim_keeps_what_it_is_told(device, stream):
    pool = MemoryPool()
    pool.allocate(64 * N, stream=stream).close()
    stream.synchronize()
    pool.trim(64 * N)
    assert pool.reserved_bytes >= 64 * N
    pool.trim(0)
    assert pool.reserved_bytes == 0


def test_a_threshold_lets_memory_go_at_a_synchronisation(device, stream):
    pool = MemoryPool(release_threshold=0)
    pool.allocate(64 * N, stream=stream).close()
    stream.synchronize()
    assert pool.reserved_bytes == 0


@pytest.mark.parametrize("nbytes", [-1, 2**64], ids=repr)
def test_a_size_must_be_one(device, nbytes):
    with pytest.raises((OverflowError, ValueError)):
        device.pool.allocate(nbytes)


@pytest.mark.parametrize("nbytes", ["8", 8.5, None], ids=repr)
def test_a_size_must_be_an_int(device, nbytes):
    with pytest.raises(TypeError):
        device.pool.allocate(nbytes)


def test_each_failure_of_a_creation_leaves_nothing(fake, device):
    before = fake.counts()["pool"]
    for name, error in fake.each_failure(lambda: MemoryPool(release_threshold=5).close()):
        assert isinstance(error, DriverError), name
        del error
        # What could not be destroyed is kept, and tried again.
        assert fake.counts()["pool"] == before + (name in ("cuMemPoolDestroy", "cuMemPoolGetAttribute"))
        device.pool.trim()
        assert fake.counts()["pool"] == before


def test_a_with_block_leaves_the_own_pool_open(device):
    with device.pool as pool:
        pool.trim()
    assert not pool.closed


@pytest.mark.parametrize("value", [-1, 2**64])
def test_numbers_of_bytes_name_their_argument(device, value):
    for name in ("limit", "release_threshold"):
        with pytest.raises(ValueError, match=f"{name}: expected .* got {value}"):
            MemoryPool(device, **{name: value})
    with pytest.raises(ValueError, match=f"min_bytes_to_keep: expected .* got {value}"):
        device.pool.trim(value)
