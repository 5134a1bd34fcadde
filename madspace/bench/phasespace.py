"""Speed of phase-space mappings: events per second on the GPU and on the CPU, host time of a call, share of the floor.

On a GPU, for each batch size: device time of a call in a replayed graph of many ("device"; "cold" over so many sets of
arrays that none is left in the L2 cache when it is used again, where that is possible), host time of a call, one of
16 into a drained queue behind as many, beside launches of the same kernel from C; call and wait, beside launch of an
empty kernel and wait from C, interleaved in the same run. On the CPU, one thread: ns per event, interleaved with PyPI's
`madspace` 0.2.1 where the interpreter of an environment with it is named. Results are checked (conservation, volume)
before anything is timed.

"program" cases: functions as one launch, gradients and random numbers, see `phasespace_programs`. "numpy" cases: NumPy
to NumPy through the GPU in one call, see `phasespace_numpy`. "torch" and "cupy" cases: host time on their arrays, where
they are installed, see `phasespace_arrays`.
"""

import argparse
import subprocess
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import madspace
from madspace.bench import phasespace_arrays, phasespace_programs
from madspace.bench.c_twin import CTwin
from madspace.bench.latency_cases import matches
from madspace.bench.phasespace_numpy import numpy_case, numpy_table
from madspace.bench.terminal import Progress, table
from madspace.bench.timing import (
    COPY_BANDWIDTH,
    ENQUEUED,
    REPLAYS,
    captured,
    host_time,
    interleaved,
    into_drained_queue,
    pinned,
    replays,
    timed,
)

ENERGY = 1000.0
COLD_BYTES = 160e6  # three times the L2 cache of an H200
MAX_SETS = 64  # small batches, which are bound by their launch, would need more
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
# With all sizes, and with one alone.
MAPPINGS = (([0, 1], 0.8), ([0], 0.8))
VARIANTS = (([1, 0], 0.8), ([0, 1], 0.0), ([0, 1], 1.0), ([0, 1], 0.6))
VARIANT_SIZE = 1_000_000
ROUNDS, QUICK_ROUNDS = 31, 5
NUMPY_ROUNDS = 7  # of 10^7 events: gigabytes are copied
UPSTREAM_FIGURES = ("upstream_default", "upstream_simd_256", "upstream_simd_512")


def host_inputs(n_particles: int, n: int, seed: int = 1) -> list[np.ndarray]:
    """Random numbers, energy and masses."""
    r = np.random.default_rng(seed).random((3 * n_particles - 4, n))
    return [*r, np.full(n, ENERGY), *(np.zeros(n) for _ in range(n_particles))]


def check(momenta: list[np.ndarray], det: np.ndarray) -> None:
    """Refuse to time a wrong answer."""
    total = sum(momenta[2:]) - momenta[0] - momenta[1]
    if not np.abs(total).max() < 1e-11 * ENERGY:
        raise RuntimeError("momentum is not conserved")
    n = len(momenta) - 2
    exact = (np.pi / 2) ** (n - 1) * ENERGY ** (2 * n - 4) / {2: 1, 3: 2}[n]
    error = det.std() / np.sqrt(det.size)
    if not abs(det.mean() - exact) < 6 * error + 1e-9 * exact:
        raise RuntimeError(f"volume {det.mean()} +- {error} is not {exact}")


