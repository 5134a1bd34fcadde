"""Double-t scattering and limits of |t| with floors: round trips, volume, floors respected."""

import math

import numpy as np
import pytest
from op_calls import call_op

pytestmark = pytest.mark.usefixtures("where")

RNG = np.random.default_rng(4)
N = 2000
ENERGY = 1000.0
PA = np.tile([ENERGY / 2, 0, 0, ENERGY / 2], (N, 1))
PB = PA * [1, 1, 1, -1]
S = ENERGY**2


def sample(m1, least, e1, e2):
    r = RNG.random((3, N))
    low, high = call_op("t1_inv_min_max_doublet", PA, PB, m1, least, e1, e2)
    t1 = low + r[1] * (high - low)
    low_2, high_2 = call_op("t2_inv_min_max_doublet", PA, PB, m1, least, t1, e1, e2)
    t2 = low_2 + r[2] * (high_2 - low_2)
    out = call_op("double_t_scattering", r[0], PA, PB, t1, t2, m1)
    return r, (low, t1, high), (low_2, t2, high_2), out[:4].T, out[4:8].T, out[8]


@pytest.mark.parametrize(("m1", "least"), [(0.0, 0.0), (173.0, 120.0), (1e-3, 500.0)])
def test_double_t_round_trip(m1, least):
    r, t1, t2, p1, p2, det = sample(m1, least, 0.0, 0.0)
    np.testing.assert_allclose(p1 + p2, PA + PB, atol=1e-12)
    mass_2 = p1[:, 0] ** 2 - (p1[:, 1:] ** 2).sum(axis=1)
    np.testing.assert_allclose(mass_2, m1**2, atol=1e-8)
    recoil_2 = p2[:, 0] ** 2 - (p2[:, 1:] ** 2).sum(axis=1)
    assert (recoil_2 >= least**2 - 1e-6).all()
    phi, inverse = call_op("double_t_scattering_inverse", p1, p2, PA, PB)
    np.testing.assert_allclose(phi, r[0], atol=1e-7)
    np.testing.assert_allclose(det * inverse, 1, rtol=1e-12)
    np.testing.assert_allclose(det, math.pi / (2 * S), rtol=1e-13)
    back = call_op("t1_inv_value_and_min_max_doublet", PA, PB, p1, m1, least, 0.0, 0.0)
    np.testing.assert_allclose(back, [t1[1], t1[0], t1[2]], atol=1e-8)
    back = call_op("t2_inv_value_and_min_max_doublet", PA, PB, p1, m1, least, t1[1], 0.0, 0.0)
    np.testing.assert_allclose(back, [t2[1], t2[0], t2[2]], atol=1e-8)


def test_double_t_volume():
    # Massless: the integral over the recoil mass of the two-body volume, pi/(2 s) (s - M^2) dM^2.
    _, t1, t2, _, _, det = sample(0.0, 0.0, 0.0, 0.0)
    weight = det * (t1[2] - t1[0]) * (t2[2] - t2[0])
    assert abs(weight.mean() - math.pi * S / 4) <= 4 * weight.std() / math.sqrt(N)


def test_floors_narrow_the_ranges():
    _, wide_1, wide_2, *_ = sample(20.0, 30.0, 0.0, 0.0)
    _, t1, t2, p1, p2, _ = sample(20.0, 30.0, 60.0, 80.0)
    assert (t1[0] > wide_1[0]).all()
    assert (t1[2] < wide_1[2]).all()
    assert (t2[2] - t2[0]).mean() < (wide_2[2] - wide_2[0]).mean()
    transverse = np.sqrt(20.0**2 + p1[:, 1] ** 2 + p1[:, 2] ** 2)
    assert (transverse >= 60.0 - 1e-9).all()
    recoil = np.sqrt(p2[:, 0] ** 2 - p2[:, 3] ** 2)
    assert (recoil >= 80.0 - 1e-9).all()


@pytest.mark.parametrize("floors", [(0.0, 0.0), (60.0, 80.0)])
def test_floors_of_two_to_two(floors):
    low, high = call_op("t_inv_min_max", PA, PB, 20.0, 30.0)
    cut_low, cut_high = call_op("t_inv_min_max_cut", PA, PB, 20.0, 30.0, *floors)
    assert (cut_low >= low - 1e-9).all()
    assert (cut_high <= high + 1e-9).all()
    t = cut_low + RNG.random(N) * (cut_high - cut_low)
    out = call_op("two_to_two_particle_scattering_com", RNG.random(N), PA, PB, t, 20.0, 30.0)
    for p, mass, floor in [(out[:4], 20.0, floors[0]), (out[4:8], 30.0, floors[1])]:
        assert (np.sqrt(mass**2 + p[1] ** 2 + p[2] ** 2) >= floor - 1e-9).all()
    back = call_op("t_inv_value_and_min_max_cut", PA, PB, out[:4].T, out[4:8].T, *floors)
    np.testing.assert_allclose(back, [t, cut_low, cut_high], atol=1e-7)
    # Not along z: the floors do not apply.
    turned = PA[:, [0, 3, 1, 2]], PB[:, [0, 3, 1, 2]]
    np.testing.assert_allclose(
        call_op("t_inv_min_max_cut", *turned, 20.0, 30.0, *floors), [low, high], rtol=1e-12, atol=1e-9
    )
