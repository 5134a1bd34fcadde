"""TPropagatorMapping at the corners of its domain, outside it, and independent of how it is run."""

import itertools

import numpy as np
import pytest
from chain_points import EXTREME_POWERS, KINEMATICS, ORDERS, POWERS, mass_2, randoms
from hypothesis import given, settings
from hypothesis import strategies as st

from madspace import TPropagatorMapping, get_num_threads, set_num_threads

TINY = np.nextafter(0.0, 1.0)
CORNERS = [0.0, TINY, 2.0**-53, 0.5, np.nextafter(1.0, 0.0), 1.0]


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("kinematics", KINEMATICS)
@pytest.mark.parametrize("chain", ORDERS)
def test_corners_of_the_unit_cube_are_finite(place, chain, kinematics, power):
    order, n = ORDERS[chain]
    energy, masses = KINEMATICS[kinematics]
    r = np.array(list(itertools.product(CORNERS, repeat=3 * n - 4)), dtype=np.float64).T
    p, det = place.map(TPropagatorMapping(order, power), r, [energy], masses[:n])
    assert np.isfinite(p).all()
    assert np.isfinite(det).all()
    assert (det >= 0).all()
    np.testing.assert_allclose(p[:, 2:].sum(axis=1) - [energy, 0, 0, 0], 0, atol=1e-14 * energy)
    for i, mass in enumerate(masses[:n]):
        assert np.abs(mass_2(p[:, 2 + i]) - mass**2).max() <= 1e-13 * energy**2


@pytest.mark.parametrize("chain", ORDERS)
def test_at_threshold_everything_rests_and_the_weight_vanishes(place, chain):
    order, n = ORDERS[chain]
    masses = [4.0, 2.0, 1.0][:n]
    p, det = place.map(TPropagatorMapping(order, 0.8), randoms(n, 10, 1), [sum(masses)], masses)
    # The floor of the recoil mass leaves velocities of 1e-20.
    np.testing.assert_allclose(p[:, 2:, 1:], 0, atol=1e-15)
    np.testing.assert_allclose(p[:, 2:, 0], [masses] * 10, rtol=1e-15)
    assert (np.abs(det) <= 1e-30).all()


