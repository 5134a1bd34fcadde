"""The fake driver finds what it is there to find: missing waits, late uses, wrong handles."""

import ctypes

import numpy as np
import pytest
from cuda.bindings import driver
from raw_driver import checked, current, launch

N = 64


@pytest.fixture
def context(fake):
    with current(0) as handle:
        yield handle


@pytest.fixture
def streams(context):
    made = [checked(driver.cuStreamCreate(1)) for _ in range(2)]
    yield [int(one) for one in made]
    for one in made:
        checked(driver.cuStreamDestroy(one))


@pytest.fixture
def block(context):
    ptr = checked(driver.cuMemAlloc(4 * N))
    yield ptr
    checked(driver.cuMemFree(ptr))


def host(ptr, stream):
    out = np.empty(N, np.uint32)
    checked(driver.cuMemcpyDtoHAsync(out.ctypes.data, ptr, 4 * N, stream))
    return out


def test_a_missing_wait_reads_old_data(fake, streams, block):
    late, reader = streams
    fake.defer(late)
    checked(driver.cuMemsetD32Async(block, 7, N, late))
    assert (host(block, reader) == 0xFFFFFFFF).all()
    checked(driver.cuStreamSynchronize(late))
    assert (host(block, reader) == 7).all()


def test_a_wait_on_an_event_brings_the_data(fake, streams, block):
    late, reader = streams
    event = checked(driver.cuEventCreate(2))
    fake.defer(late)
    checked(driver.cuMemsetD32Async(block, 7, N, late))
    checked(driver.cuEventRecord(event, late))
    assert driver.cuEventQuery(event)[0] == driver.CUresult.CUDA_ERROR_NOT_READY
    checked(driver.cuStreamWaitEvent(reader, event, 0))
    assert (host(block, reader) == 7).all()
    assert fake.pending(late) == 0
    checked(driver.cuEventDestroy(event))


def test_two_deferred_streams_run_in_the_order_that_the_test_chooses(fake, streams, block):
    for value, stream in enumerate(streams):
        fake.defer(stream)
        checked(driver.cuMemsetD32Async(block, value, N, stream))
    fake.run(streams[1])
    fake.run(streams[0])
    assert (host(block, streams[0]) == 0).all()


def test_a_free_before_the_last_reader_is_found(fake, streams, block):
    late, owner = streams
    ptr = checked(driver.cuMemAllocAsync(4 * N, owner))
    fake.defer(late)
    checked(driver.cuMemcpyDtoDAsync(block, ptr, 4 * N, late))
    checked(driver.cuMemFreeAsync(ptr, owner))
    fake.run(late)
    assert any("use after free" in fault for fault in fake.faults())
    assert (host(block, late) == 0xFFFFFFFF).all()
    fake.clear_faults()


def test_a_use_before_the_allocation_is_found(fake, streams):
    late, other = streams
    fake.defer(late)
    ptr = checked(driver.cuMemAllocAsync(4 * N, late))
    checked(driver.cuMemsetD32Async(ptr, 1, N, other))
    assert any("before the allocation" in fault for fault in fake.faults())
    fake.clear_faults()
    checked(driver.cuMemFreeAsync(ptr, late))


@pytest.mark.parametrize("late_write", [True, False], ids=["write after free", "double free"])
def test_uses_after_free_are_found(fake, streams, late_write):
    ptr = checked(driver.cuMemAllocAsync(4 * N, streams[0]))
    checked(driver.cuMemFreeAsync(ptr, streams[0]))
    if late_write:
        ctypes.memset(int(ptr), 0, 4)
    else:
        assert driver.cuMemFreeAsync(ptr, streams[0])[0] == driver.CUresult.CUDA_ERROR_INVALID_VALUE
    assert any(("write after free" if late_write else "double free") in fault for fault in fake.faults())
    fake.clear_faults()


def test_kernel_parameters_into_freed_memory_are_found(fake, streams, kernels_ptx):
    ptr = checked(driver.cuMemAllocAsync(4 * N, streams[0]))
    checked(driver.cuMemFreeAsync(ptr, streams[0]))
    launch(kernels_ptx, "ms_test_fill", streams[0], np.uint64(int(ptr)), np.uint32(1), np.uint32(0))
    assert any("kernel ms_test_fill" in fault for fault in fake.faults())
    fake.clear_faults()


def test_kernels_run_on_the_host(fake, streams, block, kernels_ptx):
    launch(kernels_ptx, "ms_test_fill", streams[0], np.uint64(int(block)), np.uint32(5), np.uint32(N - 1))
    assert host(block, streams[0]).tolist() == [5] * (N - 1) + [0xFFFFFFFF]
    (call,) = fake.log("cuLaunchKernel")
    assert call.args["kernel"] == "ms_test_fill"
    assert call.args["stream"] == streams[0]


