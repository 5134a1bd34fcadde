"""Globals of a context on a device: read in place by every call, whoever changed them last."""

import numpy as np
import pytest
import warp_machine
from program_points import function_of

import madspace
from madspace import Context, FunctionRuntime, Stream, batch_float
from madspace.cpu import _programs
from madspace.phasespace.fused import fused_source
from madspace.phasespace.gradients import MOST_DIRECTIONS, compile_vjp

X = np.arange(1.0, 6.0)


@pytest.fixture(autouse=True)
def _kernels(device, program_kernels, tmp_path, monkeypatch):
    """Run on device 0, with a cache of its own."""
    monkeypatch.setenv("MADSPACE_CACHE_DIR", str(tmp_path / "kernels"))


def fill(b, x):
    """Return scale x + shift[1], and shift of all events."""
    scale, shift = b.get_global("scale", madspace.float, []), b.get_global("shift", madspace.float, [2])
    return [b.add(b.mul(x, scale), b.unstack(shift)[1])]


def function():
    return function_of([batch_float], fill)


def context_on(device, scale=2.0, requires_grad=False):
    context = Context(device)
    context.define_global("scale", madspace.float, [], requires_grad).copy_from(np.array([scale]))
    context.define_global("shift", madspace.float, [2]).copy_from(np.array([[10.0, 20.0]]))
    return context


def put(array):
    return madspace.asarray(array, device="cuda")


def test_a_change_is_seen_by_the_next_call():
    context = context_on("cuda")
    runtime, x = FunctionRuntime(function(), context), put(X)
    for scale in (2.0, -3.0, 0.5):
        context.get_global("scale").fill(scale)
        np.testing.assert_array_equal(runtime(x).numpy(), scale * X + 20)
    context.delete_global("scale")
    with pytest.raises(ValueError, match="expected a global of the context, got 'scale'"):
        runtime(x)
    context.define_global("scale", madspace.float, [])
    np.testing.assert_array_equal(runtime(x).numpy(), np.full(5, 20.0))


def test_a_change_on_another_stream_is_waited_for(device, delay):
    context, x = context_on("cuda"), put(X)
    runtime, writer, reader = FunctionRuntime(function(), context), Stream(device), Stream(device)
    new = put(np.array([7.0]))
    delay(writer, 50)
    context.get_global("scale").copy_from(new, stream=writer)
    results = runtime.call([x], stream=reader)
    np.testing.assert_array_equal(results[0].numpy(), 7 * X + 20)


def test_a_change_waits_for_the_calls_before(device, delay):
    context, x = context_on("cuda"), put(X)
    runtime, writer, reader = FunctionRuntime(function(), context), Stream(device), Stream(device)
    new = put(np.array([7.0]))
    device.default_stream.synchronize()
    delay(reader, 50)
    results = runtime.call([x], stream=reader)
    context.get_global("scale").copy_from(new, stream=writer)
    np.testing.assert_array_equal(results[0].numpy(), 2 * X + 20)
    np.testing.assert_array_equal(runtime(x).numpy(), 7 * X + 20)


def test_a_call_is_one_launch_and_nothing_else(fake):
    runtime, x, out = FunctionRuntime(function(), context_on("cuda")), put(X), [put(np.zeros(5))]
    runtime.call([x], out=out)
    fake.clear_log()
    runtime.call([x], out=out)
    allowed = {"cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent"}
    assert [name for name in fake.names() if name.removesuffix("_v2") not in allowed] == ["cuLaunchKernel"]


def test_a_captured_call_reads_them_at_each_launch(device, stream):
    madspace.preload()
    context, x = context_on("cuda"), put(X)
    runtime = FunctionRuntime(function(), context)
    with madspace.capture(stream) as graph:
        (result,) = runtime.call([x], stream=stream)
    executable = graph.instantiate()
    for scale in (2.0, 5.0):
        context.get_global("scale").fill(scale, stream=stream)
        executable.launch(stream)
        np.testing.assert_array_equal(result.numpy(), scale * X + 20)


def test_drawn_and_no_arguments():
    context = context_on("cuda")
    options = {"seed": 3, "n_events": 40}
    (result,) = FunctionRuntime(function(), context).call([None], **options)
    (expected,) = FunctionRuntime(function(), context_on("cpu")).call([None], **options)
    assert result.device_id == 0
    np.testing.assert_array_equal(result.numpy(), expected.numpy())


