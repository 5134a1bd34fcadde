"""Adjoints of single ops: against differences of the op itself, for every op that has one."""

import math

import numpy as np
import pytest
from op_calls import TABLE, call_op, columns

from madspace.phasespace.opcodes import catalogue

N = 60
E_CM = 1000.0
ADJOINTS = [name.removesuffix("_vjp") for name in TABLE if name.endswith("_vjp")]
PA = np.tile([E_CM / 2, 0, 0, E_CM / 2], (N, 1))
PB = PA * [1, 1, 1, -1]


def one(x):
    return np.full(N, float(x))


class Points:
    """Arguments of ops by name: points inside phase space, away from its edges."""

    def __init__(self):
        self.rng = np.random.default_rng(12)

    def r(self, *shape):
        return 0.05 + 0.9 * self.rng.random((N, *shape))

    def momentum(self, mass, size=200.0):
        p = self.rng.normal(scale=size, size=(N, 3))
        return np.concatenate([np.sqrt(mass**2 + (p**2).sum(1, keepdims=True)), p], axis=1)

    def legs(self):
        """Return two spacelike legs of a chain: beams that have lost a massless particle each."""
        lost = [self.momentum(0.0, 40.0) for _ in range(2)]
        return PA - lost[0], PB - lost[1]

    def split(self, m1, m2):
        """Return the momenta into which a moving particle of mass 400 decays."""
        total = self.momentum(400.0)
        out = call_op("two_body_decay", self.r(), self.r(), one(400.0), one(m1), one(m2), total)
        return out[:4].T, out[4:8].T

    def rambo(self, masses):
        n = len(masses)
        out = call_op("fast_rambo_massive_com", self.r(3 * n - 4), one(E_CM), [masses], n_out=4 * n + 1)
        return out[:-1].T.reshape(N, n, 4)

    def event(self, masses=(80.0, 20.0, 5.0)):
        """Return two beams and what they make, in the beams' frame of rest."""
        return np.concatenate([PA[:, None], PB[:, None], self.rambo(list(masses))], axis=1)

    def scattering(self, legs, m1=80.0, m2=20.0):
        low, high = call_op("t_inv_min_max", *legs, one(m1), one(m2))
        return low + self.r() * (high - low), low, high

    def scattered(self, legs, suffix=""):
        t, *_ = self.scattering(legs)
        name = "two_to_two_particle_scattering" + suffix
        out = call_op(name, self.r(), *legs, t, one(80.0), one(20.0))
        return out[:4].T, out[4:8].T

    def chain(self):
        """Return P, M, the sums of what has left and the virtualities of the legs of a chain's block."""
        lower, upper = self.momentum(0.0, 40.0), self.momentum(0.0, 40.0)
        total = PA + PB - lower - upper
        mass = np.sqrt(total[:, 0] ** 2 - (total[:, 1:] ** 2).sum(1))
        sums = lower[:, 0] - lower[:, 3], lower[:, 1], lower[:, 2], upper[:, 0] + upper[:, 3]
        a, b = (-(q[:, 0] ** 2 - (q[:, 1:] ** 2).sum(1)) for q in (PA - lower, PB - upper))
        return total, mass, sums, a, b

    def block(self, given):
        _, mass, _, a, b = self.chain()
        return *given, mass, one(80.0), one(20.0), mass - 100.0, a, b

    def cut_block(self, given):
        lost = self.momentum(0.0, 60.0)
        total = PA + PB - lost
        mass = np.sqrt(total[:, 0] ** 2 - (total[:, 1:] ** 2).sum(1))
        b = 2 * E_CM / 2 * (lost[:, 0] + lost[:, 3])
        pt_2 = total[:, 1] ** 2 + total[:, 2] ** 2
        leg = (lost[:, 0] + lost[:, 3]) * (total[:, 0] - total[:, 3])
        floors = one(math.hypot(80, 30)), one(math.hypot(20, 30))
        return *given, mass, one(80.0), one(20.0), mass - 100.0, b, one(0.7), one(2.0), pt_2, leg, *floors

    def spectator(self):
        p3 = self.momentum(5.0, 100.0)  # what rounding made of a mass of 0 is taken as 0, which differences do not see
        p12 = PA + PB - p3
        t, *_ = self.scattering((PA, p12 - PA), 80.0, 20.0)
        return p12, p3, t

    def split_off(self):
        p12, p3, t = self.spectator()
        u = self.r()
        out = call_op("two_to_three_particle_scattering", one(1), PA, p12, p3, u, 1 - u, t, one(80.0), one(20.0))
        return p12, p3, t, out[:4].T, out[4:8].T

    def double_t(self, *, inverse=False):
        low, high = call_op("t1_inv_min_max_doublet", PA, PB, one(80.0), one(50.0), one(0.0), one(0.0))
        t1 = low + self.r() * (high - low)
        low, high = call_op("t2_inv_min_max_doublet", PA, PB, one(80.0), one(50.0), t1, one(0.0), one(0.0))
        t2 = low + self.r() * (high - low)
        arguments = self.r(), PA, PB, t1, t2, one(80.0)
        if not inverse:
            return arguments
        out = call_op("double_t_scattering", *arguments)
        return out[:4].T, out[4:8].T

    def chili(self, *, inverse=False):
        masses, pt_min, y_max = np.tile([20.0, 5.0, 0.0], (N, 1)), np.full((N, 3), 10.0), np.full((N, 3), 4.0)
        arguments = self.r(7), one(13000.0), masses, pt_min, y_max
        if not inverse:
            return arguments
        out = call_op("chili_forward", *arguments, n_out=21)
        return out[:-1].T.reshape(N, 5, 4), *arguments[1:]


