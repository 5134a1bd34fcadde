"""Chili: conservation, mass shells, cuts respected, round trip, volume, corners."""

import itertools
import math

import numpy as np
import pytest
from op_calls import call_op

pytestmark = pytest.mark.usefixtures("where")

ENERGY = 13000.0


def forward(n, r, masses, pt_min, y_max):
    out = call_op("chili_forward", r, ENERGY, [masses], [[pt_min] * n], [[y_max] * n], n_out=4 * n + 9)
    return out[:-1].T.reshape(-1, n + 2, 4), out[-1]


@pytest.mark.parametrize("pt_min", [0.0, 20.0])
@pytest.mark.parametrize("masses", [(0.0, 0.0), (173.0, 173.0, 0.0), (80.0, 0.0, 0.0, 91.0)], ids=str)
def test_events_and_the_way_back(masses, pt_min):
    n = len(masses)
    r = np.random.default_rng(n).random((500, 3 * n - 2))
    p, det = forward(n, r, masses, pt_min, 5.0)
    assert np.isfinite(p).all()
    assert np.isfinite(det).all()
    good = det > 0
    assert good.mean() > 0.5
    p, det, r = p[good], det[good], r[good]
    np.testing.assert_allclose(p[:, 2:].sum(axis=1), p[:, :2].sum(axis=1), atol=1e-8)
    mass_2 = (p[:, 2:, 0] - p[:, 2:, 3]) * (p[:, 2:, 0] + p[:, 2:, 3]) - p[:, 2:, 1] ** 2 - p[:, 2:, 2] ** 2
    assert (np.abs(mass_2 - np.square(masses)) <= 1e-13 * p[:, 2:, 0] ** 2 + 1e-9).all()
    assert (p[:, :2, 0] < ENERGY / 2).all()
    assert (np.hypot(p[:, 2:-1, 1], p[:, 2:-1, 2]) >= pt_min * (1 - 1e-14)).all()
    back = call_op("chili_inverse", p, ENERGY, [masses], [[pt_min] * n], [[5.0] * n], n_out=3 * n - 1)
    assert np.quantile(np.abs(back[:-1].T - r), 0.999) <= 1e-9
    np.testing.assert_allclose(det * back[-1], 1, rtol=1e-6)


@pytest.mark.parametrize("n", [2, 3])
def test_volume(n):
    size = 200_000
    _, det = forward(n, np.random.default_rng(n).random((size, 3 * n - 2)), [0.0] * n, 0.0, 99.0)
    exact = (math.pi / 2) ** (n - 1) * ENERGY ** (2 * n - 4) / (math.factorial(n - 1) * math.factorial(n - 2))
    exact /= (n - 1) ** 2
    assert abs(det.mean() - exact) <= 4 * det.std() / math.sqrt(size)


@pytest.mark.parametrize("pt_min", [0.0, 20.0])
@pytest.mark.parametrize("masses", [(0.0, 0.0), (173.0, 1e-3), (7000.0, 7000.0)], ids=str)
def test_corners_are_finite(masses, pt_min):
    edges = [0.0, np.nextafter(0.0, 1.0), 0.5, np.nextafter(1.0, 0.0), 1.0, np.nan]
    r = np.array(list(itertools.product(edges, repeat=4)))
    p, det = forward(2, r, masses, pt_min, 5.0)
    assert np.isfinite(p).all()
    assert np.isfinite(det).all()
    assert (det >= 0).all()
    assert (det[np.isnan(r).any(axis=1)] == 0).all()
