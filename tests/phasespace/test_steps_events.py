"""Arithmetic, observables, cuts, scales, choices, boosts: against NumPy and at the ends of their domains."""

import math

import numpy as np
import pytest
from op_calls import call_op

pytestmark = pytest.mark.usefixtures("where")

RNG = np.random.default_rng(3)
N = 300
P = RNG.normal(size=(N, 3)) * 100
P1 = np.concatenate([np.sqrt(81 + (P**2).sum(axis=1, keepdims=True)), P], axis=1)
P2 = np.roll(P1, 7, axis=0)
BEAMS = np.tile([[500.0, 0, 0, 500.0], [300.0, 0, 0, -300.0]], (N, 1, 1))
EVENT = np.concatenate([BEAMS, P1[:, None], P2[:, None]], axis=1)
A, B = RNG.normal(size=(2, N))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("add", np.add),
        ("add_int", np.add),
        ("sub", np.subtract),
        ("mul", np.multiply),
        ("div", np.divide),
        ("min", np.minimum),
        ("max", np.maximum),
    ],
)
def test_binary_arithmetic(name, function):
    np.testing.assert_array_equal(call_op(name, A, B)[0], function(A, B))


@pytest.mark.parametrize(
    ("name", "function"), [("neg", np.negative), ("abs", np.abs), ("square", np.square), ("sqrt", np.sqrt)]
)
def test_unary_arithmetic(name, function):
    np.testing.assert_array_equal(call_op(name, np.abs(A))[0], function(np.abs(A)))


def test_reductions():
    x = RNG.normal(size=(N, 3, 4))
    np.testing.assert_allclose(call_op("reduce_sum", x, n_out=1)[0], x.sum(axis=(1, 2)), atol=1e-14)
    np.testing.assert_allclose(call_op("reduce_product", x, n_out=1)[0], x.prod(axis=(1, 2)), rtol=1e-14)
    np.testing.assert_allclose(call_op("reduce_sum_vector", x, n_out=4).T, x.sum(axis=1), atol=1e-15)


def eta(p):
    return np.arctanh(p[:, 3] / np.sqrt((p[:, 1:] ** 2).sum(axis=1)))


OBSERVABLES = {
    "e": P1[:, 0],
    "px": P1[:, 1],
    "py": P1[:, 2],
    "pz": P1[:, 3],
    "mass": np.full(N, 9.0),
    "pt": np.hypot(P1[:, 1], P1[:, 2]),
    "p_mag": np.sqrt((P**2).sum(axis=1)),
    "phi": np.arctan2(P1[:, 2], P1[:, 1]),
    "theta": np.arctan2(np.hypot(P1[:, 1], P1[:, 2]), P1[:, 3]),
    "y": np.arctanh(P1[:, 3] / P1[:, 0]),
    "y_abs": np.abs(np.arctanh(P1[:, 3] / P1[:, 0])),
    "eta": eta(P1),
    "eta_abs": np.abs(eta(P1)),
}


@pytest.mark.parametrize("name", OBSERVABLES)
def test_observables(name):
    np.testing.assert_allclose(call_op("obs_" + name, P1)[0], OBSERVABLES[name], rtol=2e-10, atol=1e-13)


def test_pair_observables():
    d_eta = eta(P1) - eta(P2)
    d_phi = (OBSERVABLES["phi"] - np.roll(OBSERVABLES["phi"], 7) + np.pi) % (2 * np.pi) - np.pi
    np.testing.assert_allclose(call_op("obs_delta_eta", P1, P2)[0], d_eta, atol=1e-12)
    np.testing.assert_allclose(call_op("obs_delta_phi", P1, P2)[0], d_phi, atol=1e-13)
    np.testing.assert_allclose(call_op("obs_delta_r", P1, P2)[0], np.hypot(d_eta, d_phi), rtol=1e-11)
    total = P1 + P2
    mass = np.sqrt(total[:, 0] ** 2 - (total[:, 1:] ** 2).sum(axis=1))
    np.testing.assert_allclose(call_op("obs_pair_mass", P1, P2)[0], mass, rtol=1e-12)
    np.testing.assert_allclose(call_op("obs_sqrt_s", EVENT, n_out=1)[0], math.sqrt(4 * 500 * 300))


