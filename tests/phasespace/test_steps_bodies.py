"""Decays, scattering, FastRambo: conservation, mass shells, round trips, volumes, thresholds, 50 digits."""

import itertools
import math

import numpy as np
import pytest
from op_calls import call_op

pytestmark = pytest.mark.usefixtures("where")

RNG = np.random.default_rng(11)
N = 400
EDGES = [0.0, np.nextafter(0.0, 1.0), 0.5, np.nextafter(1.0, 0.0), 1.0]
MASSES = {
    "massless": (500.0, 0.0, 0.0, 0.0),
    "top pair": (500.0, 173.0, 173.0, 0.0),
    "unequal": (13000.0, 1e-3, 173.0, 80.0),
    "threshold": (300.0 + 1e-9, 100.0, 150.0, 50.0),
}


def vector(mass, momentum):
    """Return momenta of that mass, (batch, 4)."""
    p = RNG.normal(size=(N, 3)) * momentum
    return np.concatenate([np.sqrt(mass**2 + (p**2).sum(axis=1, keepdims=True)), p], axis=1)


def mass_2(p):
    return (p[:, 0] - p[:, 3]) * (p[:, 0] + p[:, 3]) - p[:, 1] ** 2 - p[:, 2] ** 2


def split(result, n):
    """Return n momenta (batch, 4) each and the rest."""
    return [result[4 * i : 4 * i + 4].T for i in range(n)], result[4 * n :]


def check(momenta, masses, total, tolerance=4e-15):
    scale = total[:, 0].max()
    np.testing.assert_allclose(sum(momenta) - total, 0, atol=tolerance * scale)
    for p, m in zip(momenta, masses, strict=True):
        assert np.abs(mass_2(p) - m**2).max() <= 10 * tolerance * scale**2


@pytest.mark.parametrize("case", MASSES)
def test_two_body_decay(case):
    m0, m1, m2, m3 = MASSES[case]
    m2 = m2 + m3
    r = RNG.random((2, N))
    momenta, (det,) = split(call_op("two_body_decay_com", *r, m0, m1, m2), 2)
    check(momenta, (m1, m2), np.tile([m0, 0, 0, 0], (N, 1)))
    np.testing.assert_allclose(
        det, math.pi / (2 * m0**2) * math.sqrt(max((m0**2 - m1**2 - m2**2) ** 2 - (2 * m1 * m2) ** 2, 0)), rtol=1e-5
    )
    back = call_op("two_body_decay_com_inverse", *momenta)
    if case != "threshold":
        np.testing.assert_allclose(back[:2], r, atol=1e-14)
        np.testing.assert_allclose(det * back[5], 1, rtol=1e-12)
    np.testing.assert_allclose(back[2], m0, rtol=1e-14)
    p0 = vector(m0, 700.0)
    momenta, (det,) = split(call_op("two_body_decay", *r, m0, m1, m2, p0), 2)
    check(momenta, (m1, m2), p0)
    back = call_op("two_body_decay_inverse", *momenta)
    if case != "threshold":
        np.testing.assert_allclose(back[:2], r, atol=1e-10)
        np.testing.assert_allclose(det * back[9], 1, rtol=1e-10)
    np.testing.assert_allclose(back[5:9].T, p0, atol=1e-14 * p0[:, 0].max())


@pytest.mark.needs("mpmath")
@pytest.mark.parametrize(
    "masses", [(500.0, 173.0, 327.0 - 1e-12), (1e4, 1e-4, 1e4 - 1.0), (91.0, 0.0, 0.0), (9.0, 4.0, 1.0)]
)
def test_decay_momentum_keeps_its_digits_at_threshold(masses):
    from mpmath import mp, mpf, pi, sqrt

    mp.dps = 50

    def volume(m0, m1, m2):
        m0, m1, m2 = mpf(m0), mpf(m1), mpf(m2)
        return pi * sqrt((m0 - m1 - m2) * (m0 + m1 + m2) * (m0 - m1 + m2) * (m0 + m1 - m2)) / (2 * m0**2)

    exact = volume(*masses)
    moved = max(
        abs(
            volume(
                *(math.nextafter(x, math.inf if k == i == 0 else x if k != i else 0.0) for k, x in enumerate(masses))
            )
            - exact
        )
        for i in range(3)
    )
    got = call_op("two_body_decay_com", 0.3, 0.3, *masses)[8, 0]
    assert abs(got - exact) <= 50 * (moved + 2.0**-53 * exact)


