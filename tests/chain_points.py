"""Inputs of the phase-space tests."""

import numpy as np

# name -> (integration order, number of outgoing particles)
ORDERS = {"2body": ([0], 2), "3body-10": ([1, 0], 3), "3body-01": ([0, 1], 3)}
POWERS = [0.0, 0.8, 1.0, 0.5, 1.7, -2.0, 4.0]
EXTREME_POWERS = [-3.0, 4.5]

# Energies and masses (GeV): massless, heavy pair, very unequal, near threshold.
KINEMATICS = {
    "10GeV": (10.0, [0.0, 0.0, 0.0]),
    "13TeV": (13000.0, [0.0, 0.0, 0.0]),
    "ttbar": (500.0, [173.0, 173.0, 0.0]),
    "13TeV-ttbar": (13000.0, [173.0, 173.0, 0.0]),
    "unequal": (13000.0, [1e-3, 173.0, 1e-6]),
    "heavy-light": (500.0, [225.0, 1e-3, 100.0]),
    "threshold": (520.0, [173.0 * (1 - 1e-10), 173.0, 174.0 * (1 - 1e-12)]),
}


def randoms(n_particles, n, seed):
    """Uniform random numbers, one row per input."""
    return np.random.default_rng(seed).random((3 * n_particles - 4, n))


def volume(n_particles, energy):
    """Massless phase-space volume, prod d^3p/(2E) delta^4: (pi/2)^(n-1) s^(n-2) / (Gamma(n) Gamma(n-1))."""
    factorials = {2: 1.0, 3: 2.0}
    return (np.pi / 2) ** (n_particles - 1) * energy ** (2 * n_particles - 4) / factorials[n_particles]


def mass_2(p):
    """Invariant mass squared of four-vectors."""
    return p[..., 0] ** 2 - (p[..., 1:] ** 2).sum(axis=-1)
