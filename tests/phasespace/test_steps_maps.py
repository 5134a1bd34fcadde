"""One-dimensional maps and luminosity: 50 digits, round trips, ends of the range, closed ranges."""

import itertools
import math

import numpy as np
import pytest
from op_calls import call_op

pytestmark = pytest.mark.usefixtures("where")

EDGES = [0.0, np.nextafter(0.0, 1.0), 2.0**-53, 0.5, np.nextafter(1.0, 0.0), 1.0]
R = np.concatenate([EDGES, np.random.default_rng(0).random(500)])
RANGES = [(0.0, 1.7e8), (30.0**2, 13000.0**2), (91.0**2 - 5, 91.0**2 + 5), (1e4, 1e4 + 1e-9), (9e3, 2e4), (1e-6, 1e-3)]
MAPS = {
    "uniform_invariant": (),
    "stable_invariant": (0.0,),
    "stable_invariant_nu 0.8": (0.0, 0.8),
    "stable_invariant_nu 0.3": (0.0, 0.3),
    "stable_invariant_nu 1": (0.0, 1.0),
    "stable_invariant_nu 2.5": (0.0, 2.5),
    "stable_invariant_nu -1": (0.0, -1.0),
    "breit_wigner_invariant": (91.19, 2.5),
}


def exact_map(name, parameters, r, s_min, s_max):
    """Return s and ds/dr with 50 digits from the textbook forms."""
    from mpmath import atan, exp, log, mp, mpf, tan

    mp.dps = 50
    r, low, high = mpf(r), mpf(s_min), mpf(s_max)
    if name == "uniform_invariant":
        return low + r * (high - low), high - low
    if name == "breit_wigner_invariant":
        m_2, scale = mpf(parameters[0]) ** 2, mpf(parameters[0]) * mpf(parameters[1])
        a, b = atan((low - m_2) / scale), atan((high - m_2) / scale)
        y = a + (b - a) * r
        return m_2 + scale * tan(y), (b - a) * scale * (1 + tan(y) ** 2)
    nu = mpf(parameters[1]) if len(parameters) == 2 else mpf(1)
    offset = mpf(0.01)
    q, p = low + offset, high + offset
    if nu == 1:
        x = exp(r * log(p) + (1 - r) * log(q))
        return x - offset, x * log(p / q)
    x = (r * p ** (1 - nu) + (1 - r) * q ** (1 - nu)) ** (1 / (1 - nu))
    return x - offset, (p ** (1 - nu) - q ** (1 - nu)) * x**nu / (1 - nu)


@pytest.mark.needs("mpmath")
@pytest.mark.parametrize("limits", RANGES, ids=str)
@pytest.mark.parametrize("case", MAPS)
def test_maps_keep_the_digits_of_their_inputs(case, limits):
    name, parameters = case.split()[0], MAPS[case]
    points = R[2:26]
    s, det = call_op(name, points, *parameters, *limits)
    for i, r in enumerate(points):
        exact = exact_map(name, parameters, r, *limits)
        moved = [0, 0]
        # A change of the last digit of any number that goes in.
        for k, x in enumerate((r, *parameters, *limits)):
            other = [r, *parameters, *limits]
            other[k] = math.nextafter(x, 0.0 if k == 0 or k == len(other) - 1 else math.inf)
            result = exact_map(name, other[1:-2], other[0], *other[-2:])
            moved = [max(m, abs(a - b)) for m, a, b in zip(moved, result, exact, strict=True)]
        for got, want, change in zip((s[i], det[i]), exact, moved, strict=True):
            assert abs(got - want) <= 50 * (change + 2.0**-53 * abs(want)), (r, got, want)