@pytest.mark.parametrize("name", OBSERVABLES)
@pytest.mark.parametrize(
    "p", [(0, 0, 0, 0), (1, 0, 0, 1), (1, 0, 0, -1), (1, 1e-200, 0, 1), (1e100, 1e99, 0, 0)], ids=str
)
def test_observables_of_odd_momenta_are_finite(name, p):
    assert np.isfinite(call_op("obs_" + name, np.array([p], dtype=float))).all()


def test_cuts():
    x = np.stack([A, B, A * B], axis=1)
    inside = (x >= -0.5) & (x <= 1.0)
    np.testing.assert_array_equal(call_op("cut_one", A, -0.5, 1.0)[0], inside[:, 0])
    np.testing.assert_array_equal(call_op("cut_all", x, -0.5, 1.0, n_out=1)[0], inside.all(axis=1))
    np.testing.assert_array_equal(call_op("cut_any", x, -0.5, 1.0, n_out=1)[0], inside.any(axis=1))
    assert call_op("cut_one", [1.0, 2.0, 0.5, np.nan], 1.0, 2.0)[0].tolist() == [1, 1, 0, 0]


def test_unphysical_events_lose_their_weight():
    weight, event, x = np.full(N, 3.0), EVENT.copy(), np.full(N, 0.5)
    weight[0], event[1, 2, 1], event[2, 0, 0], x[3], x[4], x[5] = np.nan, np.nan, np.inf, 1.5, -0.1, np.nan
    expected = np.where(np.arange(N) < 6, 0.0, 3.0)
    np.testing.assert_array_equal(call_op("cut_unphysical", weight, event, x, 0.5, n_out=1)[0], expected)


