"""Gradients on a device: the CPU's numbers from one kernel, compiled for them alone."""

import numpy as np
import pytest
import warp_machine
from program_points import function_of

import madspace
from madspace import TPropagatorMapping, batch_float, batch_float_array, batch_int, single_float
from madspace.cpu import _programs
from madspace.phasespace import jit
from madspace.phasespace.fused import fused_source
from madspace.phasespace.fused_steps import TWO_WAY
from madspace.phasespace.gradients import MOST_DIRECTIONS, compile_vjp

F = batch_float
pytestmark = pytest.mark.needs("nvrtc")


@pytest.fixture(autouse=True)
def _kernels(device, program_kernels, tmp_path, monkeypatch):
    """Run on device 0, with a cache of its own."""
    monkeypatch.setenv("MADSPACE_CACHE_DIR", str(tmp_path / "kernels"))


@pytest.fixture
def vjp(real_gpu):
    """Return a function that has gradients on device 0: those of `Function.vjp`, as NumPy arrays."""

    def gradients(function, arguments, output_grads, wanted):
        if not real_gpu:
            import fake_driver

            positions = [i for i, x in enumerate(output_grads) if x is not None]
            program = compile_vjp(function, positions, wanted, _programs.op_table(), most_directions=MOST_DIRECTIONS)
            warp_machine.register_fused(fake_driver.load(), fused_source(program, [False] * len(program.outputs)))
        found = function.vjp(put(arguments), put(output_grads), wanted)
        return [None if x is None else x.numpy() for x in found]

    return gradients


def put(arrays):
    return [madspace.asarray(x, device="cuda") if isinstance(x, np.ndarray) else x for x in arrays]


def same(found, wanted):
    for x, y in zip(found, wanted, strict=True):
        assert (x is None) == (y is None)
        if y is not None:
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9 * np.abs(y).max())


@pytest.mark.parametrize(("order", "floor"), [([0], 20.0), ([0, 2, 1], None)], ids=["2body-floors", "4body"])
def test_gradients_of_a_chain(vjp, order, floor):
    n, size = len(order) + 1, 70
    mapping = TPropagatorMapping(order, 0.8, [] if floor is None else [floor] * n)
    rng = np.random.default_rng(2)
    arguments = [*0.05 + 0.9 * rng.random((mapping.random_dim(), size)), np.full(size, 500.0)]
    arguments += [np.array([m]) for m in (80.0, 5.0, 0.0, 91.0)[:n]]
    function = mapping.forward_function()
    results = function(*arguments)
    gradients = [None, None, *(rng.normal(size=x.shape) for x in results[2:-1]), 1 / results.det]
    wanted = [True] * (mapping.random_dim() + 1) + [False] * n
    same(vjp(function, arguments, gradients, wanted), function.vjp(arguments, gradients, wanted))


@pytest.mark.parametrize(
    ("order", "power"), [([1, 0], 0.8), ([0, 1], 0.0), ([0, 1], 1.0), ([2, 0, 1], 0.6)], ids=["0.8", "0", "1", "0.6"]
)
def test_gradients_by_steps_that_go_both_ways(vjp, order, power):
    """All gradients in one pass, those of the masses too; the CPU has them by dual numbers."""
    n, size = len(order) + 1, 70
    mapping = TPropagatorMapping(order, power)
    rng = np.random.default_rng(6)
    r = 0.01 + 0.98 * rng.random((mapping.random_dim(), size))
    arguments = [*r, 500 + 100 * rng.random(size), *(40 * rng.random((n, size)))]
    function = mapping.forward_function()
    results = function(*arguments)
    gradients = [*(rng.normal(size=x.shape) for x in results[:-1]), 1 / results.det]
    wanted = [True] * len(arguments)
    same(vjp(function, arguments, gradients, wanted), function.vjp(arguments, gradients, wanted))


@pytest.mark.parametrize("light", [False, True])
def test_gradients_at_the_edges(vjp, light):
    """Where the CPU has a number there is one, the same."""
    mapping, size = TPropagatorMapping([0, 2, 1], 0.8), 1024
    rng = np.random.default_rng(7)
    edges = np.array([0.0, 1e-12, 0.3, 0.5, 1 - 1e-9, np.nextafter(1, 0), 1.0, -0.1, 1.1, np.nan, np.inf])
    r = np.where(rng.random((8, size)) < 0.3, rng.choice(edges, (8, size)), rng.random((8, size)))
    if not light:  # the gradients of light recoils are but rounding, here and there
        r[:2] = np.where(r[:2] > 1e-4, r[:2], 1e-4)
    masses = rng.choice([0.0, 1e-6, 80.0, 173.0, -1.0, np.nan], (4, size), p=[0.3, 0.2, 0.2, 0.2, 0.05, 0.05])
    energy = np.where(rng.random(size) < 0.3, masses.sum(axis=0), 1000.0)
    function = mapping.forward_function()
    arguments = [*r, energy, *masses]
    gradients = [None, None, *(rng.normal(size=(size, 4)) for _ in range(4)), rng.normal(size=size)]
    wanted = [True] * 8 + [False] * 5
    expected = function.vjp(arguments, gradients, wanted)
    for x, y in zip(vjp(function, arguments, gradients, wanted)[:8], expected[:8], strict=True):
        known = np.isfinite(y)
        assert np.mean(known) > 0.8
        assert np.isfinite(x[known]).all()
        if not light:
            np.testing.assert_allclose(x[known], y[known], rtol=1e-6, atol=1e-6)