def test_what_all_events_share_is_computed_there():
    b = madspace.FunctionBuilder(madspace.NamedTypes([]), madspace.NamedTypes([("y", madspace.single_float)]))
    b.output(0, b.square(b.get_global("scale", madspace.float, [])))
    result = FunctionRuntime(b.function(), context_on("cuda"))()
    assert result.device_id == 0
    np.testing.assert_array_equal(result.numpy(), [4.0])


def test_arguments_are_on_the_device_of_the_context():
    with pytest.raises(madspace.DeviceMismatchError, match=r"scale: expected a CUDA tensor on cuda:0 .* the CPU"):
        FunctionRuntime(function(), context_on("cpu"))(put(X))
    for x in (X, madspace.asarray(X)):
        with pytest.raises(madspace.DeviceMismatchError, match="scale: expected a global on the CPU, as the arg"):
            FunctionRuntime(function(), context_on("cuda"))(x)


@pytest.mark.parametrize(
    ("dtype", "shape", "error", "message"),
    [
        ("int", [], madspace.DTypeError, "scale: expected dtype float64, got int32"),
        ("float", [2], madspace.ShapeError, r"scale: expected shape \(1,\), got \(1, 2\)"),
    ],
    ids=["type", "shape"],
)
def test_globals_of_another_type(dtype, shape, error, message):
    context = context_on("cuda")
    context.delete_global("scale")
    context.define_global("scale", getattr(madspace, dtype), shape)
    with pytest.raises(error, match=message):
        FunctionRuntime(function(), context)(put(X))


def fuse_gradients(real_gpu, wanted):
    """Let the fake driver run the kernel of the gradients."""
    if not real_gpu:
        import fake_driver

        program = compile_vjp(function(), (0,), wanted, _programs.op_table(), most_directions=MOST_DIRECTIONS)
        warp_machine.register_fused(fake_driver.load(), fused_source(program, [False] * len(program.outputs)))


@pytest.mark.needs("nvrtc")
def test_a_fused_kernel_reads_them(fuse):
    context = context_on("cuda")
    np.testing.assert_array_equal(fuse(function(), context)(put(X)).numpy(), 2 * X + 20)


@pytest.mark.needs("nvrtc")
def test_gradients_of_arguments(real_gpu):
    fuse_gradients(real_gpu, (True, False, False))
    runtime = FunctionRuntime(function(), context_on("cuda"))
    (found,) = runtime.vjp([put(X)], [put(X)])
    np.testing.assert_array_equal(found.numpy(), 2 * X)


@pytest.mark.needs("nvrtc")
def test_gradients_of_globals(real_gpu):
    """One of each event, where the globals come once for each: their sum is the caller's."""
    fuse_gradients(real_gpu, (True, True, False))
    runtime = FunctionRuntime(function(), context_on("cuda", requires_grad=True))
    _, stored, flags = runtime.call_with_grad([put(X)], [True])
    with pytest.raises(madspace.UnsupportedOpError, match=r"scale: on a GPU expected 5 numbers where a grad.* got 1"):
        runtime.call_backward([put(X)], stored, flags)
    place = stored.index(next(x for x in stored if x is not None and x.shape == (1,)))
    stored[place] = put(np.full(5, 2.0))
    (of_x,), of_globals = runtime.call_backward([put(X)], stored, flags)
    np.testing.assert_array_equal(of_x.numpy(), 2 * X)
    assert [name for name, _ in of_globals] == ["scale", "shift"]
    np.testing.assert_array_equal(of_globals[0][1].numpy(), X * X)
    assert of_globals[1][1] is None


def test_gradients_of_arrays_on_both_sides(device):
    f = function_of([batch_float, batch_float], lambda b, x, y: [b.mul(x, y)])
    with pytest.raises(madspace.DeviceMismatchError, match="x0: expected an array on a GPU, as others are"):
        FunctionRuntime(f).vjp([X, put(X)], [put(X)])
    shared = function_of([batch_float, madspace.single_float], lambda b, x, y: [b.mul(x, y)])
    with pytest.raises(madspace.UnsupportedOpError, match="x1: on a GPU expected 5 numbers"):
        FunctionRuntime(shared).vjp([put(X), put(np.array(2.0))], [put(X)])
