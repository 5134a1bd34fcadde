"""Functions and mappings without out= in captures of other libraries: new results come from the library's allocator."""

import numpy as np
import pytest
from chain_points import randoms
from cuda.bindings import driver
from frameworks import framework
from program_points import function_of
from raw_driver import capturing

import madspace
from madspace import FunctionRuntime, Stream, TPropagatorMapping, batch_float, batch_four_vec, batch_int

PREFIX = "CU_STREAM_CAPTURE_MODE_"
F = batch_float


def host_inputs(n=40):
    return [*randoms(3, n, 21), np.full(n, 500.0), np.full(n, 173.0), np.full(n, 100.0), np.zeros(n)]


def chain():
    """Return how a mapping with a kernel of its own is called, and its inputs."""
    mapping = TPropagatorMapping([0, 1], 0.8)
    return mapping.map_forward, host_inputs()


def function():
    """Return how a function that is interpreted is called, and its arguments."""
    made = function_of([F, batch_four_vec, batch_int], lambda b, x, p, n: [b.square(x), b.add(p, p), b.add_int(n, 1)])
    rng = np.random.default_rng(4)
    runtime = FunctionRuntime(made)
    return runtime.arrays, [rng.random(40), rng.random((40, 4)), np.arange(40, dtype=np.int32)]


def tensors():
    """Return the same, called for tensors."""
    call, arrays = function()
    return call.__self__.call, arrays


@pytest.fixture(params=["GLOBAL", "THREAD_LOCAL", "RELAXED"])
def mode(request):
    """Return each mode that a capture can have."""
    return getattr(driver.CUstreamCaptureMode, PREFIX + request.param)


@pytest.fixture(params=[chain, function, tensors], ids=lambda make: make.__name__)
def work(request, device, fused_kernels, program_kernels):
    """Return what is called, and with what."""
    madspace.preload(device)
    return request.param()


@pytest.fixture
def stream(device):
    """Return the stream of the made-up library."""
    return Stream(device)


def test_new_results_come_from_the_framework(device, stream, work, mode):
    call, arrays = work
    array, _ = framework(current={"stream": stream.handle})
    expected = [np.array(x) for x in call(arrays)]
    inputs = [array(madspace.asarray(x, device="cuda", stream=stream)) for x in arrays]
    call(inputs)  # loads what is not shipped
    assert "allocated" not in array.current  # there it is not asked
    late = [madspace.zeros(x.shape, x.dtype, device=device, stream=stream) for x in arrays]
    with capturing(stream, mode, launches=2):
        results = call([array(x) for x in late])
        assert array.current["allocated"] == len(expected)
        for x, y in zip(late, inputs, strict=True):  # behind what was captured: the second launch reads it
            x.copy_from(y.tensor, stream=stream)
    for x, y in zip(results, expected, strict=True):
        np.testing.assert_allclose(x.numpy(), y, rtol=1e-12, atol=1e-12 * np.abs(y).max())


def test_a_framework_without_room_is_quoted(device, stream, work):
    call, arrays = work
    array, _ = framework(current={"stream": stream.handle})
    inputs = [array(madspace.asarray(x, device="cuda", stream=stream)) for x in arrays]
    call(inputs)
    array.current["full"] = True
    with capturing(stream), pytest.raises(madspace.MadspaceError, match="not allocate a result: MemoryError: no room"):
        call(inputs)


@pytest.mark.parametrize("lends", [True, False])
def test_a_stream_that_is_not_the_frameworks_takes_no_memory_of_it(device, stream, work, lends):
    call, arrays = work
    theirs = Stream(device)
    array, table = framework(current={"stream": theirs.handle})
    given = stream
    if not lends:  # a bare handle: memory that is taken over is not ordered with it in a capture, which would refuse
        table.borrow, given = type(table.borrow)(), stream.handle
    inputs = [array(madspace.asarray(x, device="cuda", stream=stream)) for x in arrays]
    call(inputs, stream=given)
    device.synchronize()
    with capturing(stream), pytest.raises(madspace.CaptureError):
        call(inputs, stream=given)
    assert "allocated" not in array.current


def test_tensors_take_none(stream, work):
    call, arrays = work
    inputs = [madspace.asarray(x, device="cuda", stream=stream) for x in arrays]
    call(inputs, stream=stream)
    with capturing(stream), pytest.raises(madspace.CaptureError, match="pass out="):
        call(inputs, stream=stream)


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_a_capture_of_madspace_needs_no_framework(device, stream, work, mode):
    call, arrays = work
    array, _ = framework(current={"stream": stream.handle})
    expected = [np.array(x) for x in call(arrays)]
    late = [madspace.zeros(x.shape, x.dtype, device=device, stream=stream) for x in arrays]
    inputs = [array(x) for x in late]
    call(inputs)
    with madspace.capture(stream, mode) as graph:
        results = call(inputs)
    assert "allocated" not in array.current
    assert graph.node_counts() == {"kernel": 1}
    executable = graph.instantiate()
    for x, y in zip(late, arrays, strict=True):
        x.copy_from(y, stream=stream)
    executable.launch(stream)
    for x, y in zip(results, expected, strict=True):
        np.testing.assert_allclose(x.numpy(), y, rtol=1e-12, atol=1e-12 * np.abs(y).max())


def test_results_by_an_allocator(device, stream, program_kernels):
    """As modules of torch have them: results are the framework's, but in a capture of madspace."""
    madspace.preload(device)
    call, arrays = function()
    runtime = call.__self__
    expected = [np.array(x) for x in call(arrays)]
    array, _ = framework(current={"stream": stream.handle})
    inputs = [array(madspace.asarray(x, device="cuda", stream=stream)) for x in arrays]
    made = []

    def allocate(shape, is_float, number):
        assert number == device.id
        made.append(array(madspace.empty(shape, "f8" if is_float else "i4", device=device, stream=stream)))
        return made[-1]

    runtime._allocate_by(allocate)
    for as_tensors in (False, True):
        made.clear()
        results = runtime.call(inputs) if as_tensors else runtime.arrays(inputs)
        assert len(made) == 3
        assert as_tensors or all(x is y for x, y in zip(results, made, strict=True))
        for x, y in zip(results, expected, strict=True):
            np.testing.assert_allclose(madspace.asarray(x).numpy(), y, rtol=1e-12)
    out = madspace.zeros(40, device=device, stream=stream)
    made.clear()
    assert runtime.arrays(inputs, out=[out, None, None])[0] is out
    assert len(made) == 2
    with madspace.capture(stream):
        runtime.arrays(inputs)
    assert len(made) == 2
