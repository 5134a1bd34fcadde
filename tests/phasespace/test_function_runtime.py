"""Running functions: shapes, batches, kinds of arrays, and what is refused."""

import pickle

import numpy as np
import pytest
from program_points import function_of

import madspace
from madspace import (
    Context,
    FunctionRuntime,
    Tensor,
    batch_float,
    batch_float_array,
    batch_four_vec,
    batch_int,
    single_float,
)

pytestmark = pytest.mark.usefixtures("reference_executor")

X, P = np.arange(3.0), np.arange(12.0).reshape(3, 4)
N, S = np.arange(3, dtype=np.int32), np.array(2.0)


def scaled():
    """Return x0 * x3 and x1 + x1, x2 + 1."""
    return function_of(
        [batch_float, batch_four_vec, batch_int, single_float],
        lambda b, x, p, n, s: [b.mul(x, s), b.add(p, p), b.add_int(n, 1)],
    )


def test_results():
    x, p, n = FunctionRuntime(scaled())(X, P, N, S)
    np.testing.assert_array_equal(x, 2 * X)
    np.testing.assert_array_equal(p, 2 * P)
    np.testing.assert_array_equal(n, N + 1)
    assert (x.dtype, p.dtype, n.dtype) == (np.float64, np.float64, np.int32)
    assert p.flags.c_contiguous


def test_a_function_returns_a_named_tuple_or_its_only_result():
    result = scaled()(x3=S, x0=X, x2=N, x1=P)
    assert result._fields == ("y0", "y1", "y2")
    np.testing.assert_array_equal(result.y0, 2 * X)
    only = function_of([batch_float], lambda b, x: [b.sqrt(x)])
    assert isinstance(only(X), np.ndarray)
    assert isinstance(FunctionRuntime(only)(X), np.ndarray)


def test_call_returns_tensors():
    results = FunctionRuntime(scaled()).call([X, P, N, S])
    assert all(isinstance(x, Tensor) and x.device == "cpu" for x in results)
    np.testing.assert_array_equal(results[0].numpy(), 2 * X)


def test_tensors_in_tensors_out():
    x, p, _ = scaled()(*(madspace.asarray(a) for a in (X, P, N, S)))
    assert isinstance(x, Tensor)
    np.testing.assert_array_equal(p.numpy(), 2 * P)


def test_any_strides():
    p = np.asfortranarray(np.repeat(P, 2, axis=0))[::-2, ::-1]
    np.testing.assert_array_equal(scaled()(X[::-1], p, N, S).y1, 2 * p)


def test_one_stands_for_every_event():
    result = scaled()(X, P[1:2], N[:1], S)
    np.testing.assert_array_equal(result.y1, 2 * P[[1, 1, 1]])
    np.testing.assert_array_equal(result.y2, [1, 1, 1])


@pytest.mark.parametrize("batch", [0, 1, 1000])
def test_any_batch(batch):
    x = np.linspace(0, 1, batch)
    result = scaled()(x, np.zeros((batch, 4)), np.zeros(batch, np.int32), S)
    assert [a.shape for a in result] == [(batch,), (batch, 4), (batch,)]
    np.testing.assert_array_equal(result.y0, 2 * x)


@pytest.mark.parametrize("shared", [2.0, S, S[None], np.float64(2.0)], ids=["float", "scalar", "array", "numpy"])
def test_what_all_events_share(shared):
    np.testing.assert_array_equal(scaled()(X, P, N, shared).y0, 2 * X)


def test_shared_arrays_with_and_without_batch_axis():
    type = madspace.Type(madspace.float, madspace.BatchSize.one, [3])
    function = function_of([batch_int, type], lambda b, i, choices: [b.gather(i, choices)])
    for choices in (P[0, :3], P[:1, :3]):
        np.testing.assert_array_equal(function(N, choices), [0.0, 1.0, 2.0])


def test_shared_results_have_one_event():
    function = function_of([batch_float, single_float], lambda b, x, s: [b.square(s), 4.0, b.stack([1, 2]), x])
    for batch in (0, 3):
        square, constant, pair, x = function(X[:batch], S)
        assert [a.shape for a in (square, constant, pair, x)] == [(1,), (1,), (1, 2), (batch,)]
        assert (square[0], constant[0], pair.tolist(), pair.dtype) == (4.0, 4.0, [[1, 2]], np.int32)


def test_no_arguments_and_no_results():
    np.testing.assert_array_equal(function_of([], lambda b: [b.add(1.0, 2.0)])(), [3.0])
    assert FunctionRuntime(function_of([batch_float], lambda b, x: []))(X) == ()


