"""Functions on a device: the CPU's results, one launch, the right stream, nothing waited for, nothing left behind."""

import numpy as np
import pytest
from program_points import NAMES, function_of, upstream

import madspace
from madspace import (
    FunctionRuntime,
    Stream,
    Tensor,
    batch_float,
    batch_float_array,
    batch_four_vec,
    batch_int,
    single_float,
)
from madspace.phasespace._program_plan import limit_launches

# Their limits of |t| are differences of what the momenta give, so they keep fewer digits.
TOLERANCES = {"t_chain_forward": 1e-7, "t_chain_inverse": 1e-7, "event_forward": 1e-7}
X, P = np.arange(3.0), np.arange(12.0).reshape(3, 4)
N, S = np.arange(3, dtype=np.int32), np.array(2.0)


def scaled():
    """Return x0 * x3 and x1 + x1, x2 + 1."""
    return function_of(
        [batch_float, batch_four_vec, batch_int, single_float],
        lambda b, x, p, n, s: [b.mul(x, s), b.add(p, p), b.add_int(n, 1)],
    )


def put(*arrays):
    """Return arrays on device 0; what is no array stays."""
    return [madspace.asarray(x, device="cuda") if isinstance(x, np.ndarray) else x for x in arrays]


def poisoned(result):
    """Return arrays on device 0 like NumPy arrays, filled so that unwritten elements show."""
    return [madspace.asarray(np.full(x.shape, -77, x.dtype), device="cuda") for x in result]


def on_device(function, *arrays, **options):
    return [x.numpy() for x in FunctionRuntime(function).arrays(put(*arrays), **options)]


def batch(n, seed=5):
    rng = np.random.default_rng(seed)
    return rng.random(n), rng.random((n, 4)), rng.integers(-9, 9, n, dtype=np.int32), S


@pytest.fixture(autouse=True)
def _kernels(device, program_kernels):
    """Run on device 0."""


@pytest.mark.parametrize("name", [name for name in NAMES if name != "moves"])  # which needs argsort
def test_functions_of_madspace_give_the_numbers_of_the_cpu(name):
    function, context, inputs, _ = upstream(name)
    expected = FunctionRuntime(function, context).arrays(inputs)
    runtime = FunctionRuntime(function, upstream(name, "cuda")[1])
    out = poisoned(expected)
    for results in (runtime.arrays(put(*inputs)), runtime.arrays(put(*inputs), out=out)):
        for key, result, reference in zip(function.outputs.keys(), results, expected, strict=True):
            assert isinstance(result, Tensor)
            result = result.numpy()
            assert (result.shape, result.dtype) == (reference.shape, reference.dtype), key
            scale = np.abs(reference) if key == "det" else np.abs(reference).max()
            assert np.all(np.abs(result - reference) <= TOLERANCES.get(name, 1e-11) * scale), key


@pytest.mark.parametrize("n", [0, 1, 31, 33, 64, 65, 1000])
def test_any_batch(n):
    arrays = batch(n)
    expected = scaled()(*arrays)
    out = poisoned(expected)
    results = FunctionRuntime(scaled()).arrays(put(*arrays), out=out)
    for result, given, reference in zip(results, out, expected, strict=True):
        assert result is given
        np.testing.assert_array_equal(result.numpy(), reference)


@pytest.mark.gpu
def test_large_blocks():
    arrays = batch(200_001)
    for result, reference in zip(on_device(scaled(), *arrays), scaled()(*arrays), strict=True):
        np.testing.assert_array_equal(result, reference)


def test_integers_start_anywhere():
    """Rows of int32 are aligned to four bytes, not to those of other types."""

    def fill(b, x):
        moved = b.add_int(x, 1)
        return [b.stack([x, moved, x])]

    n = np.arange(50, dtype=np.int32)
    whole = poisoned([np.empty(151, np.int32)])[0]
    out = whole[1:].reshape((50, 3))
    FunctionRuntime(function_of([batch_int], fill)).arrays(put(n), out=[out])
    np.testing.assert_array_equal(whole.numpy(), [-77, *np.stack([n, n + 1, n], axis=1).ravel()])


