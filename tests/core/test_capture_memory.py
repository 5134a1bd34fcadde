"""Memory in captures of our own: what the graph keeps, what is taken in the block, what is given back."""

import gc
import weakref

import pytest
from contents import content

from madspace.core.capture import capture
from madspace.core.module import Module
from madspace.core.pinned import PinnedBuffer
from madspace.errors import ClosedError

N = 1024


def test_operands_and_kernels_live_as_long_as_the_graph(device, stream, words, kernels_ptx):
    module = Module(kernels_ptx)
    kernel = module["ms_test_copy"]
    kernel.load()
    source = device.pool.allocate(4 * N, stream=stream)
    source.fill(5)
    with capture(stream) as graph:
        kernel.launch(1, 256, words, source, N, stream=stream)
    seen = weakref.ref(source)
    del source, module, kernel
    executable = graph.instantiate()
    del graph
    gc.collect()
    assert seen() is not None
    executable.launch(stream)  # a kernel that is not there would be a fault
    assert content(words) == 0x05050505
    del executable
    gc.collect()
    assert seen() is None


def test_a_buffer_closed_in_the_capture_becomes_the_graphs(device, stream, words):
    scratch = device.pool.allocate(4 * N, stream=stream)
    with capture(stream) as graph:
        scratch.fill(6)
        words.copy_from(scratch)
        scratch.close()
    executable = graph.instantiate()
    device.pool.allocate(4 * N, stream=stream).fill(9)  # may not be the same memory
    executable.launch(stream)
    assert content(words) == 0x06060606


def test_a_buffer_closed_afterwards_is_missed_at_the_launch(device, stream, words):
    with capture(stream) as graph:
        words.fill(1)
    executable = graph.instantiate()
    words.close()
    for use in (lambda: executable.launch(stream), graph.instantiate):
        with pytest.raises(ClosedError, match="buffer: expected an open buffer"):
            use()


def test_a_free_of_other_memory_is_put_off_to_the_end(fake, device, stream):
    other = device.pool.allocate(4 * N, stream=stream)
    before = fake.counts()["device_memory"]
    with capture(stream):
        other.close()
        assert fake.counts()["device_memory"] == before
    assert fake.counts()["device_memory"] == before - 1


def test_memory_allocated_in_the_capture_stays_in_place(device, stream, words):
    with capture(stream, mode="global") as graph:
        result = device.pool.allocate(4 * N, stream=stream)
        scratch = device.pool.allocate(4 * N, stream=stream)
        scratch.fill(4)
        result.copy_from(scratch)
        words.copy_from(result)
        del scratch
    address = result.ptr
    assert graph.node_counts() == {"memset": 1, "memcpy": 2}
    executable = graph.instantiate()
    for _ in range(2):
        executable.launch(stream)
        assert content(result) == content(words) == 0x04040404
        result.fill(0)
    assert result.ptr == address


def test_memory_allocated_in_the_capture_ends_with_the_graph(fake, device, stream, words):
    before = fake.counts()["device_memory"]
    with capture(stream) as graph:
        device.pool.allocate(4 * N, stream=stream).fill(1)
    executable = graph.instantiate()
    del graph
    gc.collect()
    assert fake.counts()["device_memory"] == before + 1
    executable.launch(stream)
    del executable
    gc.collect()
    assert fake.counts()["device_memory"] == before


def test_memory_allocated_in_a_capture_that_fails_goes_back(fake, device, stream):
    before = fake.counts()["device_memory"]
    with pytest.raises(KeyError), capture(stream):
        device.pool.allocate(4 * N, stream=stream).fill(1)
        raise KeyError
    gc.collect()
    device.pool.allocate(4, stream=stream).close()  # what was put off goes with the next call
    assert fake.counts()["device_memory"] == before


def test_pinned_memory_of_a_copy_is_kept(device, stream, words):
    staged = PinnedBuffer(4 * N)
    staged.numpy()[:] = 3
    with capture(stream) as graph:
        staged.copy_to(words, stream=stream)
    executable = graph.instantiate()
    del graph
    executable.launch(stream)
    assert content(words) == 0x03030303
    staged.close()
    with pytest.raises(ClosedError, match="pinned buffer"):
        executable.launch(stream)
