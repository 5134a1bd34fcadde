"""The main job as a command: a t-channel mapping of three particles, with its checks."""

import argparse
import math
import sys
import time
from typing import Any

import numpy as np

import madspace

ENERGY = 1000.0
ORDER = (0, 1)
POWER = 0.8
MIN_POINTS = 1000  # below it the spread of the weights says nothing about the error of their mean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the demo."""
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: the best one")
    parser.add_argument("--points", type=int, default=100_000, help="number of phase-space points (default: 100000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random numbers (default: 1)")


def run(options: argparse.Namespace) -> int:
    """Map, check and print; the exit status is 1 if a check fails."""
    if options.points < MIN_POINTS:
        print(f"--points: expected at least {MIN_POINTS}, got {options.points}", file=sys.stderr)
        return 2
    device = options.device
    if device == "auto":
        device = _best_device()
    mapping = madspace.TPropagatorMapping(ORDER, POWER)
    rng = np.random.default_rng(options.seed)
    host = [*rng.random((mapping.random_dim(), options.points)), np.full(options.points, ENERGY)]
    host += [np.zeros(options.points) for _ in range(3)]
    arrays: list[Any] = host if device == "cpu" else [madspace.asarray(x, device=device) for x in host]

    result = mapping.map_forward(arrays)
    seconds = _time(mapping, arrays, result, device)
    momenta = [np.asarray(p if device == "cpu" else p.numpy()) for p in result[:-1]]
    det = np.asarray(result.det if device == "cpu" else result.det.numpy())

    conservation = float(np.abs(sum(momenta[2:]) - momenta[0] - momenta[1]).max()) / ENERGY
    metric = np.array([1.0, -1.0, -1.0, -1.0])
    on_shell = max(float(np.abs((p * p * metric).sum(axis=1)).max()) for p in momenta) / ENERGY**2
    volume, error = float(det.mean()), float(det.std(ddof=1)) / math.sqrt(options.points)
    # Massless n-body volume (pi/2)^(n-1) s^(n-2) / (Gamma(n) Gamma(n-1)) for n = 3.
    exact = (math.pi / 2) ** 2 * ENERGY**2 / 2
    deviation = (volume - exact) / error

    print(f"mapping                {mapping!r}, 3 massless particles at {ENERGY:g} GeV, {options.points} points")
    print(f"device                 {_describe(device)}, kernel {mapping.kernel}")
    print(f"momentum conservation  {conservation:.1e} of the energy at the worst point")
    print(f"masses on shell        {on_shell:.1e} of the energy squared at the worst point")
    print(f"phase-space volume     {volume:.6g} +- {error:.2g} GeV^2, exact {exact:.6g}: {deviation:+.2f} sigma")
    print(f"speed                  {options.points / seconds:.3g} points per second")
    good = conservation < 1e-13 and on_shell < 1e-13 and abs(deviation) < 5
    print("all checks passed" if good else "A CHECK FAILED")
    return 0 if good else 1


def _best_device() -> str:
    if not madspace.is_available():
        return "cpu"
    try:
        madspace.Device(0)
    except madspace.MadspaceError as error:  # a driver is there, but does not work or has no device
        print(f"the CPU is used: {error}")
        return "cpu"
    return "cuda"


def _time(mapping: madspace.TPropagatorMapping, arrays: list[Any], out: Any, device: str) -> float:
    """Return the best time of a call with its results in place, in seconds."""
    best = math.inf
    for _ in range(10):
        start = time.perf_counter()
        mapping.map_forward(arrays, out=out)
        if device != "cpu":
            madspace.Device(0).default_stream.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def _describe(device: str) -> str:
    if device == "cpu":
        return f"CPU, {madspace.get_num_threads()} threads"
    return madspace.Device(0).name