@pytest.mark.parametrize("kernels", ["shipped", "interpreted"])
def test_what_one_launch_does_not_take(fake, program_kernels, kernels):
    """Random numbers and results go on where the launch before ended; what all events share stays."""
    mapping, n = madspace.TPropagatorMapping([0, 1], 0.8), 70
    runtime = FunctionRuntime(mapping.forward_function())
    runtime._kernels = kernels
    randoms = list(np.random.default_rng(8).random((5, n)))
    conditions = [np.array([500.0]), np.zeros(1), np.linspace(0.0, 20.0, n), np.full(1, 3.0)]
    before = limit_launches(32)
    try:
        for arrays in (randoms, [None] * 5):
            fake.clear_log()
            results = runtime.call(
                [*(x if x is None else put(x)[0] for x in arrays), *put(*conditions)], seed=3, offset=11, n_events=n
            )
            assert len(fake.log("cuLaunchKernel")) == 3
            limit_launches(before)
            whole = runtime.call(
                [*(x if x is None else put(x)[0] for x in arrays), *put(*conditions)], seed=3, offset=11, n_events=n
            )
            limit_launches(32)
            for result, reference in zip(results, whole, strict=True):
                np.testing.assert_array_equal(result.numpy(), reference.numpy())
    finally:
        limit_launches(before)


def test_what_stands_for_every_event():
    for arrays in [(X, P[1:2], N[:1], S), (X[:1], P, N, S), (X[:1], P[:1], N[:1], S)]:
        for result, reference in zip(on_device(scaled(), *arrays), scaled()(*arrays), strict=True):
            np.testing.assert_array_equal(result, reference)


@pytest.mark.parametrize("shared", [2.0, np.float64(2.0), S, S[None]], ids=["float", "numpy", "scalar", "array"])
def test_what_all_events_share(shared):
    np.testing.assert_array_equal(on_device(scaled(), X, P, N, shared)[0], 2 * X)


def test_any_strides():
    x, p, n, _ = batch(40)
    whole = put(np.stack([x, x + 1]), np.concatenate([p, p], axis=1), np.repeat(n, 2))
    arrays = [whole[0][1], whole[1][:, 3:7], whole[2][::2]]
    results = FunctionRuntime(scaled()).arrays([*arrays, 2.0])
    for result, reference in zip(results, scaled()(x + 1, np.roll(p, 1, axis=1), n, S), strict=True):
        np.testing.assert_array_equal(result.numpy(), reference)


def test_results_at_any_distance_and_alignment():
    """Momenta that cannot be stored 16 bytes at a time, and rows with gaps that stay as they are."""
    arrays = batch(70)
    places = poisoned([np.empty((70, 3)), np.empty((70, 6)), np.empty((70, 2), np.int32)])
    out = [places[0][:, 1], places[1][:, 1:5], places[2][:, 0]]
    FunctionRuntime(scaled()).arrays(put(*arrays), out=out)
    expected = [np.full(x.shape, -77, x.numpy().dtype) for x in places]
    reference = scaled()(*arrays)
    expected[0][:, 1], expected[1][:, 1:5], expected[2][:, 0] = reference
    for place, wanted in zip(places, expected, strict=True):
        np.testing.assert_array_equal(place.numpy(), wanted)


def test_shared_results_have_one_event():
    function = function_of([batch_float, single_float], lambda b, x, s: [b.square(s), 4.0, b.stack([1, 2]), x])
    for n in (0, 3, 70):
        x = np.arange(float(n))
        square, constant, pair, same = on_device(function, x, S)
        assert [a.shape for a in (square, constant, pair, same)] == [(1,), (1,), (1, 2), (n,)]
        assert (square[0], constant[0], pair.tolist(), pair.dtype) == (4.0, 4.0, [[1, 2]], np.int32)
        np.testing.assert_array_equal(same, x)


def test_empty_arrays_per_event():
    function = function_of([batch_float_array(1)], lambda b, a: [b.pop(a)[0], b.reduce_sum(b.pop(a)[0])])
    rest, total = on_device(function, P[:, :1].copy())
    assert rest.shape == (3, 0)
    assert set(total) == {0.0}


def test_what_int32_cannot_hold_is_its_lowest_value():
    function = function_of([batch_int, batch_int], lambda b, x, y: [b.add_int(x, y)])
    x = np.array([1, 2**31 - 1, -(2**31)], np.int32)
    assert on_device(function, x, x)[0].tolist() == function(x, x).tolist() == [2, -(2**31), -(2**31)]