def test_a_python_function_serves_as_kernel(fake, streams, block):
    seen = []
    fake.register("ms_made_up", lambda params, grid, block: seen.append((grid[0], block[0])), sizes=[8])
    image = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry ms_made_up(.param .u64 p)\n{ ret; }\n"
    launch(image, "ms_made_up", streams[0], np.uint64(int(block)), grid=3, block=32)
    fake.unregister("ms_made_up")
    assert seen == [(3, 32)]


def test_parameter_sizes_come_from_ptx(context):
    image = b".version 8.0\n.target sm_80\n.address_size 64\n"
    image += b".visible .entry k(\n .param .u32 a,\n .param .align 8 .b8 b[24]\n)\n{ ret; }\n"
    library = checked(driver.cuLibraryLoadData(image, None, None, 0, None, None, 0))
    kernel = checked(driver.cuLibraryGetKernel(library, b"k"))
    assert [checked(driver.cuKernelGetParamInfo(kernel, i)) for i in range(2)] == [(0, 4), (8, 24)]
    checked(driver.cuLibraryUnload(library))


def test_dead_and_unknown_handles_are_found(fake, streams):
    event = checked(driver.cuEventCreate(2))
    checked(driver.cuEventDestroy(event))
    assert driver.cuEventRecord(event, streams[0])[0] == driver.CUresult.CUDA_ERROR_INVALID_HANDLE
    assert driver.cuStreamQuery(12345)[0] == driver.CUresult.CUDA_ERROR_INVALID_HANDLE
    assert len(fake.faults()) == 2
    fake.clear_faults()


def test_calls_need_a_context(fake):
    checked(driver.cuInit(0))
    assert driver.cuStreamCreate(1)[0] == driver.CUresult.CUDA_ERROR_INVALID_CONTEXT


def test_the_nth_call_fails_as_told_and_does_nothing(fake, context):
    before = fake.counts()
    with fake.failing("cuEventCreate", nth=2, code=2):
        event = checked(driver.cuEventCreate(2))
        assert driver.cuEventCreate(2)[0] == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    checked(driver.cuEventDestroy(event))
    assert fake.counts() == before


def test_an_injected_failure_must_come_true(fake, context):
    with pytest.raises(AssertionError, match="never came true"), fake.failing("cuEventCreate"):
        pass


def test_captured_work_runs_at_the_launch_of_the_graph(fake, streams, block):
    checked(driver.cuMemsetD32Async(block, 1, N, streams[1]))
    checked(driver.cuStreamBeginCapture(streams[0], driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    checked(driver.cuMemsetD32Async(block, 2, N, streams[0]))
    graph = checked(driver.cuStreamEndCapture(streams[0]))
    assert (host(block, streams[1]) == 1).all()
    executable = checked(driver.cuGraphInstantiate(graph, 0))
    checked(driver.cuGraphLaunch(executable, streams[0]))
    assert (host(block, streams[0]) == 2).all()
    checked(driver.cuGraphExecDestroy(executable))
    checked(driver.cuGraphDestroy(graph))


@pytest.mark.parametrize("joined", [True, False], ids=["joined", "unjoined"])
def test_a_capture_over_two_streams_must_be_joined(fake, streams, block, joined):
    event = checked(driver.cuEventCreate(2))
    checked(driver.cuStreamBeginCapture(streams[0], driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    checked(driver.cuEventRecord(event, streams[0]))
    checked(driver.cuStreamWaitEvent(streams[1], event, 0))
    checked(driver.cuMemsetD32Async(block, 2, N, streams[1]))
    if joined:
        checked(driver.cuEventRecord(event, streams[1]))
        checked(driver.cuStreamWaitEvent(streams[0], event, 0))
    code, graph = driver.cuStreamEndCapture(streams[0])
    assert int(code) == (0 if joined else 904)
    if joined:
        checked(driver.cuGraphDestroy(graph))
    checked(driver.cuEventDestroy(event))


def test_what_breaks_a_capture(fake, streams):
    event = checked(driver.cuEventCreate(2))
    checked(driver.cuEventRecord(event, streams[1]))
    checked(driver.cuStreamBeginCapture(streams[0], driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
    assert int(driver.cuStreamWaitEvent(streams[0], event, 0)[0]) == 905
    assert int(driver.cuStreamEndCapture(streams[0])[0]) == 901
    checked(driver.cuStreamBeginCapture(streams[0], driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
    assert int(driver.cuEventQuery(event)[0]) == 900
    assert int(driver.cuStreamEndCapture(streams[0])[0]) == 901
    checked(driver.cuEventDestroy(event))
