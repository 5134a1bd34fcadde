"""New results on streams that memory cannot belong to: handles without an owner. Fake driver."""

import numpy as np
import pytest
from host_points import host_inputs
from program_points import function_of

import madspace
from madspace import FunctionRuntime, Stream, TPropagatorMapping

pytestmark = pytest.mark.fake


@pytest.fixture(params=["mapping", "function"])
def op(request, device, fused_kernels, program_kernels):
    """Return arguments, and what takes them and `stream`."""
    if request.param == "mapping":
        return host_inputs(20), TPropagatorMapping([1, 0], 0.8).map_forward
    f = function_of([madspace.batch_float] * 2, lambda b, x, y: [b.mul(x, y), b.sub(x, y)])
    return [np.arange(20.0), np.arange(20.0)[::-1].copy()], FunctionRuntime(f).call


def test_results_come_behind_their_memory_and_others_behind_them(device, fake, op):
    """The memory is of the device's own stream, which is late; the one that is given by its handle is late then."""
    arguments, call = op
    stream, other = Stream(device), Stream(device)
    tensors = [madspace.asarray(x, device="cuda", stream=stream) for x in arguments]
    expected = call(arguments)
    device.synchronize()
    for late in (device.default_stream, stream):
        fake.defer(late.handle)
    results = call(tensors, stream=stream.handle)
    fake.run(stream.handle)
    copies = [x.copy(stream=other) for x in results]
    del results  # the memory goes back behind the work
    madspace.empty((4096,), "f8", device="cuda").fill(np.nan)
    for late in (device.default_stream, stream):
        fake.run(late.handle)
        fake.defer(late.handle, False)
    for x, y in zip(copies, expected, strict=True):
        np.testing.assert_array_equal(x.numpy(), y)


def test_random_numbers_are_made_on_the_stream_that_was_named(device, fake):
    stream = Stream(device)
    fake.clear_log()
    found = madspace.random.uniform(100, seed=3, device="cuda", stream=stream.handle)
    assert [call.args["stream"] for call in fake.log("cuLaunchKernel")] == [stream.handle]
    np.testing.assert_array_equal(found.numpy(), madspace.random.uniform(100, seed=3))
