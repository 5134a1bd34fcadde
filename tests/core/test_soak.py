"""After many mixed operations of the soak benchmark there is as much as after a few."""

import gc

import pytest
import soak

import madspace

N = 4000


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Take small buffers only: the fake driver keeps freed memory from reuse, and fills it."""
    monkeypatch.setattr(soak, "SIZES", (1, 256, 1000, 4096, 65536))


def test_handles_stay_constant(fake, device):
    mix = soak.Soak(device, seed=1)
    mix.run(N)
    gc.collect()
    before = fake.counts()
    mix.run(4 * N)
    gc.collect()
    after = fake.counts()
    assert after["device_memory"] == before["device_memory"]
    # Streams stay as long as buffers that were allocated on them; idle events and pinned blocks are as many as were in
    # use at one time.
    assert after["stream"] <= before["stream"] + 64
    assert after["event"] <= before["event"] + 64
    assert after["host_memory"] <= before["host_memory"] + 64
    mix.end()
    gc.collect()


def test_everything_comes_back(fake, device):
    device.default_stream, device.pool  # noqa: B018
    gc.collect()
    madspace.PinnedBuffer.trim()
    before = fake.counts()
    mix = soak.Soak(device, seed=2)
    mix.run(N)
    mix.end()
    gc.collect()
    after = fake.counts()
    for kind in ("device_memory", "host_memory", "stream", "pool", "bytes"):
        assert after[kind] == before[kind], kind


def test_the_pool_counts_nothing_left(device):
    gc.collect()
    device.synchronize()
    before = device.pool.stats()
    with madspace.statistics() as scope:
        mix = soak.Soak(device, seed=3)
        mix.run(N)
        mix.end()
    after = device.pool.stats()
    assert (after.current_bytes, after.current_count) == (before.current_bytes, before.current_count)
    assert after.used_bytes == before.used_bytes
    assert scope.current_count == 0
    assert scope.total_count == after.total_count - before.total_count > N / 4