def test_results_are_new_arrays():
    function = function_of([batch_float], lambda b, x: [x, x])
    a, b = function(X)
    a[:] = 7
    np.testing.assert_array_equal(b, X)
    np.testing.assert_array_equal(X, np.arange(3.0))


def test_empty_arrays_per_event():
    function = function_of([batch_float_array(1)], lambda b, a: [b.pop(a)[0], b.reduce_sum(b.pop(a)[0])])
    rest, total = function(P[:, :1])
    assert rest.shape == (3, 0)
    assert total.tolist() in ([0.0], [0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((X, P, N), madspace.ShapeError, r"arguments: expected 4 \(x0, x1, x2, x3\), got 3"),
        ((X, P, N, S, S), madspace.ShapeError, "got 5"),
        ((X, P, N.astype(np.int64), S), madspace.DTypeError, "x2: expected dtype int32, got int64"),
        ((X.astype(np.float32), P, N, S), madspace.DTypeError, "x0: expected dtype float64, got float32"),
        ((X.astype(">f8"), P, N, S), madspace.DTypeError, "x0: expected dtype float64, got >f8"),
        ((X, P[:, :3], N, S), madspace.ShapeError, r"x1: expected shape \(batch, 4\), got \(3, 3\)"),
        ((X[None], P, N, S), madspace.ShapeError, r"x0: expected shape \(batch,\), got \(1, 3\)"),
        ((2.0, P, N, S), madspace.ShapeError, r"x0: expected shape \(batch,\), got \(\)"),
        ((X, P, N, X), madspace.ShapeError, r"x3: expected shape \(1,\), got \(3,\)"),
        ((X, P[:2], N, S), madspace.ShapeError, "x1: expected 3 events, as x0 has, got 2"),
        ((X[:0], P, N, S), madspace.ShapeError, "x1: expected 0 events, as x0 has, got 3"),
        (("x", P, N, S), TypeError, None),
        ((None, P, N, S), TypeError, None),
    ],
)
def test_arguments_that_do_not_fit(arguments, error, message):
    with pytest.raises(error, match=message):
        FunctionRuntime(scaled())(*arguments)


def test_a_function_is_pickled_as_what_it_computes():
    function = scaled()
    expected = function(X, P, N, S)
    again = pickle.loads(pickle.dumps(function))
    assert str(again) == str(function)
    np.testing.assert_array_equal(again(X, P, N, S).y1, expected.y1)


def test_names_that_do_not_fit():
    with pytest.raises(TypeError, match=r"inputs: expected the names \('x0', 'x1', 'x2', 'x3'\), got \('x0',\)"):
        scaled()(x0=X)
    with pytest.raises(TypeError, match="got both"):
        scaled()(X, x1=P, x2=N, x3=S)


def test_no_inputs_are_held_on_the_cpu():
    runtime = FunctionRuntime(scaled())
    runtime(X, P, N, S)
    assert runtime.release_inputs() == 0


def test_globals_with_arrays_of_another_kind():
    function = function_of([batch_float], lambda b, x: [b.mul(x, b.get_global("scale", madspace.float, []))])
    context = Context()
    context.define_global("scale", madspace.float, []).numpy()[...] = 2.0
    (result,) = FunctionRuntime(function, context).call([madspace.asarray(X)])
    np.testing.assert_array_equal(result.numpy(), 2.0 * X)


def test_globals_come_from_the_context():
    function = function_of([batch_float], lambda b, x: [b.mul(x, b.get_global("scale", madspace.float, []))])
    context = Context()
    runtime = FunctionRuntime(function, context)
    with pytest.raises(ValueError, match="expected a global of the context, got 'scale'"):
        runtime(X)
    context.define_global("scale", madspace.float, []).numpy()[...] = 3.0
    np.testing.assert_array_equal(runtime(X), 3 * X)
    context.get_global("scale").numpy()[...] = 4.0
    np.testing.assert_array_equal(runtime(X), 4 * X)
    for type, dtype, shape in ((madspace.DTypeError, madspace.int, []), (madspace.ShapeError, madspace.float, [2])):
        context.delete_global("scale")
        context.define_global("scale", dtype, shape)
        with pytest.raises(type, match="scale: expected a global of"):
            runtime(X)


@pytest.mark.needs("torch")
def test_torch_in_torch_out():
    import torch

    result = scaled()(torch.from_numpy(X), torch.from_numpy(P), torch.from_numpy(N), torch.tensor(2.0).double())
    assert all(type(x) is torch.Tensor for x in result)
    np.testing.assert_array_equal(result.y1.numpy(), 2 * P)