def test_scales():
    e, pt = EVENT[:, 2:, 0], np.hypot(EVENT[:, 2:, 1], EVENT[:, 2:, 2])
    mt = np.sqrt(e**2 - EVENT[:, 2:, 3] ** 2)
    length = np.sqrt((EVENT[:, 2:, 1:] ** 2).sum(axis=2))
    expected = {
        "transverse_mass": mt.sum(axis=1),
        "half_transverse_mass": mt.sum(axis=1) / 2,
        "transverse_energy": (e * pt / length).sum(axis=1),
        "partonic_energy": np.full(N, math.sqrt(4 * 500 * 300)),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(call_op("scale_" + name, EVENT, n_out=1)[0], value, rtol=1e-12)


def test_network_inputs():
    out = call_op("pt_eta_phi_x", EVENT, 0.1, 0.2, n_out=8)
    np.testing.assert_allclose(out[2], np.log(P1[:, 1] ** 2 + P1[:, 2] ** 2 + 1e-6) / 2, atol=1e-14)
    np.testing.assert_allclose(out[3], OBSERVABLES["phi"], atol=1e-14)
    np.testing.assert_allclose(out[4], OBSERVABLES["eta"], atol=1e-12)
    np.testing.assert_array_equal(out[:2], np.tile([[0.1], [0.2]], N))


def test_choices():
    i, x, v = RNG.integers(0, 3, N), RNG.normal(size=(N, 3)), RNG.normal(size=(N, 3, 4))
    rows = np.arange(N)
    np.testing.assert_array_equal(call_op("gather", i, x, n_out=1)[0], x[rows, i])
    np.testing.assert_array_equal(call_op("gather_vector", i, v, n_out=4).T, v[rows, i])
    np.testing.assert_array_equal(call_op("select", x, [[2, 0]], n_out=2).T, x[:, [2, 0]])
    np.testing.assert_array_equal(call_op("select_vector", v, [[2, 0]], n_out=8).T.reshape(N, 2, 4), v[:, [2, 0]])
    np.testing.assert_array_equal(call_op("one_hot", i, 3.0, n_out=3).T, np.eye(3)[i])
    permutations = np.array([[0, 1, 2], [2, 0, 1]])
    out = call_op("permute_momenta", v, permutations[None], i % 2, n_out=12).T.reshape(N, 3, 4)
    np.testing.assert_array_equal(out, v[rows[:, None], permutations[i % 2]])
    # An index outside takes the nearest end.
    assert call_op("gather", [-1.0, 9.0, np.nan], [[1.0, 2.0]], n_out=1)[0].tolist() == [1, 2, 1]


def test_invariants_mirror_and_shares():
    factors = np.array([[1, 0, -1, 0], [0, 0, 1, 1]], dtype=float)
    out = call_op("invariants_from_momenta", EVENT, factors[None], n_out=2)
    q = np.einsum("jk,nkc->njc", factors, EVENT)
    np.testing.assert_allclose(out.T, q[:, :, 0] ** 2 - (q[:, :, 1:] ** 2).sum(axis=2), atol=1e-9)
    mirror = RNG.integers(0, 2, N)
    out = call_op("mirror_momenta", EVENT, mirror, n_out=16).T.reshape(N, 4, 4)
    np.testing.assert_array_equal(out, EVENT * np.where(mirror[:, None, None], [1, 1, -1, -1], 1))
    np.testing.assert_allclose(call_op("momenta_to_x1x2", EVENT, 2000.0, n_out=2)[:, 0], [0.5, 0.3])


@pytest.mark.parametrize("option_count", [1, 2, 7])
def test_uniform_discrete_sampling(option_count):
    r = np.concatenate([RNG.random(N), [0.0, 1.0, np.nextafter(1.0, 0.0)]])
    index, det = call_op("sample_discrete", r, option_count)
    np.testing.assert_array_equal(index, np.minimum(np.floor(r * option_count), option_count - 1))
    back, inverse = call_op("sample_discrete_inverse", index, option_count)
    np.testing.assert_allclose(det * inverse, 1)
    assert np.abs(back - r).max() <= 0.5 / option_count + 1e-15


def test_discrete_sampling_with_probabilities():
    probabilities = RNG.random((N, 5))
    probabilities[:, 2] = 0
    probabilities[0] = 0
    r = RNG.random(N)
    r[1:4] = 0.0, 1.0, np.nextafter(1.0, 0.0)
    index, det = call_op("sample_discrete_probs", r, probabilities, n_out=2)
    total = probabilities.sum(axis=1)
    chosen = probabilities[np.arange(N), index.astype(int)]
    assert (index != 2).all()
    np.testing.assert_allclose(det[1:], total[1:] / chosen[1:])
    assert (index[0], det[0]) == (0, 1)
    before = np.cumsum(probabilities, axis=1)[np.arange(N), index.astype(int)] - chosen
    back, inverse = call_op("sample_discrete_probs_inverse", index, probabilities, n_out=2)
    np.testing.assert_allclose(back[1:], (before + chosen / 2)[1:] / total[1:])
    np.testing.assert_allclose(det * inverse, 1)
    assert back[0] == 0.5


def test_beam_boost_round_trip():
    x1, x2 = RNG.random((2, N))
    masses = np.tile([-1.0, 0.0, 9.0, -1.0], (N, 1))
    out = call_op("boost_beam", EVENT, masses, x1, x2, n_out=16).T.reshape(N, 4, 4)
    eta_beam = np.log(x1 / x2) / 2
    expected_e = EVENT[:, :, 0] * np.cosh(eta_beam)[:, None] + EVENT[:, :, 3] * np.sinh(eta_beam)[:, None]
    np.testing.assert_allclose(out[:, :, 0], expected_e, rtol=1e-10)
    back = call_op("boost_beam_inverse", out, masses, x1, x2, n_out=16).T.reshape(N, 4, 4)
    np.testing.assert_allclose(back, EVENT, atol=1e-9)
