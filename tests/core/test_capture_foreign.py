"""Captures that other libraries began: joined, never broken, in all three modes."""

import numpy as np
import pytest
from contents import content
from cuda.bindings import driver
from raw_driver import capturing

from madspace.core.creation import zeros
from madspace.core.event import Event
from madspace.core.graph import Graph
from madspace.core.module import Module
from madspace.core.pool import MemoryPool
from madspace.core.stream import Stream
from madspace.errors import CaptureError

N = 1024
PREFIX = "CU_STREAM_CAPTURE_MODE_"


@pytest.fixture(params=["GLOBAL", "THREAD_LOCAL", "RELAXED"])
def mode(request):
    """Return each mode that a capture can have."""
    return getattr(driver.CUstreamCaptureMode, PREFIX + request.param)


@pytest.fixture
def kernel(device, kernels_ptx):
    """Return the kernel ms_test_fill, not loaded yet."""
    return Module(kernels_ptx)["ms_test_fill"]


def test_device_work_joins(device, stream, words, kernel, mode):
    kernel.load()
    other = device.pool.allocate(4 * N)
    with capturing(stream, mode):
        kernel.launch(1, 256, words, 7, N, stream=stream)
        words.fill(1)
        words.copy_from(other)
        other.copy_from(words, stream=stream)
    assert content(words) == 0  # it was captured, not run


def test_streams_and_events_join(device, stream, words, mode):
    side, event = Stream(device), Event(device)
    with capturing(stream, mode):
        side.wait(stream)
        words.fill(1, stream=side)
        event.record(side)
        stream.wait(event)
    assert not side.is_capturing


def test_questions_about_other_work_break_nothing(device, stream, mode):
    other, event = Stream(device), Event(device)
    event.record(other)
    with capturing(stream, mode):
        assert event.query() in (True, False)
        assert other.query() in (True, False)
        event.synchronize()
        other.synchronize()
        assert event.query()
        event.record(other)


def test_what_would_break_it_is_refused(device, stream, words, mode):
    event, other = Event(device), Stream(device)
    with capturing(stream, mode):
        for use in (
            stream.query,
            stream.synchronize,
            words.copy_to_host,
            lambda: words.copy_from_host(bytes(4 * N)),
            lambda: stream.wait(other),
            lambda: device.pool.allocate(8, stream=stream),
        ):
            with pytest.raises(CaptureError):
                use()
        event.record(stream)


def test_memory_on_other_streams_comes_and_goes(device, stream, mode):
    other = Stream(device)
    with capturing(stream, mode):
        buffer = device.pool.allocate(4 * N, stream=other)
        buffer.fill(3)
        device.pool.allocate(4 * N, stream=other).close()
    assert content(buffer) == 0x03030303


def test_memory_of_a_captured_stream_draws_no_other_stream_in(device, stream, words, mode):
    other = Stream(device)
    target = device.pool.allocate(4 * N, stream=other)
    stream.synchronize()
    with capturing(stream, mode):
        target.copy_from(words, stream=other)
        assert not other.is_capturing
    assert content(target) == 0


def test_pools_elsewhere_break_nothing(device, stream, mode):
    with capturing(stream, mode):
        pool = MemoryPool(device)
        pool.trim()
    pool.close()


def test_a_bare_handle_of_a_captured_stream_takes_no_memory(device, stream, mode):
    with capturing(stream, mode), pytest.raises(CaptureError, match="pass out="):
        device.pool.allocate(8, stream=stream.handle)


def test_what_a_refused_copy_would_wait_for_is_not_queued(fake, device, stream, mode):
    side = Stream(device)
    tensor = zeros(N, device=device, stream=stream)
    with capturing(stream, mode):
        side.wait(stream)
        fake.clear_log()
        with pytest.raises(CaptureError):
            tensor.copy_from(np.zeros(N), stream=side)
        with pytest.raises(CaptureError):
            tensor.numpy()
        assert not {"cuEventRecord", "cuStreamWaitEvent", "cuMemAllocFromPoolAsync"} & set(fake.names())
        stream.wait(side)