def gpu_case(
    mapping: madspace.TPropagatorMapping, n_particles: int, n: int, twin: CTwin, rounds: int, seed: int = 1
) -> dict[str, Any]:
    """All figures of one mapping at one batch size, in microseconds."""
    device = madspace.Device(0)
    stream = twin.stream
    arrays = [madspace.asarray(x, device=device, stream=stream) for x in host_inputs(n_particles, n, seed)]
    fresh = mapping.map_forward(arrays, stream=stream)
    check([p.numpy() for p in fresh[:-1]], fresh.det.numpy())
    out = list(fresh)
    nbytes = 8 * n * (len(arrays) + sum(x.size for x in out) // n)

    def call() -> None:
        mapping.map_forward(arrays, out=out, stream=stream)

    def call_fresh() -> None:
        mapping.map_forward(arrays, stream=stream)

    def waited() -> float:
        start = time.perf_counter()
        call()
        stream.synchronize()
        return time.perf_counter() - start

    def over(sets: list[tuple[list[Any], list[Any]]]) -> Callable[[], float]:
        repeats = -(-REPLAYS // len(sets)) * len(sets)

        def launch() -> None:
            for k in range(repeats):
                inputs, outputs = sets[k % len(sets)]
                mapping.map_forward(inputs, out=outputs, stream=stream)

        return replays(stream, captured(stream, launch), repeats)

    calls = {
        "host": host_time(stream.synchronize, call),
        "host_fresh_outputs": host_time(stream.synchronize, call_fresh),
        "call_and_wait": into_drained_queue(stream.synchronize, waited),
        "device": over([(arrays, out)]),
        "c_launch": twin.measurement(twin.kernels(captured(stream, call)), ENQUEUED),
        "c_launch_and_wait": twin.measurement(twin.operation("launch_and_wait"), 1),
    }
    n_sets = 1 + int(COLD_BYTES // nbytes)
    if 1 < n_sets <= MAX_SETS:
        sets = [([x.copy() for x in arrays], [x.copy() for x in out]) for _ in range(n_sets)]
        calls["cold"] = over(sets)
    interleaved(calls, 1 + rounds // 5)  # first uses load code, fill pools and wake clocks
    result: dict[str, Any] = interleaved(calls, rounds)
    floor = nbytes / COPY_BANDWIDTH * 1e6
    result["floor"] = floor
    result["share_of_floor"] = floor / result["device"]["median"]
    result["host_ratio_to_c"] = result["host"]["median"] / result["c_launch"]["median"]
    result["wait_ratio_to_c"] = result["call_and_wait"]["median"] / result["c_launch_and_wait"]["median"]
    return result


UPSTREAM = """
import sys, time, numpy as np
import madspace
lanes, order, n = int(sys.argv[1]), eval(sys.argv[2]), int(sys.argv[3])
if lanes:
    madspace.set_simd_vector_size(lanes)
mapping = madspace.TPropagatorMapping(order, 0.8)
k = len(order)
r = np.random.default_rng(1).random((3 * k - 1, n))
arrays = [*r, np.full(n, 1000.0), *(np.zeros(n) for _ in range(k + 1))]
mapping.map_forward(arrays)
print("ready", flush=True)
for line in sys.stdin:
    repeats = int(line)
    start = time.perf_counter()
    for _ in range(repeats):
        mapping.map_forward(arrays)
    print((time.perf_counter() - start) / repeats, flush=True)
"""


class Upstream:
    """PyPI's madspace in an interpreter of its own, which measures on demand."""

    def __init__(self, python: str, lanes: int, order: list[int], n: int) -> None:
        # -I: the package of the same name in this folder or on PYTHONPATH must not be found.
        command = [python, "-I", "-c", UPSTREAM, str(lanes), repr(order), str(n)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        if self.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{python}: PyPI's madspace 0.2.1 did not start")

    def __call__(self) -> float:
        """Measure one call."""
        self.stdin.write("1\n")
        self.stdin.flush()
        return float(self.stdout.readline())

    def close(self) -> None:
        """End the interpreter."""
        self.stdin.close()
        self.process.wait()


def cpu_case(order: list[int], n: int, upstream: str | None, rounds: int, seed: int = 1) -> dict[str, Any]:
    """Microseconds per call on one thread, and ratios to upstream."""
    mapping = madspace.TPropagatorMapping(order, 0.8)
    arrays = host_inputs(len(order) + 1, n, seed)
    fresh = mapping.map_forward(arrays)
    check(list(fresh[:-1]), fresh.det)
    out = list(fresh)
    calls: dict[str, Callable[[], float]] = {
        "out": lambda: timed(lambda: mapping.map_forward(arrays, out=out), 1),
        "fresh_outputs": lambda: timed(lambda: mapping.map_forward(arrays), 1),
    }
    peers = []
    if upstream is not None:
        for name, lanes in zip(UPSTREAM_FIGURES, (0, 4, 8), strict=True):
            peers.append(Upstream(upstream, lanes, order, n))
            calls[name] = peers[-1]
    for function in calls.values():
        function()
    result: dict[str, Any] = interleaved(calls, rounds)
    for peer in peers:
        peer.close()
    result["ns_per_event"] = result["fresh_outputs"]["median"] / n * 1e3
    if peers:
        mine = result["fresh_outputs"]["median"]
        best = min(result["upstream_simd_256"]["median"], result["upstream_simd_512"]["median"])
        result["times_faster_than_default"] = result["upstream_default"]["median"] / mine
        result["times_faster_than_best_simd"] = best / mine
    return result


def run(options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Measure the mappings on one device.

    Parameters
    ----------
    options : argparse.Namespace
        ``device``, ``cases`` (patterns of names), ``rounds``, ``quick``, ``seed``, ``kinds`` (of arrays) and
        ``upstream_python``.
    progress : Progress
        Told what is measured.

    Returns
    -------
    dict
        ``cases`` by name; ``isa`` on the CPU; ``left_out``, why packages are missing.
    """
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    sizes = SIZES[:3] if options.quick else SIZES
    measure = _measure_on_cpu if options.device == "cpu" else _measure_on_gpu
    return measure(options, sizes, rounds, progress)


def _measure_on_cpu(
    options: argparse.Namespace, sizes: tuple[int, ...], rounds: int, progress: Progress
) -> dict[str, Any]:
    cases: dict[str, Any] = {}
    threads = madspace.get_num_threads()
    madspace.set_num_threads(1)
    try:
        for order in ([0, 1], [0]):
            for n in sizes[:4]:
                name = f"cpu order={order} n={n}"
                if matches(name, options.cases):
                    progress.start(f"phasespace: {name}")
                    with pinned():
                        cases[name] = cpu_case(order, n, options.upstream_python, rounds, options.seed)
    finally:
        madspace.set_num_threads(threads)
    return {"cases": cases, "rounds": rounds, "isa": madspace.TPropagatorMapping([0]).kernel}


def _measure_on_gpu(
    options: argparse.Namespace, sizes: tuple[int, ...], rounds: int, progress: Progress
) -> dict[str, Any]:
    cases: dict[str, Any] = {}
    twin = CTwin(madspace.Device(0))
    order, power = MAPPINGS[0]
    for n in sizes[-3:]:  # on all cores
        name = f"numpy order={order} power={power} n={n}"
        if matches(name, options.cases):
            progress.start(f"phasespace: {name}")
            mapping = madspace.TPropagatorMapping(order, power)
            arrays = host_inputs(len(order) + 1, n, options.seed)
            out = list(mapping.map_forward(arrays, device="cuda"))
            check(out[:-1], out[-1])
            cases[name] = numpy_case(mapping, arrays, out, min(rounds, NUMPY_ROUNDS))
            madspace.PinnedBuffer.trim()
    chosen = [(*mapping, n) for mapping in MAPPINGS for n in sizes]
    chosen += [(*mapping, n) for mapping in VARIANTS for n in sizes if n == VARIANT_SIZE]
    for order, power, n in chosen:
        name = f"cuda order={order} power={power} n={n}"
        if matches(name, options.cases):
            progress.start(f"phasespace: {name}")
            mapping = madspace.TPropagatorMapping(order, power)
            with pinned():
                cases[name] = gpu_case(mapping, len(order) + 1, n, twin, rounds, options.seed)
    for name, make in phasespace_programs.cases(VARIANT_SIZE, twin.stream) if VARIANT_SIZE in sizes else ():
        if matches(name, options.cases):
            progress.start(f"phasespace: {name}")
            cases[name] = phasespace_programs.measure(make(), twin.stream, rounds)
    left_out = _measure_packages(options, twin, rounds, progress, cases)
    return {"cases": cases, "rounds": rounds, "left_out": left_out}


def _measure_packages(
    options: argparse.Namespace, twin: CTwin, rounds: int, progress: Progress, cases: dict[str, Any]
) -> dict[str, str]:
    """Add a case for each package whose arrays are asked for; returns why others are missing."""
    order, power = MAPPINGS[0]
    left_out: dict[str, str] = {}
    for package in phasespace_arrays.PACKAGES:
        name = f"cuda {package} order={order} power={power} n={phasespace_arrays.N_EVENTS}"
        if (options.kinds and package not in options.kinds.split(",")) or not matches(name, options.cases):
            continue
        progress.start(f"phasespace: {name}")
        if reason := phasespace_arrays.missing(package, twin.stream):
            left_out[package] = reason
            continue
        inputs = host_inputs(len(order) + 1, phasespace_arrays.N_EVENTS, options.seed)
        mapping = madspace.TPropagatorMapping(order, power)
        with pinned():
            cases[name] = phasespace_arrays.case(package, mapping, inputs, twin, rounds)
    return left_out


def tables(result: dict[str, Any]) -> str:
    """Return the tables for people, one for each kind of case."""
    kinds: dict[str, tuple[Callable[[dict[str, Any]], str], dict[str, Any]]] = {
        "cpu": (_cpu_table, {}),
        "cuda": (_gpu_table, {}),
        "program": (phasespace_programs.tables, {}),
        "numpy": (numpy_table, {}),
        "arrays": (phasespace_arrays.tables, {}),
    }
    for name, x in result["cases"].items():
        kinds["arrays" if "intake" in x else name.partition(" ")[0]][1][name] = x
    return "\n".join(make(found) for make, found in kinds.values() if found)


def _median(case: dict[str, Any], figure: str) -> str:
    return f"{case[figure]['median']:.1f}" if figure in case else "-"


def _ratio(case: dict[str, Any], figure: str, of: str) -> str:
    return f"{case[figure]['median'] / case[of]['median']:.2f}"


def _gpu_table(cases: dict[str, Any]) -> str:
    head = ["us", "device", "cold", "floor", "share", "host", "x C", "call + wait", "x C"]
    rows = [
        [
            name,
            _median(x, "device"),
            _median(x, "cold"),
            f"{x['floor']:.1f}",
            f"{100 * x['share_of_floor']:.0f} %",
            _median(x, "host"),
            _ratio(x, "host", "c_launch"),
            _median(x, "call_and_wait"),
            _ratio(x, "call_and_wait", "c_launch_and_wait"),
        ]
        for name, x in cases.items()
    ]
    return table(head, rows)


def _cpu_table(cases: dict[str, Any]) -> str:
    peers = [peer for peer in UPSTREAM_FIGURES if any(peer in x for x in cases.values())]
    rows = [
        [name, _median(x, "fresh_outputs"), _median(x, "out"), f"{x['ns_per_event']:.1f}"]
        + [_median(x, peer) for peer in peers]
        for name, x in cases.items()
    ]
    return table(["us", "fresh outputs", "out given", "ns per event", *peers], rows)