def make(name):
    """Return the arguments of an op."""
    p = Points()
    r, masses3 = p.r, np.tile([80.0, 20.0, 5.0], (N, 1))
    legs, beams = p.legs(), (PA, PB)
    invariant = one(10.0) * (1 + r()), one(5000.0) * (1 + r())
    inside = invariant[0] + r() * (invariant[1] - invariant[0])
    pair = p.split(80.0, 20.0)
    triple = p.rambo([80.0, 20.0, 5.0])
    decay = r(), r(), one(400.0), one(80.0), one(20.0)
    body = r(), r(), r(), r(), r(), one(400.0), one(80.0), one(20.0), one(5.0)
    floors = one(math.hypot(80, 30)), one(math.hypot(20, 30))
    if name.startswith("obs_"):
        n = len(catalogue()[name].inputs)
        return [p.event()] if name == "obs_sqrt_s" else [p.momentum(50.0) for _ in range(n)]
    if name.startswith("scale_"):
        return [p.event()]
    if name.startswith("t_chain_transfer_cut"):
        given = [r()] if name == "t_chain_transfer_cut" else [one(2e5) * r(), r()]
        return p.cut_block(given)
    if name == "t_chain_transfer_inverse":
        *start, mass, m1, m2, excess, a, b = p.block([one(2e5) * r(), r()])
        return *start, mass, m1, m2, excess, a, b, one(0.7), one(2.0)
    if name.startswith("t_chain_transfer"):
        *start, a, b = p.block([r()])
        legs = {"start": [], "a": [a], "b": [b]}.get(name.rpartition("_")[2], [a, b])
        return (*start, *legs, *([one(0.7)] if name == "t_chain_transfer" else []), one(2.0))
    if name.startswith("t_chain_scatter"):
        total, mass, sums, *_ = p.chain()
        energies = (mass**2 + 80.0**2 - 20.0**2) / (2 * mass), (mass**2 - 80.0**2 + 20.0**2) / (2 * mass)
        size = np.sqrt(energies[0] ** 2 - 80.0**2)
        c = 2 * r() - 1
        frame = *energies, size * c, size * np.sqrt(1 - c * c), mass
        sign = one(-1.0)
        if name == "t_chain_scatter_start":
            return r(), *frame[:-1], sign
        if name in ("t_chain_scatter_lower", "t_chain_scatter_upper"):
            return r(), *frame, one(80.0), one(20.0), total, sign
        if name == "t_chain_scatter":
            return r(), *frame, one(80.0), one(20.0), total, *sums, sign
        out = call_op("t_chain_scatter", r(), *frame, one(80.0), one(20.0), total, *sums, sign)
        return out[:4].T, out[4:].T, mass, total, *sums, sign
    t = p.scattering(legs)[0]
    p12, p3, t1, *parts = p.split_off()
    s23 = call_op("s23_min_max", PA, p12, p3, t1, one(80.0), one(20.0))
    return {
        "com_p_in": lambda: [one(E_CM)],
        "r_to_x1x2": lambda: [r(), one(1e6) * r(), one(2e6)],
        "x1x2_to_r": lambda: [0.5 * r(), 0.5 * r(), one(2e6)],
        "boost_beam": lambda: [triple, masses3, r(), r()],
        "boost_beam_inverse": lambda: [triple, masses3, r(), r()],
        "diff_cross_section": lambda: [r(), r(), r(), r(), r(), one(2e6)],
        "uniform_invariant": lambda: [r(), *invariant],
        "uniform_invariant_inverse": lambda: [inside, *invariant],
        "breit_wigner_invariant": lambda: [r(), one(40.0), one(5.0), *invariant],
        "breit_wigner_invariant_inverse": lambda: [inside, one(40.0), one(5.0), *invariant],
        "stable_invariant": lambda: [r(), one(1.0), *invariant],
        "stable_invariant_inverse": lambda: [inside, one(1.0), *invariant],
        "stable_invariant_nu": lambda: [r(), one(1.0), one(0.7), *invariant],
        "stable_invariant_nu_inverse": lambda: [inside, one(1.0), one(0.7), *invariant],
        "stable_invariant_fifth": lambda: [r(), one(1.0), *invariant],
        "two_body_decay": lambda: [*decay, p.momentum(400.0)],
        "two_body_decay_inverse": lambda: pair,
        "two_body_decay_com": lambda: decay,
        "two_body_decay_com_inverse": lambda: [x.T for x in np.split(call_op("two_body_decay_com", *decay)[:8], 2)],
        "t_inv_min_max": lambda: [*legs, one(80.0), one(20.0)],
        "t_inv_value_and_min_max": lambda: [*legs, *p.scattered(legs)],
        "two_to_two_particle_scattering": lambda: [r(), *legs, t, one(80.0), one(20.0)],
        "two_to_two_particle_scattering_inverse": lambda: [*p.scattered(legs), *legs],
        "two_to_two_particle_scattering_com": lambda: [r(), *beams, p.scattering(beams)[0], one(80.0), one(20.0)],
        "two_to_two_particle_scattering_com_inverse": lambda: [*p.scattered(beams, "_com"), *beams],
        "three_body_decay": lambda: [*body, p.momentum(400.0)],
        "three_body_decay_inverse": lambda: np.split(
            call_op("three_body_decay", *body, p.momentum(400.0))[:12].T, 3, axis=1
        ),
        "three_body_decay_com": lambda: body,
        "three_body_decay_com_inverse": lambda: np.split(call_op("three_body_decay_com", *body)[:12].T, 3, axis=1),
        "fast_rambo_massless": lambda: [r(5), one(400.0), p.momentum(400.0)],
        "fast_rambo_massless_com": lambda: [r(8), one(400.0)],
        "fast_rambo_massless_inverse": lambda: [
            call_op("fast_rambo_massless_com", r(5), one(400.0), n_out=13)[:-1].T.reshape(N, 3, 4),
            one(400.0),
        ],
        "fast_rambo_massive": lambda: [r(5), one(400.0), masses3, p.momentum(400.0)],
        "fast_rambo_massive_com": lambda: [r(5), one(400.0), masses3],
        "fast_rambo_massive_inverse": lambda: [triple, one(E_CM), masses3],
        "cut_unphysical": lambda: [one(2.0), triple, r(), r()],
        "pt_eta_phi_x": lambda: [p.event(), r(), r()],
        "mirror_momenta": lambda: [triple, one(1)],
        "momenta_to_x1x2": lambda: [p.event(), one(13000.0)],
        "invariants_from_momenta": lambda: [p.event(), np.tile([[0, 0, 1, 1, 0], [1, 0, -1, 0, 0]], (N, 1, 1))],
        "t_inv_min_max_cut": lambda: [PA, legs[1], one(80.0), one(20.0), *floors],
        "t_inv_value_and_min_max_cut": lambda: [PA, legs[1], *p.scattered((PA, legs[1])), *floors],
        "t1_inv_min_max_doublet": lambda: [PA, PB, one(80.0), one(50.0), one(100.0), one(90.0)],
        "t1_inv_value_and_min_max_doublet": lambda: [
            PA,
            PB,
            p.double_t(inverse=True)[0],
            one(80.0),
            one(50.0),
            one(100.0),
            one(90.0),
        ],
        "t2_inv_min_max_doublet": lambda: [PA, PB, one(80.0), one(50.0), one(2e5) * r(), one(100.0), one(90.0)],
        "t2_inv_value_and_min_max_doublet": lambda: [
            PA,
            PB,
            p.double_t(inverse=True)[0],
            one(80.0),
            one(50.0),
            one(2e5) * r(),
            one(100.0),
            one(90.0),
        ],
        "double_t_scattering": p.double_t,
        "double_t_scattering_inverse": lambda: [*p.double_t(inverse=True), PA, PB],
        "chili_forward": p.chili,
        "chili_inverse": lambda: p.chili(inverse=True),
        "s23_min_max": lambda: [PA, p12, p3, t1, one(80.0), one(20.0)],
        "s23_value_and_min_max": lambda: [PA, p3, t1, *parts],
        "s23_position": lambda: [s23[0] + r() * (s23[1] - s23[0]), *s23],
        "s23_arcsine_sample": lambda: [r(), *s23, 0.9 * s23[0], 1.1 * s23[1], one(0.7), one(2.0)],
        "s23_arcsine_sample_inverse": lambda: [u := r(), 1 - u, *s23, 0.9 * s23[0], 1.1 * s23[1], one(0.7), one(2.0)],
        "two_to_three_particle_scattering": lambda: [one(1), PA, p12, p3, u := r(), 1 - u, t1, one(80.0), one(20.0)],
        "two_to_three_particle_scattering_inverse": lambda: [*parts, p3, PA, p12, t1],
        "t_chain_start": lambda: [one(E_CM), masses3],
        "t_chain_weight": lambda: [one(2.0), r(4)],
        "light_cone": lambda: [p.momentum(20.0), one(20.0)],
        "t_chain_recoil": lambda: [r(), one(500.0), one(100.0), one(320.0), one(2.0)],
        "t_chain_recoil_inverse": lambda: [one(1e5) * r(), one(500.0), one(100.0), one(320.0), one(2.0)],
        "pair_excess": lambda: [p.momentum(80.0), one(80.0), p.momentum(20.0), one(20.0)],
    }[name]()