FAULTS = {
    "nan random": (0, np.nan),
    "random below 0": (1, -1e-300),
    "random above 1": (1, np.nextafter(1.0, 2.0)),
    "infinite random": (0, np.inf),
    "nan energy": ("energy", np.nan),
    "energy below threshold": ("energy", 346.0),
    "negative energy": ("energy", -500.0),
    "infinite energy": ("energy", np.inf),
    "zero energy": ("energy", 0.0),
    "energy below the range": ("energy", 1e-31),
    "energy above the range": ("energy", 1e31),
    "nan mass": ("mass", np.nan),
    "negative mass": ("mass", -1e-3),
    "infinite mass": ("mass", np.inf),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("chain", ORDERS)
def test_faulty_event_gets_no_weight_and_leaves_the_others_alone(place, chain, power, fault):
    order, n = ORDERS[chain]
    where, value = FAULTS[fault]
    size, bad = 70, 37
    r, energy, masses = randoms(n, size, 4), np.full(size, 500.0), [np.full(size, 173.0) for _ in range(n)]
    masses[-1][:] = 173.0 if n == 2 else 1.0
    mapping = TPropagatorMapping(order, power)
    clean = place.map(mapping, r, energy, masses)
    {"energy": energy, "mass": masses[-1]}.get(where, r[where] if isinstance(where, int) else None)[bad] = value
    p, det = place.map(mapping, r, energy, masses)
    assert det[bad] == 0
    assert np.isfinite(p).all()
    others = np.arange(size) != bad
    np.testing.assert_array_equal(p[others], clean[0][others])
    np.testing.assert_array_equal(det[others], clean[1][others])
    assert (det[others] > 0).all()


@pytest.mark.parametrize("energy", [1e-30, 1e-12, 1e12, 1e30])
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("chain", ORDERS)
def test_whole_range_of_energies_is_finite(place, chain, power, energy):
    order, n = ORDERS[chain]
    p, det = place.map(TPropagatorMapping(order, power), randoms(n, 100, 6), [energy], [0.1 * energy] * n)
    assert np.isfinite(p).all()
    assert np.isfinite(det).all()
    np.testing.assert_allclose(p[:, 2:].sum(axis=1) / energy, [[1, 0, 0, 0]] * 100, atol=1e-14)


@pytest.mark.parametrize("size", [1, 2, 31, 32, 33, 63, 64, 65, 127, 129, 1000, 2049])
@pytest.mark.parametrize("chain", ORDERS)
def test_same_bits_whatever_the_batch(place, chain, size):
    order, n = ORDERS[chain]
    mapping = TPropagatorMapping(order, 0.8)
    r = randoms(n, 4096, 12)
    whole = place.map(mapping, r, [500.0], [173.0] * (n - 1) + [0.0])
    part = place.map(mapping, r[:, :size], [500.0], [173.0] * (n - 1) + [0.0])
    np.testing.assert_array_equal(part[0], whole[0][:size])
    np.testing.assert_array_equal(part[1], whole[1][:size])


@pytest.fixture
def threads():
    """Restore the number of threads."""
    before = get_num_threads()
    yield
    set_num_threads(before)


def test_same_bits_with_any_number_of_threads(threads):
    mapping = TPropagatorMapping([0, 1])
    arrays = [*randoms(3, 50_001, 9), np.full(50_001, 900.0), *[np.full(50_001, 30.0)] * 3]
    set_num_threads(1)
    one = mapping.map_forward(arrays)
    for n in (2, 3, 7):
        set_num_threads(n)
        for a, b in zip(one, mapping.map_forward(arrays), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("power", EXTREME_POWERS)
@pytest.mark.parametrize("chain", ORDERS)
@pytest.mark.parametrize("energy", [1e-30, 1.0, 1e15, 1e30])
def test_extreme_powers_are_finite(chain, power, energy):
    order, n = ORDERS[chain]
    energy = min(energy, 1e30 if n == 2 else 1e15)  # above, det of two propagators is larger than float64 can say
    r = np.array(list(itertools.product([0.0, 0.5, 1.0], repeat=3 * n - 4))).T
    *momenta, det = TPropagatorMapping(order, power).map_forward([*r, *np.reshape([energy, *[0.0] * n], (-1, 1))])
    assert np.isfinite(momenta).all()
    assert np.isfinite(det).all()


@pytest.mark.parametrize("n", [-1, 1025, 10**12])
def test_numbers_of_threads_that_are_refused(n):
    with pytest.raises(ValueError, match=f"n: expected 0 to 1024, got {n}"):
        set_num_threads(n)


@pytest.mark.parametrize("n", ["1025", "1000000000", "1000000000000", "9" * 5000])
def test_a_huge_number_of_threads_in_the_environment(run_python, n):
    code = "import madspace\nprint(madspace.get_num_threads())"
    done = run_python(code, driver=None, env={"MADSPACE_NUM_THREADS": n}, args=("-W", "always"))
    assert (done.returncode, done.stdout) == (0, "1024\n"), done.stderr
    assert "MADSPACE_NUM_THREADS: expected 0 to 1024" in done.stderr


def test_changes_of_the_number_of_threads_make_no_new_pool(run_python):
    done = run_python(
        """
import os, numpy as np, madspace
mapping = madspace.TPropagatorMapping([0])
arrays = [*np.full((2, 20_000), 0.5), *np.full((3, 1), 10.0)]
before = len(os.listdir("/proc/self/task"))
for n in [2, 4, 3] * 20:
    madspace.set_num_threads(n)
    mapping.map_forward(arrays)
print(len(os.listdir("/proc/self/task")) - before)
""",
        driver=None,
    )
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


@pytest.mark.parametrize(
    "isa",
    [
        "base",
        pytest.param("v3", marks=pytest.mark.needs("isa_v3")),
        pytest.param("v4", marks=pytest.mark.needs("isa_v4")),
    ],
)
def test_instruction_sets_agree(run_python, isa):
    code = """
import numpy as np
import madspace
r = np.random.default_rng(3).random((5, 500))
result = madspace.TPropagatorMapping([0, 1]).map_forward([*r, np.full(500, 500.0), *[np.full(500, 100.0)] * 3])
print(*(float(x).hex() for array in result for x in array.ravel()))
"""
    outputs = []
    for name in (isa, ""):
        done = run_python(code, driver=None, env={"MADSPACE_CPU_ISA": name})
        assert done.returncode == 0, done.stderr
        outputs.append(np.array([float.fromhex(x) for x in done.stdout.split()]))
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-12, atol=1e-12 * 500)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    r=st.lists(st.floats(0, 1), min_size=5, max_size=5),
    log_energy=st.floats(-3, 6),
    shares=st.lists(st.floats(0, 1), min_size=4, max_size=4),
    power=st.sampled_from(POWERS),
    order=st.sampled_from([[0, 1], [1, 0]]),
)
def test_any_open_event_conserves_momentum(r, log_energy, shares, power, order):
    energy = 10**log_energy
    masses = [energy * share / max(sum(shares), 1.0) * (1 - 1e-15) for share in shares[:3]]
    if sum(masses) > energy:
        masses = [m * (1 - 1e-14) for m in masses]
    arrays = [np.array([x]) for x in (*r, energy, *masses)]
    *momenta, det = TPropagatorMapping(order, power).map_forward(arrays)
    assert np.isfinite(det[0])
    assert det[0] >= 0
    total = sum(momenta[2:])[0]
    np.testing.assert_allclose(total / energy, [1, 0, 0, 0], atol=1e-14)
    for p, mass in zip(momenta[2:], masses, strict=True):
        assert abs(mass_2(p)[0] - mass**2) <= 1e-13 * energy**2
