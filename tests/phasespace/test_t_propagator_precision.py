"""Precision: the error of a result against 60 digits, in units of what a change of the inputs' last digit does.

The rule: error <= 50 (change of the result when any one input moves by one unit in the last place + 2^-53 of its scale)
at 99 % of the points. The scale of det is det, that of a momentum component the particle's own energy.
"""

import functools
import math

import numpy as np
import pytest
from chain_points import KINEMATICS, ORDERS, randoms

from madspace import TPropagatorMapping

pytestmark = pytest.mark.needs("mpmath")

N_POINTS = 12
LIMIT = 50


def neighbour(x, upper):
    return math.nextafter(x, math.inf if x < upper else -math.inf)


@functools.cache
def reference(order, power, point, n_randoms):
    """Momenta and det of one event to 60 digits, and what moves them most: (momenta, det, moves, move of det)."""
    from chain_reference import t_chain
    from mpmath import mpf

    def evaluate(x):
        return t_chain(order, power, x[:n_randoms], x[n_randoms], x[n_randoms + 1 :])

    momenta, exact = evaluate(point)
    moved_p = [[mpf(0)] * 4 for _ in momenta]
    moved_det = mpf(0)
    for k, x in enumerate(point):
        # A mass that grows at threshold would close the event.
        other = list(point)
        other[k] = neighbour(x, 1.0) if k < n_randoms else math.nextafter(x, math.inf if k == n_randoms else 0.0)
        q, d = evaluate(other)
        moved_det = max(moved_det, abs(d - exact))
        rows = zip(moved_p, momenta, q, strict=True)
        moved_p = [[max(m, abs(a - b)) for m, a, b in zip(*row, strict=True)] for row in rows]
    return momenta, exact, moved_p, moved_det


@pytest.fixture(scope="module", autouse=True)
def references():
    """Keep the references for all places, and no longer."""
    yield
    reference.cache_clear()


def excess(order, power, point, n_randoms, p, det):
    """Errors of one event in units of the rule: (momenta, det)."""
    from mpmath import mpf

    momenta, exact, moved_p, moved_det = reference(tuple(order), power, tuple(point), n_randoms)
    unit = mpf(2) ** -53
    det_error = abs(mpf(float(det)) - exact) / (moved_det + unit * abs(exact))
    p_error = max(
        abs(mpf(float(p[i][c])) - momenta[i][c]) / (moved_p[i][c] + unit * momenta[i][0])
        for i in range(len(momenta))
        for c in range(4)
    )
    return float(p_error), float(det_error)


@pytest.mark.parametrize("power", [0.8, 0.0, 1.0, 0.6, -3.0, 4.5])
@pytest.mark.parametrize("kinematics", KINEMATICS)
@pytest.mark.parametrize("chain", ORDERS)
def test_results_keep_every_digit_that_the_inputs_have(place, chain, kinematics, power):
    order, n = ORDERS[chain]
    energy, masses = KINEMATICS[kinematics]
    r = randoms(n, N_POINTS, 17)
    p, det = place.map(TPropagatorMapping(order, power), r, [energy], masses[:n])
    errors = [
        excess(order, power, [*map(float, r[:, i]), energy, *masses[:n]], len(r), p[i], det[i]) for i in range(N_POINTS)
    ]
    # Fewer than a hundred points per case: all of them must hold.
    assert np.max(errors) <= LIMIT, f"worst errors (momenta, det): {np.max(errors, axis=0)}"
