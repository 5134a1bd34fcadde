"""map_forward on a device: one launch, the right stream, nothing waited for, nothing left behind."""

import numpy as np
import pytest
from chain_points import randoms

import madspace
from madspace import Stream, TPropagatorMapping

SHAPES = [(4,)] * 5 + [()]


def host_inputs(n=1000, seed=3):
    return [*randoms(3, n, seed), np.full(n, 500.0), np.full(n, 173.0), np.full(n, 100.0), np.zeros(n)]


@pytest.fixture
def mapping():
    return TPropagatorMapping([1, 0], 0.8)


@pytest.fixture
def inputs(gpu_place):
    return [gpu_place.put(x) for x in host_inputs()]


@pytest.fixture
def out(gpu_place):
    return [gpu_place.empty((1000, *shape)) for shape in SHAPES]


def check(result):
    reference = TPropagatorMapping([1, 0], 0.8).map_forward(host_inputs())
    for x, y in zip(result, reference, strict=True):
        np.testing.assert_allclose(x.numpy(), y, rtol=1e-11, atol=1e-12 * 500)


def test_a_call_with_out_is_one_launch_and_nothing_else(fake, fused_kernels, mapping, inputs, out):
    mapping.map_forward(inputs, out=out)  # loads the kernel
    fake.clear_log()
    mapping.map_forward(inputs, out=out)
    allowed = {"cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent"}
    assert [name for name in fake.names() if name.removesuffix("_v2") not in allowed] == ["cuLaunchKernel"]


def test_a_call_without_out_allocates_once(fake, fused_kernels, mapping, inputs):
    mapping.map_forward(inputs)
    fake.clear_log()
    result = mapping.map_forward(inputs)
    names = fake.names()
    assert sum("Alloc" in name for name in names) == 1
    assert names.count("cuLaunchKernel") == 1
    assert not any("Synchronize" in name or "Memcpy" in name for name in names)
    check(result)


def test_refused_call_makes_no_driver_call_that_changes_anything(fake, fused_kernels, mapping, inputs, out):
    mapping.map_forward(inputs, out=out)
    before = fake.counts()
    fake.clear_log()
    with pytest.raises(madspace.ShapeError):
        mapping.map_forward(inputs, out=[*out[:5], out[5][:7]])
    assert not [name for name in fake.names() if "Ctx" not in name]
    assert fake.counts() == before


def test_failed_launch_raises_and_leaks_nothing(fake, fused_kernels, mapping, inputs):
    mapping.map_forward(inputs)
    before = fake.counts()
    with fake.failing("cuLaunchKernel", code=700), pytest.raises(madspace.KernelFaultError):
        mapping.map_forward(inputs)
    with fake.failing("cuMemAllocFromPoolAsync", code=2):
        fake.fail("cuMemAllocFromPoolAsync", 1, 2)  # also when it tries again with an empty pool
        with pytest.raises(madspace.OutOfMemoryError):
            mapping.map_forward(inputs)
    assert fake.counts() == before


def test_result_is_ordered_behind_a_slow_producer(device, delay, gpu_place, mapping):
    """Inputs written late on another stream: the call must wait for them, on the device."""
    producer, consumer = Stream(device), Stream(device)
    inputs = [madspace.asarray(np.full(1000, np.nan), device="cuda", stream=producer) for _ in range(9)]
    sources = [gpu_place.put(x) for x in host_inputs()]
    delay(producer, 50)
    for x, y in zip(inputs, sources, strict=True):
        x.copy_from(y, stream=producer)
    check(mapping.map_forward(inputs, stream=consumer))


def test_input_may_be_dropped_at_once(device, delay, gpu_place, mapping):
    """A free of an input waits for the call that reads it on another stream."""
    stream = Stream(device)
    inputs = [gpu_place.put(x) for x in host_inputs()]
    delay(stream, 50)
    result = mapping.map_forward(inputs, stream=stream)
    del inputs
    overwrite = [gpu_place.put(np.full(1000, np.nan)) for _ in range(9)]
    check(result)
    del overwrite


@pytest.mark.parametrize("kind", ["object", "handle", "protocol"])
def test_stream_argument_by_any_name(device, mapping, inputs, out, kind):
    stream = Stream(device)

    class Protocol:
        def __cuda_stream__(self):
            return (0, stream.handle)

    given = {"object": stream, "handle": stream.handle, "protocol": Protocol()}[kind]
    check(mapping.map_forward(inputs, out=out, stream=given))


def test_bad_stream_is_refused(mapping, inputs):
    with pytest.raises(TypeError, match="stream"):
        mapping.map_forward(inputs, stream="fast")


@pytest.mark.multi_gpu
def test_runs_on_the_device_of_its_inputs(device, other_device, fused_kernels, mapping):
    inputs = [madspace.asarray(x, device=other_device) for x in host_inputs()]
    result = mapping.map_forward(inputs)
    assert all(x.device_id == other_device.id for x in result)
    check(result)
    with pytest.raises(madspace.DeviceMismatchError):
        mapping.map_forward([madspace.asarray(host_inputs()[0], device=device), *inputs[1:]])


def test_many_calls_leave_memory_where_it_was(device, mapping, inputs, out):
    mapping.map_forward(inputs)
    device.synchronize()
    before = device.pool.used_bytes
    for _ in range(200):
        mapping.map_forward(inputs)
        mapping.map_forward(inputs, out=out)
    device.synchronize()
    assert device.pool.used_bytes == before


def test_a_capture_keeps_inputs_and_results(device, stream, mapping, inputs):
    madspace.preload()
    with madspace.capture(stream, mode="global") as graph:
        result = mapping.map_forward(inputs, stream=stream)
    inputs.clear()
    assert graph.node_counts() == {"kernel": 1}
    executable = graph.instantiate()
    for _ in range(2):
        executable.launch(stream)
        check(result)
        for x in result:
            x.copy_from(np.zeros(x.shape))


def test_a_failure_to_note_one_use_does_not_lose_the_others(fake, fused_kernels, mapping, inputs, out):
    late = Stream()
    fake.clear_log()
    mapping.map_forward(inputs, out=out, stream=late)
    names = fake.names()
    launched = names.index("cuLaunchKernel")
    before, after = names[:launched].count("cuEventRecord"), names[launched:].count("cuEventRecord")
    assert after == 1  # for all arrays
    with fake.failing("cuEventRecord", nth=before + 1):
        fake.clear_log()
        with pytest.raises(madspace.DriverError):
            mapping.map_forward(inputs, out=out, stream=late)
    names = fake.names()
    assert names[names.index("cuLaunchKernel") :].count("cuEventRecord") == 1 + after  # tried again for the next array