def test_a_large_program_runs_in_the_large_kernel():
    """More code than the small kernel takes: 70 momenta in, their sums out."""
    function = function_of(
        [batch_four_vec] * 70, lambda b, *p: [b.add(p[i], p[(7 * i + 3) % 70]) for i in range(60)] + [p[5]]
    )
    arrays = [np.random.default_rng(i).random((5, 4)) for i in range(70)]
    for result, reference in zip(on_device(function, *arrays), function(*arrays), strict=True):
        np.testing.assert_array_equal(result, reference)


def test_too_much_for_a_gpu_is_refused():
    many = function_of([batch_float_array(1000)], lambda b, a: [b.reduce_sum(a)])
    with pytest.raises(madspace.UnsupportedOpError, match=r"function: expected at most .* values at once on"):
        many(*put(np.ones((2, 1000))))
    much = function_of([batch_float], lambda b, x: [_polynomial(b, x, 3000)])
    with pytest.raises(madspace.UnsupportedOpError, match="bytes of code and columns on a GPU"):
        much(*put(X))


def _polynomial(builder, x, n):
    y = x
    for i in range(n):
        y = builder.add(builder.mul(y, x), float(i % 7))
    return y


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((X, P, N), madspace.ShapeError, r"arguments: expected 4 \(x0, x1, x2, x3\), got 3"),
        ((X, P, N.astype(np.int64), S), madspace.DTypeError, "x2: expected dtype int32, got int64"),
        ((X.astype(np.float32), P, N, S), madspace.DTypeError, "x0: expected dtype float64, got float32"),
        ((X, P[:, :3], N, S), madspace.ShapeError, r"x1: expected shape \(batch, 4\), got \(3, 3\)"),
        ((X[None], P, N, S), madspace.ShapeError, r"x0: expected shape \(batch,\), got \(1, 3\)"),
        ((2.0, P, N, S), madspace.ShapeError, r"x0: expected shape \(batch,\), got a number"),
        ((X, P, N, 2), madspace.DTypeError, "x3: expected dtype float64, got int64"),
        ((X, P, N, X), madspace.ShapeError, r"x3: expected shape \(1,\), got \(3,\)"),
        ((X, P[:2], N, S), madspace.ShapeError, "x1: expected 3 events, as x0 has, got 2"),
        ((X[:0], P, N, S), madspace.ShapeError, "x1: expected 0 events, as x0 has, got 3"),
        ((X, P, N, "s"), TypeError, None),
        ((X, P, N, None), TypeError, None),
    ],
)
def test_arguments_that_do_not_fit(arguments, error, message):
    with pytest.raises(error, match=message):
        FunctionRuntime(scaled()).arrays(put(*arguments))


def test_arrays_on_two_devices():
    with pytest.raises(madspace.DeviceMismatchError, match="x1: expected a CUDA tensor on cuda:0 as the first one"):
        scaled()(*put(X), P, N, S)
    with pytest.raises(madspace.DeviceMismatchError, match="x1: expected an array on the CPU"):
        scaled()(X, *put(P), N, S)
    with pytest.raises(madspace.DeviceMismatchError, match=r"out\[0\] \(y0\): expected a CUDA tensor"):
        FunctionRuntime(scaled()).arrays(put(X, P, N, S), out=[X, None, None])


def test_results_that_do_not_fit():
    runtime, arrays = FunctionRuntime(scaled()), put(X, P, N, S)
    good = poisoned(scaled()(X, P, N, S))
    cases = [
        (good[:2], madspace.ShapeError, r"out: expected 3 entries \(y0, y1, y2\), got 2"),
        (5, TypeError, "out: expected a sequence of arrays, got int"),
        (
            [good[0], good[1][:2], good[2]],
            madspace.ShapeError,
            r"out\[1\] \(y1\): expected shape \(3, 4\), got \(2, 4\)",
        ),
        ([good[2], good[1], good[2]], madspace.DTypeError, r"out\[0\] \(y0\): expected dtype float64, got int32"),
        ([arrays[0], None, None], ValueError, r"out\[0\] \(y0\): expected memory of its own, .* shared with x0"),
        ([good[1][:, 1], good[1], None], ValueError, r"out\[1\] \(y1\): .* shared with out\[0\] \(y0\)"),
    ]
    for out, error, message in cases:
        with pytest.raises(error, match=message):
            runtime.arrays(arrays, out=out)
    for x in good:
        assert (x.numpy() == -77).all()


