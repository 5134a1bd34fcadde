"""The 2 -> 3 splitting: conservation, round trip, its volume, soft spectators, ends of the range."""

import math

import numpy as np
import pytest
from op_calls import call_op

pytestmark = pytest.mark.usefixtures("where")

RNG = np.random.default_rng(8)
N = 3000
PA = np.tile([500.0, 0, 0, 500.0], (N, 1))
PB = PA * [1, 1, 1, -1]


def spectator(softness):
    """Return p_12 and a massless p_3 of that share of the energy."""
    direction = RNG.normal(size=(N, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    p3 = 500.0 * softness * np.concatenate([np.ones((N, 1)), direction], axis=1)
    return PA + PB - p3, p3


def sample(p12, p3, m1, m2, power):
    r = RNG.random((2, N))
    sign = RNG.integers(0, 2, N)
    low, high = call_op("t_inv_min_max", PA, p12 - PA, m1, m2)
    t1 = low + r[0] * (high - low)
    s_low, s_high = call_op("s23_min_max", PA, p12, p3, t1, m1, m2)
    u, rest, det_s = call_op("s23_arcsine_sample", r[1], s_low, s_high, s_low, s_high, power, 0.0)
    out = call_op("two_to_three_particle_scattering", sign, PA, p12, p3, u, rest, t1, m1, m2)
    det = 2 * (high - low) * det_s * out[8]
    return r, sign, t1, (s_low, s_high), (u, rest, det_s), out[:4].T, out[4:8].T, out[8], det


@pytest.mark.parametrize("power", [0.0, 0.8])
@pytest.mark.parametrize(("m1", "m2"), [(0.0, 0.0), (173.0, 4.7), (20.0, 173.0)])
def test_round_trip(m1, m2, power):
    p12, p3 = spectator(0.3)
    r, sign, t1, (s_low, s_high), (u, rest, det_s), p1, p2, det, _ = sample(p12, p3, m1, m2, power)
    np.testing.assert_allclose(p1 + p2, p12, atol=1e-12)
    for p, m in ((p1, m1), (p2, m2)):
        np.testing.assert_allclose(p[:, 0] ** 2 - (p[:, 1:] ** 2).sum(axis=1), m**2, atol=2e-8)
    s23, low, high = call_op("s23_value_and_min_max", PA, p3, t1, p1, p2)
    np.testing.assert_allclose(low, s_low, atol=1e-6)
    np.testing.assert_allclose(high, s_high, atol=1e-6)
    np.testing.assert_allclose(s23, s_low + u * (s_high - s_low), atol=1e-6)
    back = call_op("two_to_three_particle_scattering_inverse", p1, p2, p3, PA, p12, t1)
    assert (back[2] != sign).mean() <= 0.001
    np.testing.assert_allclose(back[3:5], [u, rest], atol=1e-9)
    assert np.quantile(np.abs(det * back[5] - 1), 0.99) <= 1e-6
    again, inverse = call_op("s23_arcsine_sample_inverse", u, rest, s_low, s_high, s_low, s_high, power, 0.0)
    assert np.quantile(np.abs(again - r[1]), 0.999) <= 1e-8
    assert np.quantile(np.abs(det_s * inverse - 1), 0.99) <= 1e-8


@pytest.mark.parametrize("softness", [0.3, 1e-3, 1e-8, 1e-14])
def test_volume_is_that_of_two_bodies(softness):
    p12, p3 = spectator(softness)
    *_, det = sample(p12, p3, 50.0, 0.0, 0.0)  # m_2 > 0 would hide a soft s_23 - m_2^2
    s = p12[:, 0] ** 2 - (p12[:, 1:] ** 2).sum(axis=1)
    volume = math.pi * (s - 50.0**2) / (2 * s)
    # Flat in t_1 and in phi: every point has the volume as its weight.
    np.testing.assert_allclose(det, volume, rtol=1e-7)


def test_ends_of_the_range_are_finite():
    p12, p3 = spectator(0.1)
    for u, rest in ((0.0, 1.0), (1.0, 0.0), (np.nan, 0.5)):
        out = call_op("two_to_three_particle_scattering", 0.0, PA, p12, p3, u, rest, 1e4, 10.0, 10.0)
        assert np.isfinite(out).all()
        assert (out[8] >= 0).all()
    r = np.array([0.0, np.nextafter(0.0, 1.0), 0.5, np.nextafter(1.0, 0.0), 1.0, np.nan])
    for limits in ((1.0, 9.0, 1.0, 9.0), (2.0, 3.0, 1.0, 9.0), (4.0, 4.0, 4.0, 4.0), (9.0, 1.0, 9.0, 1.0)):
        for power in (0.0, 0.8, 1.0):
            out = call_op("s23_arcsine_sample", r, *limits, power, 0.0)
            assert np.isfinite(out).all()
            assert (out >= 0).all()
            assert np.isfinite(call_op("s23_arcsine_sample_inverse", out[0], out[1], *limits, power, 0.0)).all()