@pytest.mark.parametrize("limits", RANGES, ids=str)
@pytest.mark.parametrize("case", MAPS)
def test_maps_stay_in_range_and_come_back(case, limits):
    name, parameters = case.split()[0], MAPS[case]
    s, det = call_op(name, R, *parameters, *limits)
    assert np.isfinite(det).all()
    assert (det > 0).all()
    low, high = limits
    slack = 4e-16 * high
    assert (s >= low - slack).all()
    assert (s <= high + slack).all()
    assert s[0] == low
    assert abs(s[5] - high) <= slack
    r, inverse = call_op(name + "_inverse", s, *parameters, *limits)
    # s has the digits of s_max only: what a rounding of it does to r.
    blur = 8 * 2.0**-53 * np.maximum(np.abs(s), high * 1e-3) / det
    assert (np.abs(r - R) <= 1e-13 + blur).all()
    spread = call_op(name, np.clip(r + blur, 0, 1), *parameters, *limits)[1]
    np.testing.assert_allclose(det * inverse, 1, atol=1e-11 + 20 * np.abs(spread / det - 1).max())


def test_the_map_for_nu_four_fifths_is_the_general_one():
    for limits in RANGES:
        np.testing.assert_allclose(
            call_op("stable_invariant_fifth", R, 0.0, *limits),
            call_op("stable_invariant_nu", R, 0.0, 0.8, *limits),
            rtol=3e-14,
            atol=1e-15 * limits[1],
        )


@pytest.mark.parametrize("case", MAPS)
def test_closed_ranges_and_faulty_numbers_have_no_weight(case):
    name, parameters = case.split()[0], MAPS[case]
    for low, high in [(5.0, 5.0), (5.0, 4.0)]:
        assert call_op(name, R, *parameters, low, high)[1].max() == 0
        assert np.isfinite(call_op(name + "_inverse", np.array([4.5, 5.0]), *parameters, low, high)).all()
        assert call_op(name + "_inverse", np.array([5.0]), *parameters, low, high)[1] == 0
    bad = np.array([np.nan, -1e-300, 1.0 + 2.0**-52, np.inf])
    s, det = call_op(name, bad, *parameters, 1.0, 2.0)
    assert np.isfinite(s).all()
    assert (det == 0).all()


def test_massive_propagators_keep_the_pole_below_the_range():
    s, det = call_op("stable_invariant_nu", R, 50.0, 0.8, 10.0, 1e4)
    assert np.isfinite(det).all()
    assert (s >= 10).all()


def test_luminosity_round_trip_and_volume():
    s_lab = 13000.0**2
    r, s_hat = np.array(list(itertools.product(EDGES, s_lab * np.array([1e-9, 1e-4, 0.3, 1 - 1e-9])))).T
    x1, x2, det = call_op("r_to_x1x2", r, s_hat, s_lab)
    np.testing.assert_allclose(x1 * x2 * s_lab, s_hat, rtol=5e-15)
    np.testing.assert_allclose(det, -np.log(s_hat / s_lab) / s_lab, rtol=1e-7)
    back, inverse = call_op("x1x2_to_r", x1, x2, s_lab)
    np.testing.assert_allclose(back, r, atol=1e-6)  # x is known to 1e-16 only, tau = 1 - 1e-9
    np.testing.assert_allclose(det * inverse, 1, rtol=1e-6)
    assert call_op("r_to_x1x2", 0.3, 2 * s_lab, s_lab)[2] == 0
    assert np.isfinite(call_op("x1x2_to_r", [1.0, 0.0, 2.0], [1.0, 0.5, 0.5], s_lab)).all()
    # x1 at the ends of the range is 1 and tau.
    assert call_op("r_to_x1x2", 0.0, 1e4, s_lab)[0] == 1


def test_cross_section_prefactor():
    got = call_op("diff_cross_section", [0.1, 0.0], 0.2, 0.5, 0.6, 7.0, 100.0)[0]
    assert got[0] == pytest.approx(0.38937937217186e9 * 7 * 0.3 / (2 * 100 * 0.02**2), rel=1e-15)
    assert got[1] == 0