def test_inputs_of_steps_that_go_both_ways():
    table = _programs.op_table()
    assert {name: table[name][1] for name in TWO_WAY} == TWO_WAY


def test_gradients_of_lists_and_choices(vjp):
    function = function_of(
        [batch_float_array(5), F, batch_int],
        lambda b, r, e, i: [b.fast_rambo_massless_com(r, e)[0], b.gather(i, r), b.max(b.abs(e), b.square(e))],
    )
    rng = np.random.default_rng(4)
    arguments = [0.1 + 0.8 * rng.random((33, 5)), 100 + rng.random(33), rng.integers(0, 5, 33, dtype=np.int32)]
    gradients = [rng.normal(size=(33, 3, 4)), rng.normal(size=33), rng.normal(size=33)]
    wanted = [True, True, False]
    same(vjp(function, arguments, gradients, wanted), function.vjp(arguments, gradients, wanted))


def test_no_gradients_give_zeros(vjp):
    function = function_of([F], lambda b, x: [b.square(x)])
    (found,) = vjp(function, [np.ones(3)], [None], [True])
    np.testing.assert_array_equal(found, np.zeros(3))


def test_nothing_is_compiled_where_nothing_is_wanted():
    function = function_of([F], lambda b, x: [b.cut_one(x, 0.0, 1.0)])
    assert function.vjp(put([np.ones(3)]), put([np.ones(3)]), [False]) == (None,)


def test_sums_over_the_events_are_refused():
    function = function_of([F, single_float], lambda b, x, y: [b.mul(x, y)])
    arguments = put([np.ones(3), np.ones(1)])
    with pytest.raises(madspace.UnsupportedOpError, match="x1: on a GPU expected 3 numbers where a gradient is wanted"):
        function.vjp(arguments, put([np.ones(3)]))
    function = function_of([F, F], lambda b, x, y: [b.mul(x, y)])
    with pytest.raises(madspace.UnsupportedOpError, match="x1: on a GPU expected 3 numbers where a gradient is wanted"):
        function.vjp(arguments, put([np.ones(3)]))
    (number,) = arguments[1:]
    with pytest.raises(madspace.UnsupportedOpError, match="x0: on a GPU expected 3 numbers where a gradient is wanted"):
        function.vjp([number, arguments[0]], put([np.ones(3)]))


def test_the_count_and_the_place_of_gradients(vjp):
    """Checked at every call, whatever calls there were before."""
    function = function_of([F, F], lambda b, x, y: [b.mul(x, y), x])
    arguments, gradients = [np.ones(3), np.ones(3)], [np.ones(3), None]
    same(vjp(function, arguments, gradients, [True, True]), [np.ones(3), np.ones(3)])
    with pytest.raises(madspace.ShapeError, match="output_grads: expected 2"):
        function.vjp(put(arguments), put([np.ones(3)]))
    with pytest.raises(madspace.DeviceMismatchError, match="grad_y0"):
        function.vjp(put(arguments), gradients)
    same(function.vjp(arguments, gradients), [np.ones(3), np.ones(3)])
    same(function.vjp([madspace.asarray(x) for x in arguments], gradients), [np.ones(3), np.ones(3)])


def test_a_step_without_a_derivative_raises():
    function = function_of([F], lambda b, x: [b.cut_one(x, 0.0, 1.0)])
    with pytest.raises(madspace.UnsupportedOpError, match="cut_one: this operation has no derivative"):
        function.vjp(put([np.ones(3)]), put([np.ones(3)]))


def test_integers_have_no_gradients():
    function = function_of([batch_int, F], lambda b, i, x: [b.add_int(i, 1), x])
    arguments = put([np.ones(3, np.int32), np.ones(3)])
    with pytest.raises(madspace.DTypeError, match=r"output_grads\[0\] \(y0\): expected None for a result of int32"):
        function.vjp(arguments, put([np.ones(3), None]))


@pytest.mark.parametrize("beams", [True, False])
def test_shipped_gradients_need_no_compiler(monkeypatch, beams):
    monkeypatch.setattr(jit, "compile_image", None)
    size, mapping = 70, TPropagatorMapping([0, 1], 0.8)
    rng = np.random.default_rng(3)
    arguments = [*0.05 + 0.9 * rng.random((5, size)), np.array([500.0]), *np.array([[80.0], [5.0], [0.0]])]
    results = mapping.map_forward(arguments)
    gradients = [*(rng.normal(size=x.shape) for x in results[:-1]), 1 / results.det]
    if not beams:
        gradients[:2] = None, None
    wanted = [True] * 5 + [False] * 4
    found = mapping.vjp(put(arguments), [], put(gradients), input_requires_grad=wanted)
    same(
        [None if x is None else x.numpy() for x in found],
        mapping.vjp(arguments, [], gradients, input_requires_grad=wanted),
    )