@pytest.mark.parametrize("case", MASSES)
def test_three_body_decay(case):
    m0, *m = MASSES[case]
    r = RNG.random((5, N))
    momenta, (det,) = split(call_op("three_body_decay_com", *r, m0, *m), 3)
    check(momenta, m, np.tile([m0, 0, 0, 0], (N, 1)))
    assert (det > 0).all()
    if case != "threshold":
        back = call_op("three_body_decay_com_inverse", *momenta)
        np.testing.assert_allclose(back[:5], r, atol=1e-6)
        np.testing.assert_allclose(back[:5][:, : N // 2], r[:, : N // 2], atol=1e-6)
        np.testing.assert_allclose(det * back[9], 1, rtol=1e-8)
    p0 = vector(m0, 700.0)
    momenta, (det,) = split(call_op("three_body_decay", *r, m0, *m, p0), 3)
    check(momenta, m, p0)


def test_three_body_volume():
    n = 200_000
    det = call_op("three_body_decay_com", *np.random.default_rng(2).random((5, n)), 100.0, 0.0, 0.0, 0.0)[12]
    exact = (math.pi / 2) ** 2 * 100.0**2 / 2
    assert abs(det.mean() - exact) <= 4 * det.std() / math.sqrt(n)


CORNERS = {
    "two_body_decay_com": (2, ()),
    "two_body_decay": (2, (np.array([[700.0, 0.0, 0.0, math.sqrt(700.0**2 - 500.0**2)]]),)),
    "three_body_decay_com": (5, (0.0,)),
    "three_body_decay": (5, (0.0, np.array([[700.0, 0.0, 0.0, -math.sqrt(700.0**2 - 500.0**2)]]))),
}


@pytest.mark.parametrize(
    "masses", [(0.0, 0.0), (100.0, 0.0), (250.0, 250.0), (300.0, 250.0), (np.nan, 1.0), (-1.0, 1.0)]
)
@pytest.mark.parametrize("name", CORNERS)
def test_corners_are_finite_and_closed_points_have_no_weight(name, masses):
    n_random, rest = CORNERS[name]
    r = np.array(list(itertools.product(EDGES, repeat=n_random))).T
    out = call_op(name, *r, 500.0, *masses, *rest)
    assert np.isfinite(out).all()
    assert (out[-1] >= 0).all()
    assert (out[0] >= 0).all()
    if not sum(masses) < 500 or min(masses) < 0:
        assert (out[-1] == 0).all()
    assert (call_op(name, *np.full((n_random, 1), np.nan), 500.0, 1.0, 1.0, *rest)[-1] == 0).all()


@pytest.mark.parametrize("case", MASSES)
@pytest.mark.parametrize("com", [True, False], ids=["com", "lab"])
def test_scattering(case, com):
    energy, m1, m2, m3 = MASSES[case]
    m2 = m2 + m3
    suffix = "_com" if com else ""
    if com:
        pa = np.tile([energy / 2, 0, 0, -energy / 2], (N, 1))
        pb = pa * [1, 1, 1, -1]
    else:
        pa, pb = vector(0.0, energy), vector(0.0, energy)
        keep = mass_2(pa + pb) > energy**2
        pa, pb = pa[keep], pb[keep]
    r = RNG.random((2, len(pa)))
    low, high = call_op("t_inv_min_max", pa, pb, m1, m2)
    t = low + r[1] * (high - low)
    momenta, (det,) = split(call_op("two_to_two_particle_scattering" + suffix, r[0], pa, pb, t, m1, m2), 2)
    check(momenta, (m1, m2), pa + pb)
    s = mass_2(pa + pb)
    np.testing.assert_allclose(det, math.pi / (2 * s), rtol=1e-9)
    back_t, back_low, back_high = call_op("t_inv_value_and_min_max", pa, pb, *momenta)
    scale = (pa[:, 0] + pb[:, 0]) ** 2
    np.testing.assert_allclose(back_t / scale, t / scale, atol=1e-13)
    if case != "threshold":
        np.testing.assert_allclose(back_low / scale, low / scale, atol=1e-11)
        np.testing.assert_allclose(back_high / scale, high / scale, atol=1e-11)
        phi, _, _, inverse = call_op(f"two_to_two_particle_scattering{suffix}_inverse", *momenta, pa, pb)
        inside = np.abs(r[1] - 0.5) < 0.4
        np.testing.assert_allclose(phi[inside], r[0][inside], atol=1e-9)
        np.testing.assert_allclose(det * inverse, 1, rtol=1e-9)


@pytest.mark.parametrize("n", [3, 4, 5, 8, 12])
@pytest.mark.parametrize("massive", [True, False], ids=["massive", "massless"])
def test_fast_rambo(n, massive):
    energy = 1000.0
    masses = 60.0 * RNG.random((N, n)) if massive else np.zeros((N, n))
    extra = (masses,) if massive else ()
    name = "fast_rambo_massive" if massive else "fast_rambo_massless"
    r = RNG.random((3 * n - 4, N))
    momenta, (det,) = split(call_op(name + "_com", *r, energy, *extra, n_out=4 * n + 1), n)
    check(momenta, masses.T, np.tile([energy, 0, 0, 0], (N, 1)), 2e-14)
    assert (det > 0).all()
    p0 = vector(energy, 300.0)
    momenta, (det_lab,) = split(call_op(name, *r, energy, *extra, p0, n_out=4 * n + 1), n)
    check(momenta, masses.T, p0, 2e-14)
    np.testing.assert_array_equal(det_lab, det)
    back = call_op(name + "_inverse", *momenta, energy, *extra, n_out=3 * n + 1)
    worst = np.abs(back[: 3 * n - 4] - r).max(axis=0)
    assert np.quantile(worst, 0.99) <= 1e-8
    assert np.quantile(np.abs(det * back[-1] - 1), 0.99) <= 1e-8
    np.testing.assert_allclose(back[3 * n - 4 : 3 * n].T, p0, atol=1e-11)


@pytest.mark.parametrize("n", [3, 4, 5, 7])
def test_fast_rambo_volume(n):
    size = 50_000
    det = call_op(
        "fast_rambo_massless_com", *np.random.default_rng(n).random((3 * n - 4, size)), 10.0, n_out=4 * n + 1
    )[-1]
    exact = (math.pi / 2) ** (n - 1) * 100.0 ** (n - 2) / (math.factorial(n - 1) * math.factorial(n - 2))
    assert abs(det.mean() / exact - 1) <= 4 * det.std() / exact / math.sqrt(size) + 1e-13
    assert det.std() / exact < 0.2


@pytest.mark.parametrize("masses", [(0.0, 0.0, 0.0), (1.0, 2.0, 3.0), (0.0, 5.0, 1.0), (5.0, 5.0, 5.0)], ids=str)
def test_fast_rambo_corners(masses):
    r = np.array(list(itertools.product(EDGES, repeat=5))).T
    out = call_op("fast_rambo_massive_com", *r, 10.0, *masses, n_out=13)
    assert np.isfinite(out).all()
    assert (out[-1] >= 0).all()
    if sum(masses) >= 10:
        assert (out[-1] == 0).all()
