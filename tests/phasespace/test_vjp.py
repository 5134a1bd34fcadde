"""Gradients of functions and mappings: against 50 digits, and every way of asking for them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_points import function_of

import madspace
from madspace import (
    FunctionRuntime,
    TPropagatorMapping,
    batch_float,
    batch_float_array,
    batch_four_vec,
    batch_int,
    single_float,
)

F = batch_float
KINEMATICS = {
    "10GeV": (10.0, [0.0] * 6),
    "13TeV": (13000.0, [0.0] * 6),
    "heavy": (13000.0, [173.0, 173.0, 0.0, 0.0, 80.0, 91.0]),
    "unequal": (13000.0, [1e-3, 173.0, 1e-6, 0.0, 173.0, 1e-9]),
}
POWERS = [0.8, 0.0, 1.0, 0.6, -3.0, 4.5]


def chain_arguments(mapping, energy, masses, size, seed):
    """Return random numbers away from the edges, energy and masses, one array each."""
    r = 0.02 + 0.96 * np.random.default_rng(seed).random((mapping.random_dim(), size))
    return [*r, *(np.full(size, float(x)) for x in (energy, *masses))]


@pytest.mark.needs("mpmath")
@pytest.mark.parametrize("kinematics", KINEMATICS)
@pytest.mark.parametrize("order", [[0], [0, 1], [1, 0], [2, 0, 1], [3, 2, 0, 1], [0, 4, 1, 3, 2]], ids=str)
def test_gradients_of_chains(order, kinematics):
    from chain_reference import t_chain
    from mpmath import mp, mpf

    n, size, step, i = len(order) + 1, 2, mpf(10) ** -22, list(KINEMATICS).index(kinematics)
    energy, masses = KINEMATICS[kinematics][0], KINEMATICS[kinematics][1][:n]
    power, pt_min = POWERS[i], [20.0] * n if energy > 100 and i % 2 else []
    mapping = TPropagatorMapping(order, power, pt_min)
    arguments = chain_arguments(mapping, energy, masses, size, i)
    results = mapping.forward_function()(*arguments)
    rng = np.random.default_rng(i)
    gradients = [rng.normal(size=x.shape) for x in results]
    gradients[-1] *= energy / results[-1]
    found = mapping.vjp(arguments, [], gradients)
    n_random = mapping.random_dim()

    def exact(x, k):
        p, det = t_chain(order, power, x[:n_random], x[n_random], x[n_random + 1 :], pt_min=pt_min)
        numbers = [x for row in p for x in row] + [det]
        weights = np.concatenate([g[k].ravel() for g in gradients]).tolist()
        return sum((a * mpf(b) for a, b in zip(numbers, weights, strict=True)), mpf(0))

    with mp.workdps(60):
        for k in range(size):
            x = [mpf(float(a[k])) for a in arguments]
            for j, gradient in enumerate(found):
                below = min(step, x[j])  # there are no masses below 0
                up, down = [*x[:j], x[j] + step, *x[j + 1 :]], [*x[:j], x[j] - below, *x[j + 1 :]]
                wanted = (exact(up, k) - exact(down, k)) / (step + below)
                # The sum is over momenta: what cancels in it leaves digits of the energy.
                assert abs(float(gradient[k]) - wanted) <= 1e-9 * abs(wanted) + 1e-13 * energy


@pytest.mark.parametrize("pt_min", [[], [20.0] * 4], ids=["plain", "floors"])
def test_gradients_there_and_back_are_inverse_matrices(pt_min):
    """The map back undoes the map, so a gradient goes through both unchanged."""
    mapping, size = TPropagatorMapping([0, 2, 1], 0.8, pt_min), 200
    arguments = chain_arguments(mapping, 500.0, [80.0, 5.0, 0.0, 91.0], size, 3)
    n = mapping.random_dim()
    momenta = mapping.map_forward(arguments)[:-1]
    wanted = np.random.default_rng(1).normal(size=(n, size))
    through = mapping.vjp(momenta, arguments[n:], [*wanted, None], is_inverse=True)
    assert through._fields[:2] == ("momentum0", "momentum1")
    back = mapping.vjp(arguments, [], [*through[:6], None])
    np.testing.assert_allclose(back[:n], wanted, rtol=0, atol=1e-7)
    det, inverse = mapping.map_forward(arguments).det, mapping.map_inverse(momenta, arguments[n:]).det
    ones = [None] * n, [1 / inverse]
    slopes = mapping.vjp(momenta, arguments[n:], [*ones[0], *ones[1]], is_inverse=True)
    of_log = mapping.vjp(arguments, [], [*slopes[:6], None])
    minus = mapping.vjp(arguments, [], [None] * 6 + [-1 / det])
    np.testing.assert_allclose(of_log[:n], minus[:n], rtol=0, atol=1e-6)


UNARY = {
    "neg": (lambda b, x: b.sub(0.0, x), lambda x: -x),
    "square": (lambda b, x: b.square(x), lambda x: x * x),
    "root": (lambda b, x: b.sqrt(b.add(b.square(x), 1.0)), lambda x: (x * x + 1) ** 0.5),
    "abs": (lambda b, x: b.abs(x), abs),
}
BINARY = {
    "add": (lambda b, x, y: b.add(x, y), lambda x, y: x + y),
    "sub": (lambda b, x, y: b.sub(x, y), lambda x, y: x - y),
    "mul": (lambda b, x, y: b.mul(x, y), lambda x, y: x * y),
    "div": (lambda b, x, y: b.div(x, b.add(b.square(y), 1.0)), lambda x, y: x / (y * y + 1)),
    "min": (lambda b, x, y: b.min(x, y), min),
    "max": (lambda b, x, y: b.max(x, y), max),
    "sum": (lambda b, x, y: b.reduce_sum(b.stack([x, y, x, 2.0])), lambda x, y: 2 * x + y + 2),
    "product": (lambda b, x, y: b.reduce_product(b.stack([x, y, 3.0, y])), lambda x, y: 3 * x * y * y),
    "choose": (lambda b, x, y: b.gather(1, b.stack([x, y])), lambda x, y: y),
}
steps = st.tuples(st.sampled_from([*UNARY, *BINARY]), st.integers(0, 99), st.integers(0, 99))


@pytest.mark.needs("mpmath")
@settings(max_examples=60, deadline=None)
@given(st.lists(steps, min_size=1, max_size=10), st.lists(st.floats(-2, 2), min_size=3, max_size=3))
def test_gradients_of_random_graphs(code, point):
    from mpmath import mp, mpf

    def follow(values, apply):
        for name, i, j in code:
            x, y = values[i % len(values)], values[j % len(values)]
            values = [*values, apply(name, x, y)]
        return values[3:]

    def build(b, *x):
        return follow(list(x), lambda name, x, y: UNARY[name][0](b, x) if name in UNARY else BINARY[name][0](b, x, y))

    def evaluate(x):
        values = follow(list(x), lambda name, x, y: UNARY[name][1](x) if name in UNARY else BINARY[name][1](x, y))
        return sum(values[k] * (k + 1) for k in range(len(values)))

    point = [x + 1e-3 * i + 1e-4 for i, x in enumerate(point)]
    function = function_of([F, F, F], build)
    gradients = [np.array([k + 1.0]) for k in range(len(code))]
    found = function.vjp([np.array([x]) for x in point], gradients)
    with mp.workdps(60):
        x, step = [mpf(v) for v in point], mpf(10) ** -25
        for i in range(3):
            up, down = [*x[:i], x[i] + step, *x[i + 1 :]], [*x[:i], x[i] - step, *x[i + 1 :]]
            halves = (evaluate(up) - evaluate(x)) / step, (evaluate(x) - evaluate(down)) / step
            if abs(halves[0] - halves[1]) > 1e-9 * (1 + abs(halves[0])):
                continue  # at the edge of an abs, min or max
            assert abs(float(found[i][0]) - halves[0]) <= 1e-9 * (1 + abs(halves[0])) + 1e-12 * abs(evaluate(x))


def rosenbrock(b, x, y):
    return [b.add(b.square(b.sub(1.0, x)), b.mul(100.0, b.square(b.sub(y, b.square(x))))), b.mul(x, y)]


X, Y = np.array([0.3, -1.2, 2.0]), np.array([0.5, 0.7, -0.1])
SLOPES = -2 * (1 - X) - 400 * X * (Y - X**2), 200 * (Y - X**2)


def test_gradients_by_name():
    found = function_of([F, F], rosenbrock).vjp([X, Y], [np.ones(3), None])
    assert found._fields == ("x0", "x1")
    np.testing.assert_allclose(found, SLOPES, rtol=1e-14)


def test_gradients_of_results_add_up():
    found = function_of([F, F], rosenbrock).vjp([X, Y], [np.ones(3), 2 * X])
    np.testing.assert_allclose(found, [SLOPES[0] + 2 * X * Y, SLOPES[1] + 2 * X * X], rtol=1e-14)


def test_no_gradients_give_zeros():
    np.testing.assert_array_equal(function_of([F, F], rosenbrock).vjp([X, Y], [None, None]), np.zeros((2, 3)))


def test_inputs_that_need_none_have_none():
    function = function_of([F, F], rosenbrock)
    found = function.vjp([X, Y], [np.ones(3), None], [False, True])
    assert found[0] is None
    np.testing.assert_allclose(found[1], SLOPES[1], rtol=1e-14)
    assert function.vjp([X, Y], [np.ones(3), None], [False, False]) == (None, None)


def test_an_input_without_influence_has_zeros():
    found = function_of([F, F], lambda b, x, y: [b.square(x)]).vjp([X, Y], [np.ones(3)])
    np.testing.assert_array_equal(found, [2 * X, np.zeros(3)])


def test_one_array_for_two_inputs():
    found = function_of([F, F], lambda b, x, y: [b.mul(x, y)]).vjp([X, X], [np.ones(3)])
    np.testing.assert_array_equal(found, [X, X])


def test_results_that_are_inputs_or_used_inside_or_twice():
    def fill(b, x, y):
        z = b.mul(x, y)
        return [x, z, z, b.square(z)]

    g = [np.full(3, k) for k in (2.0, 3.0, 5.0, 7.0)]
    found = function_of([F, F], fill).vjp([X, Y], g)
    of_z = 3 + 5 + 14 * X * Y
    np.testing.assert_allclose(found, [2 + of_z * Y, of_z * X], rtol=1e-14)
    for gradient, before in zip(g, (2.0, 3.0, 5.0, 7.0), strict=True):
        assert (gradient == before).all()


def test_zeros_in_a_product_do_no_harm():
    function = function_of([batch_float_array(4)], lambda b, x: [b.reduce_product(x)])
    x = np.array([[2.0, 3.0, 5.0, 7.0], [2.0, 0.0, 5.0, 7.0], [0.0, 3.0, 0.0, 7.0]])
    (found,) = function.vjp([x], [np.ones(3)])
    np.testing.assert_array_equal(found, [[105.0, 70.0, 42.0, 30.0], [0.0, 70.0, 0.0, 0.0], [0.0] * 4])


def test_choices_pass_gradients_to_what_was_chosen():
    function = function_of([batch_int, batch_float_array(3)], lambda b, i, x: [b.gather(i, x)])
    index, x = np.array([0, 2, 1, -5, 9], dtype=np.int32), np.ones((5, 3))
    found = function.vjp([index, x], [np.arange(1.0, 6.0)])
    assert found[0] is None
    np.testing.assert_array_equal(found[1], [[1, 0, 0], [0, 0, 2], [0, 3, 0], [4, 0, 0], [0, 0, 5]])


def test_a_vector_of_momenta():
    function = function_of([batch_four_vec, batch_four_vec], lambda b, p, q: [b.obs_pair_mass(p, q)])
    p, q = np.array([[5.0, 1.0, 2.0, 3.0]]), np.array([[7.0, -1.0, 2.0, 1.0]])
    found = function.vjp([p, q], [np.array([2.0])])
    total = (p + q) * [1, -1, -1, -1]
    np.testing.assert_allclose(found[0], 2 * total / function(p, q), rtol=1e-14)
    np.testing.assert_array_equal(found[0], found[1])


def test_what_stands_for_every_event_collects_their_gradients():
    function = function_of([F, F], lambda b, x, y: [b.mul(x, y)])
    found = function.vjp([X, np.array([2.0])], [np.ones(3)])
    assert found[1].shape == (1,)
    np.testing.assert_allclose(found[1], [X.sum()], rtol=1e-15)


def test_shared_results_count_once():
    function = function_of([single_float, F], lambda b, a, x: [b.square(a), b.mul(a, x)])
    found = function.vjp([3.0 * np.ones(1), X], [np.array([1.0]), np.ones(3)])
    np.testing.assert_allclose(found[0], [6.0 + X.sum()], rtol=1e-15)
    np.testing.assert_array_equal(found[1], np.full(3, 3.0))


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 5000])
def test_any_batch(size):
    x = np.linspace(0.1, 2.0, size)
    found = function_of([F, F], rosenbrock).vjp([x, np.array([0.5])], [np.ones(size), None])
    np.testing.assert_allclose(found[0], -2 * (1 - x) - 400 * x * (0.5 - x**2), rtol=1e-12, atol=1e-12)
    assert found[1].shape == (1,)


def test_gradients_of_any_strides():
    wide = np.repeat(X, 4)[::4]
    found = function_of([F, F], rosenbrock).vjp([wide, Y[::-1][::-1]], [np.broadcast_to(1.0, 3), None])
    np.testing.assert_allclose(found, SLOPES, rtol=1e-14)


FLAT = {
    "cut_one": lambda b, x: [b.cut_one(x, 0.0, 1.0)],
    "cut_all": lambda b, x: [b.cut_all(b.stack([x, x]), 0.0, 1.0)],
    "cut_any": lambda b, x: [b.cut_any(b.stack([x, x]), 0.0, 1.0)],
    "sample_discrete": lambda b, x: [b.sample_discrete(x, 3)[1]],
    "sample_discrete_probs": lambda b, x: [b.sample_discrete_probs(x, b.stack([x, b.square(x)]))[1]],
    "one_hot": lambda b, x: [b.one_hot(b.sample_discrete(x, 3)[0], 3)],
}


@pytest.mark.parametrize("name", FLAT)
def test_a_step_without_a_derivative_raises(name):
    function = function_of([F], FLAT[name])
    result = function(X)
    with pytest.raises(madspace.UnsupportedOpError, match=f"{name}: this operation has no derivative"):
        function.vjp([X], [np.ones_like(result)])
    # Without a gradient, or where nothing is asked for, nobody needs the derivative.
    np.testing.assert_array_equal(function.vjp([X], [None])[0], np.zeros(3))
    assert function.vjp([X], [np.ones_like(result)], [False]) == (None,)


def test_a_choice_by_what_was_sampled_raises():
    function = function_of([F, F], lambda b, r, x: [b.gather(b.sample_discrete(r, 2)[0], b.stack([x, b.square(x)]))])
    with pytest.raises(madspace.UnsupportedOpError, match="sample_discrete: this operation has no derivative"):
        function.vjp([np.full(3, 0.7), X], [np.ones(3)])
    np.testing.assert_array_equal(function.vjp([np.full(3, 0.7), X], [np.ones(3)], [False, True])[1], 2 * X)


def test_call_with_grad_and_call_backward():
    function = function_of([F, F], rosenbrock)
    runtime = FunctionRuntime(function)
    outputs, stored, eval_grad = runtime.call_with_grad([X, Y], [True, False])
    np.testing.assert_array_equal(outputs[0].numpy(), function(X, Y)[0])
    assert len(stored) == len(eval_grad) == len(function.locals)
    assert sum(eval_grad) == 1
    assert sum(x is not None for x in stored) == 2
    for _ in range(2):
        inputs, globals_ = runtime.call_backward([np.ones(3), None], stored, eval_grad)
        assert globals_ == []
        assert inputs[1] is None
        np.testing.assert_allclose(inputs[0].numpy(), SLOPES[0], rtol=1e-14)


def test_nothing_is_kept_where_nothing_is_asked_for():
    runtime = FunctionRuntime(function_of([F, F], rosenbrock))
    outputs, stored, eval_grad = runtime.call_with_grad([X, Y], [False, False])
    assert not any(eval_grad)
    assert all(x is None for x in stored)
    assert runtime.call_backward([np.ones(3), None], stored, eval_grad) == ([None, None], [])
    assert len(outputs) == 2


def test_gradients_of_globals():
    inputs = madspace.NamedTypes([("x", F)])
    builder = madspace.FunctionBuilder(inputs, madspace.NamedTypes([("y", F)]))
    w = builder.get_global("w", madspace.float, [2])
    v = builder.get_global("v", madspace.float, [])
    a, b = builder.unstack(w)
    builder.output(0, builder.mul(v, builder.add(builder.mul(a, builder.input(0)), b)))
    context = madspace.Context()
    context.define_global("w", madspace.float, [2], requires_grad=True).numpy()[...] = [[3.0, 4.0]]
    context.define_global("v", madspace.float, []).numpy()[...] = 2.0
    runtime = FunctionRuntime(builder.function(), context)
    _, stored, eval_grad = runtime.call_with_grad([X], [True])
    (of_x,), globals_ = runtime.call_backward([np.ones(3)], stored, eval_grad)
    np.testing.assert_array_equal(of_x.numpy(), np.full(3, 6.0))
    found = dict(globals_)
    assert found["v"] is None
    np.testing.assert_allclose(found["w"].numpy(), [[2 * X.sum(), 6.0]], rtol=1e-15)


def test_results_are_of_the_first_arguments_kind():
    function = function_of([F, F], rosenbrock)
    found = function.vjp([madspace.asarray(X), Y], [np.ones(3), None])
    assert all(isinstance(x, madspace.Tensor) for x in found)


@pytest.mark.parametrize(
    ("arguments", "gradients", "wanted", "error", "message"),
    [
        ([X], [None, None], None, madspace.ShapeError, "arguments: expected 2"),
        ([X, Y], [None], None, madspace.ShapeError, r"output_grads: expected 2 \(y0, y1\), got 1"),
        ([X, Y], [np.ones(4), None], None, madspace.ShapeError, r"output_grads\[0\] \(y0\): expected 3 events, got 4"),
        ([X, Y], [np.ones((3, 1)), None], None, madspace.ShapeError, r"output_grads\[0\] \(y0\): expected shape"),
        (
            [X, Y],
            [np.ones(3, np.float32), None],
            None,
            madspace.DTypeError,
            r"output_grads\[0\] \(y0\): expected dtype",
        ),
        ([X, Y], [None, None], [True], madspace.ShapeError, "input_requires_grad: expected 2 entries"),
        ([X, Y[:2]], [None, None], None, madspace.ShapeError, "x1: expected 3 events, as x0 has, got 2"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, gradients, wanted, error, message):
    with pytest.raises(error, match=message):
        function_of([F, F], rosenbrock).vjp(arguments, gradients, wanted)


def test_integers_have_no_gradients():
    function = function_of([batch_int, F], lambda b, i, x: [b.add_int(i, 1), x])
    index = np.arange(3, dtype=np.int32)
    with pytest.raises(madspace.DTypeError, match="x0: expected float64 where a gradient is wanted, got int"):
        FunctionRuntime(function).call_with_grad([index, X], [True, True])
    with pytest.raises(madspace.DTypeError, match=r"output_grads\[0\] \(y0\): expected None for a result of int32"):
        function.vjp([index, X], [np.ones(3), None])
    np.testing.assert_array_equal(function.vjp([index, X], [None, np.ones(3)])[1], np.ones(3))


def test_same_bits_with_any_number_of_threads():
    mapping = TPropagatorMapping([0, 2, 1])
    arguments = chain_arguments(mapping, 500.0, [80.0, 5.0, 0.0, 91.0], 20_001, 3)
    gradients = [None] * 6 + [np.ones(20_001)]
    before = madspace.get_num_threads()
    try:
        found = []
        for n in (1, 3):
            madspace.set_num_threads(n)
            found.append(mapping.vjp(arguments, [], gradients))
    finally:
        madspace.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
