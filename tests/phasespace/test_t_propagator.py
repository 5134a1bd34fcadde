"""TPropagatorMapping: properties that every correct t-channel map has, and parity with upstream's arrays."""

from pathlib import Path

import numpy as np
import pytest
from chain_points import KINEMATICS, ORDERS, POWERS, mass_2, randoms, volume

from madspace import TPropagatorMapping

DATA = Path(__file__).resolve().parents[1] / "data"


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("kinematics", KINEMATICS)
@pytest.mark.parametrize("chain", ORDERS)
def test_momenta_conserve_and_are_on_shell(place, chain, kinematics, power):
    order, n = ORDERS[chain]
    energy, masses = KINEMATICS[kinematics]
    masses = masses[:n]
    p, det = place.map(TPropagatorMapping(order, power), randoms(n, 1000, 11), np.full(1000, energy), masses)
    assert np.isfinite(p).all()
    assert (det > 0).all()
    np.testing.assert_array_equal(p[:, 0], [[energy / 2, 0, 0, energy / 2]] * 1000)
    np.testing.assert_array_equal(p[:, 1], [[energy / 2, 0, 0, -energy / 2]] * 1000)
    np.testing.assert_allclose(p[:, 2:].sum(axis=1), [[energy, 0, 0, 0]] * 1000, rtol=0, atol=4e-15 * energy)
    for i, mass in enumerate(masses):
        assert np.abs(mass_2(p[:, 2 + i]) - mass**2).max() <= 1e-14 * energy**2
        assert (p[:, 2 + i, 0] >= mass * (1 - 1e-14)).all()


@pytest.mark.parametrize("power", [0.0, 0.8, 1.0, 0.6])
@pytest.mark.parametrize("chain", ORDERS)
def test_mean_of_det_is_the_phase_space_volume(place, chain, power):
    order, n = ORDERS[chain]
    size, energy = 200_000, 30.0
    _, det = place.map(TPropagatorMapping(order, power), randoms(n, size, 5), [energy], [0.0] * n)
    error = det.std() / np.sqrt(size)
    assert abs(det.mean() - volume(n, energy)) <= 4 * error + 1e-12 * volume(n, energy)


@pytest.mark.parametrize("masses", [(173.0, 80.0), (1e-3, 400.0), (0.0, 91.0)], ids=str)
def test_flat_two_body_det_is_constant(place, masses):
    energy = 500.0
    _, det = place.map(TPropagatorMapping([0], 0.0), randoms(2, 100, 3), np.full(100, energy), masses)
    m1, m2 = masses
    root = np.sqrt((energy - m1 - m2) * (energy + m1 + m2) * (energy - m1 + m2) * (energy + m1 - m2))
    np.testing.assert_allclose(det, np.pi * root / (2 * energy**2), rtol=5e-15)


@pytest.mark.parametrize("power", [0.8, 1.0])
def test_virtuality_is_distributed_as_the_power_says(place, power):
    """In the variable that the map makes uniform, the quantiles of |t| are those of the random number."""
    energy, size = 100.0, 20_000
    r = randoms(2, size, 8)
    p, _ = place.map(TPropagatorMapping([0], power), r, [energy], [0.0, 0.0])
    q = -mass_2(p[:, 0] - p[:, 2]) + 1e-2
    low, high = 1e-2, energy**2 + 1e-2
    scale = np.log if power == 1.0 else lambda x: x**0.2
    u = (scale(q) - scale(low)) / (scale(high) - scale(low))
    np.testing.assert_allclose(u, r[1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("sample", ["massless", "ttbar"])
@pytest.mark.parametrize("chain", ORDERS)
def test_agrees_with_upstream_arrays(place, chain, sample):
    """Upstream loses digits in |t|_min: 2e-5 of det and 1e-7 of the energy cover what its formulas can keep."""
    order, n = ORDERS[chain]
    data = np.load(DATA / f"tpropagator_{n}body_{sample}.npz")
    stem = "o" + "".join(map(str, order))
    powers = [key.split("_p")[1] for key in data.files if key.startswith(f"det__{stem}_")]
    assert "0.8" in powers
    for power in powers:
        p, det = place.map(TPropagatorMapping(order, float(power)), data["r"].T, data["e_cm"], data["masses"].T)
        np.testing.assert_allclose(det, data[f"det__{stem}_p{power}"], rtol=2e-5)
        deviation = np.abs(p - data[f"p__{stem}_p{power}"]).max(axis=(1, 2))
        assert (deviation <= 1e-7 * data["e_cm"]).all()


def test_generic_power_agrees_with_the_special_ones(place):
    r = randoms(3, 500, 2)
    for power in (0.0, 0.8, 1.0):
        exact = place.map(TPropagatorMapping([0, 1], power), r, [700.0], [173.0, 5.0, 0.0])
        near = place.map(TPropagatorMapping([0, 1], np.nextafter(power, 2.0)), r, [700.0], [173.0, 5.0, 0.0])
        np.testing.assert_allclose(near[0], exact[0], rtol=0, atol=1e-12 * 700)
        np.testing.assert_allclose(near[1], exact[1], rtol=1e-12)


def test_random_dim_and_names():
    mapping = TPropagatorMapping([1, 0])
    assert mapping.random_dim() == 5
    assert TPropagatorMapping([0]).random_dim() == 2
    result = mapping.map_forward([np.full(3, 0.5)] * 5, [np.full(3, 100.0), *[np.zeros(3)] * 3])
    assert result._fields == ("momentum0", "momentum1", "momentum2", "momentum3", "momentum4", "det")
    assert repr(mapping) == "TPropagatorMapping([1, 0], 0.8)"


@pytest.mark.parametrize("order", [[], [1], [0, 0], [0, 2], [-1, 0], [1, 0, 2]], ids=str)
def test_bad_order_is_refused(order):
    with pytest.raises(ValueError, match="integration_order"):
        TPropagatorMapping(order)


@pytest.mark.parametrize("power", [np.nan, np.inf, -3.1, 5.1])
def test_bad_power_is_refused(power):
    with pytest.raises(ValueError, match="invariant_power"):
        TPropagatorMapping([0], power)


@pytest.mark.parametrize("power", ["0.8", "abc", None, 1j], ids=repr)
def test_a_power_that_is_no_number_is_refused(power):
    with pytest.raises(TypeError, match="invariant_power: expected a number, got"):
        TPropagatorMapping([0], power)