def test_frees_are_put_off(fake, device, stream, words, mode):
    before = fake.counts()["device_memory"]
    other = Stream(device)
    with capturing(stream, mode):
        words.close()
        device.pool.allocate(8, stream=other).close()
        assert fake.counts()["device_memory"] == before
    device.pool.allocate(8).close()
    assert fake.counts()["device_memory"] == before - 1


def test_a_first_use_of_a_kernel_is_refused(stream, words, kernel, mode):
    with capturing(stream, mode), pytest.raises(CaptureError, match=r"fill is not loaded .*madspace\.preload\(\)"):
        kernel.launch(1, 256, words, 7, N, stream=stream)
    kernel.launch(1, 256, words, 7, N, stream=stream)
    assert content(words) == 7
    with capturing(stream, mode):
        kernel.launch(1, 256, words, 8, N, stream=stream)


def test_nothing_is_asked_or_loaded_by_a_first_use_in_a_capture(fake, stream, words, kernel):
    with capturing(stream):
        fake.clear_log()
        with pytest.raises(CaptureError):
            kernel.launch(1, 256, words, 7, N, stream=stream)
        assert set(fake.names()) - {"cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent"} == {"cuStreamIsCapturing"}


def test_a_kernel_that_another_object_loaded_is_ready(stream, words, kernel, mode):
    kernel.module[kernel.name].load()
    with capturing(stream, mode):
        kernel.module[kernel.name].launch(1, 256, words, 7, N, stream=stream)


def test_a_ready_kernel_costs_nothing(fake, stream, words, kernel):
    kernel.load()
    kernel.launch(1, 256, words, 7, N, stream=stream)
    fake.clear_log()
    kernel.launch(1, 256, words, 7, N, stream=stream)
    assert set(fake.names()) - {"cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent"} == {"cuLaunchKernel"}


def test_loading_elsewhere_breaks_nothing(device, stream, words, kernel, mode):
    other = Stream(device)
    buffer = device.pool.allocate(4 * N, stream=other)
    with capturing(stream, mode):
        kernel.launch(1, 256, buffer, 7, N, stream=other)
    assert content(buffer) == 7


def test_graphs_elsewhere_break_nothing(device, stream, kernel, mode):
    other = Stream(device)
    buffer = device.pool.allocate(4 * N, stream=other)
    with capturing(stream, mode):
        graph = Graph(device)
        graph.add_kernel(kernel, 1, 256, buffer, 5, N)
        executable = graph.instantiate()
        executable.launch(other)
        executable.close()
        graph.close()
    assert content(buffer) == 5


SHIPPED = """
import madspace, numpy as np
from madspace import Stream, TPropagatorMapping
from raw_driver import capturing

stream = Stream()
inputs = [madspace.asarray(np.full(8, 0.5), device="cuda", stream=stream) for _ in range(9)]
out = [madspace.zeros((8, 4), "float64", device="cuda", stream=stream) for _ in range(5)]
out.append(madspace.zeros(8, "float64", device="cuda", stream=stream))
mapping = TPropagatorMapping([1, 0], 0.8)
with capturing(stream):
    try:
        mapping.map_forward(inputs, out=out, stream=stream)
    except madspace.CaptureError as error:
        assert "madspace.preload()" in str(error), error
    else:
        raise AssertionError("a kernel was loaded in a capture")
assert madspace.preload() > 0
with capturing(stream):
    mapping.map_forward(inputs, out=out, stream=stream)
print("done")
"""


def test_shipped_kernels_need_preload(run_python, real_gpu):
    answer = run_python(SHIPPED, driver="real" if real_gpu else "fake")
    assert answer.stdout == "done\n", answer.stderr
    assert answer.faults == []