def n_outputs(name, arguments):
    """Return how many numbers an op gives."""
    if TABLE[name][2] >= 0:
        return TABLE[name][2]
    n = len(columns(*arguments))
    shapes = [np.atleast_1d(np.asarray(x)).shape for x in arguments]
    rows = shapes[0][1] if len(shapes[0]) > 1 else 0
    return {
        "boost_beam": 4 * rows,
        "boost_beam_inverse": 4 * rows,
        "fast_rambo_massless": 4 * (rows + 4) // 3 + 1,
        "fast_rambo_massless_com": 4 * ((rows + 4) // 3) + 1,
        "fast_rambo_massless_inverse": 3 * rows - 4 + 5,
        "fast_rambo_massive": 4 * ((rows + 4) // 3) + 1,
        "fast_rambo_massive_com": 4 * ((rows + 4) // 3) + 1,
        "fast_rambo_massive_inverse": 3 * rows - 4 + 5,
        "pt_eta_phi_x": 3 * rows - 4,
        "mirror_momenta": 4 * rows,
        "momenta_to_x1x2": 2,
        "invariants_from_momenta": 2,
        "chili_forward": 21,
        "chili_inverse": 8,
        "t_chain_start": n + 2,
    }.get(name, 1)


def adjoint(name, arguments, gradients, wanted=None):
    """Return the gradients of the inputs, those at `wanted` positions only if given."""
    if TABLE[name][1] < 0:
        return call_op(f"{name}_vjp", *arguments, *gradients, n_out=len(arguments))
    wanted = range(len(arguments)) if wanted is None else wanted
    return call_op(f"{name}_vjp", *map(float, wanted), *arguments, *gradients, n_out=len(wanted))


# Integers, and numbers that a value is not differentiated by: nothing is moved there.
FIXED = {
    "mirror_momenta": [12],
    "two_to_three_particle_scattering": [0],
}


@pytest.mark.parametrize("name", ADJOINTS)
def test_adjoint_agrees_with_differences(name):
    arguments = columns(*make(name))
    n_in, n_out = len(arguments), n_outputs(name, make(name))
    rng = np.random.default_rng(5)

    def run(x):
        return call_op(name, *x, n_out=n_out)

    values = run(arguments)
    assert np.isfinite(values).all()
    gradients = rng.normal(size=(n_out, N)) / np.maximum(np.abs(values).mean(axis=1, keepdims=True), 1e-3)
    found = adjoint(name, arguments, gradients)
    assert np.isfinite(found).all()
    direction = rng.normal(size=(n_in, N)) * np.maximum(np.abs(arguments), 1e-2)
    direction[FIXED.get(name, [])] = 0
    step = 2e-6 if name.endswith("_inverse") else 2e-5

    def moved(k):
        return (gradients * run(arguments + k * step * direction)).sum(axis=0)

    wanted = (8 * (moved(1) - moved(-1)) - (moved(2) - moved(-2))) / (12 * step)
    got = (found * direction).sum(axis=0)
    scale = np.abs(wanted) + np.abs(found * direction).sum(axis=0) + 1.0
    # A few points lie so near a branch of the formulas that the differences see it.
    assert np.quantile(np.abs(got - wanted) / scale, 0.9) <= 1e-7


def test_a_gradient_of_zero_hides_an_infinite_slope():
    """At r = 0 and r = 1 the momenta of a decay have infinite slopes; those without a gradient do no harm."""
    arguments = columns(0.3, [0.0, 1.0], 500.0, 80.0, 20.0)
    gradients = np.zeros((9, 2))
    gradients[8] = 1.0
    found = adjoint("two_body_decay_com", arguments, gradients)
    assert np.isfinite(found).all()
    assert (found[2] != 0).all()


def test_outputs_of_an_adjoint_are_not_its_inputs():
    from madspace.cpu._programs import run_program

    code = np.array([TABLE["obs_pt_vjp"][0], 6, 1, *range(6), 5], dtype=np.int32)
    with pytest.raises(ValueError, match="obs_pt_vjp: expected output registers that are no inputs"):
        run_program(code, np.empty(0), 6, [(np.ones((3, 6)), range(6))], [(np.empty((3, 1)), [5])])


@pytest.mark.parametrize(("n_in", "n_out"), [(5, 0), (5, 1), (7, 1), (10, 5), (9, 3)])
def test_numbers_of_values_that_an_adjoint_does_not_take(n_in, n_out):
    from madspace.cpu._programs import run_program

    code = np.array([TABLE["obs_pt_vjp"][0], n_in, n_out, *range(n_in + n_out)], dtype=np.int32)
    arrays = [(np.ones((3, n_in)), range(n_in))], [(np.empty((3, n_out)), range(n_in, n_in + n_out))]
    with pytest.raises(ValueError, match="obs_pt_vjp: expected numbers that the op takes"):
        run_program(code, np.empty(0), n_in + n_out, *arrays)


def test_some_gradients_are_those_of_all():
    arguments = columns(*make("two_body_decay"))
    gradients = np.random.default_rng(1).normal(size=(9, N))
    whole = adjoint("two_body_decay", arguments, gradients)
    some = adjoint("two_body_decay", arguments, gradients, [8, 0, 3, 99])
    np.testing.assert_array_equal(some, [whole[8], whole[0], whole[3], np.zeros(N)])