def test_memory_in_common_is_always_found():
    """Random views of one block as argument and result: refused where they share a byte, taken where they are apart."""
    rng = np.random.default_rng(2)
    runtime = FunctionRuntime(function_of([batch_float, batch_four_vec], lambda b, x, p: [b.add(x, x), b.add(p, p)]))
    host, n = np.zeros(400), 6
    block = put(host)[0]
    outcomes = set()
    for _ in range(300):
        views = []
        for width in (1, 4, 1, 4):
            step = int(rng.integers(width, 12))
            start = int(rng.integers(0, 400 - n * step))
            cut = slice(start, start + n * step)
            rows = [array[cut].reshape((n, step)) for array in (host, block)]
            views.append([x[:, 0] if width == 1 else x[:, :4] for x in rows])
        pairs = [(views[i][0], views[j][0]) for j in (2, 3) for i in range(j)]
        refusal = None
        try:
            runtime.call([views[0][1], views[1][1]], out=[views[2][1], views[3][1]])
        except ValueError as error:
            refusal = str(error)
        is_near = any(np.may_share_memory(*pair) for pair in pairs)
        if refusal is None:
            assert not any(np.shares_memory(*pair) for pair in pairs)
            outcomes.add("interleaved" if is_near else "apart")
        else:
            assert "memory shared with" in refusal
            assert is_near
            outcomes.add("refused")
    assert outcomes == {"refused", "interleaved", "apart"}


def test_a_call_with_out_is_one_launch_and_nothing_else(fake):
    runtime, arrays = FunctionRuntime(scaled()), put(X, P, N, S)
    out = poisoned(scaled()(X, P, N, S))
    runtime.arrays(arrays, out=out)
    fake.clear_log()
    runtime.arrays(arrays, out=out)
    allowed = {"cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent"}
    assert [name for name in fake.names() if name.removesuffix("_v2") not in allowed] == ["cuLaunchKernel"]
    fake.clear_log()
    runtime.arrays(arrays)
    names = fake.names()
    assert sum("Alloc" in name for name in names) == 1
    assert names.count("cuLaunchKernel") == 1
    assert not any("Synchronize" in name or "Memcpy" in name for name in names)


def test_results_are_ordered_behind_a_slow_producer(device, delay):
    producer, consumer = Stream(device), Stream(device)
    arrays = batch(1000)
    sources = put(*arrays)
    late = [madspace.asarray(np.zeros_like(x), device="cuda", stream=producer) for x in arrays]
    delay(producer, 50)
    for x, y in zip(late, sources, strict=True):
        x.copy_from(y, stream=producer)
    results = FunctionRuntime(scaled()).call(late, stream=consumer)
    for result, reference in zip(results, scaled()(*arrays), strict=True):
        np.testing.assert_array_equal(result.numpy(), reference)


def test_a_capture_keeps_inputs_and_results(device, stream):
    madspace.preload()
    arrays = batch(100)
    inputs, runtime = put(*arrays), FunctionRuntime(scaled())
    with madspace.capture(stream, mode="global") as graph:
        results = runtime.arrays(inputs, stream=stream)
    inputs.clear()
    assert graph.node_counts() == {"kernel": 1}
    executable = graph.instantiate()
    for _ in range(2):
        executable.launch(stream)
        for result, reference in zip(results, scaled()(*arrays), strict=True):
            np.testing.assert_array_equal(result.numpy(), reference)
            result.copy_from(np.zeros_like(reference))


@pytest.mark.multi_gpu
def test_runs_on_the_device_of_its_inputs(other_device):
    arrays = [madspace.asarray(x, device=other_device) for x in (X, P, N, S)]
    results = FunctionRuntime(scaled()).call(arrays)
    assert all(x.device_id == other_device.id for x in results)
    np.testing.assert_array_equal(results[0].numpy(), 2 * X)


@pytest.mark.gpu
@pytest.mark.needs("torch")
def test_torch_in_torch_out():
    import torch

    arrays = [torch.from_numpy(x).cuda() for x in (X, P, N)]
    result = scaled()(*arrays, 2.0)
    assert all(type(x) is torch.Tensor and x.is_cuda for x in result)
    np.testing.assert_array_equal(result.y1.cpu().numpy(), 2 * P)
