"""Speed of phase-space mappings: events per second on the GPU and on the CPU, host time of a call, share of the floor.

    python benchmarks/bench_phasespace.py [--device cpu|cuda] [--json FILE] [--upstream-python PATH] [--quick]

On a GPU, for each batch size: device time by events over back-to-back launches, host time of a call into a drained
queue, call and wait; the last two beside a raw C launch of an empty kernel, interleaved in the same run. On the CPU,
one thread: ns per event, interleaved with PyPI's `madspace` 0.2.1 where the interpreter of an environment with it is
named.
Results are checked (conservation, volume) before anything is timed.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import interleaved, pin, provenance, timed, write_json

import madspace

ENERGY = 1000.0
COPY_BANDWIDTH = 4.27e12  # bytes per second, read and written, of a device copy on an H200
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def host_inputs(n_particles: int, n: int) -> list[np.ndarray]:
    """Random numbers, energy and masses."""
    r = np.random.default_rng(1).random((3 * n_particles - 4, n))
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


def gpu_case(mapping: madspace.TPropagatorMapping, n_particles: int, n: int, twin: Any, rounds: int) -> dict[str, Any]:
    """All figures of one mapping at one batch size, in microseconds."""
    device = madspace.Device(0)
    stream = twin.stream
    arrays = [madspace.asarray(x, device=device, stream=stream) for x in host_inputs(n_particles, n)]
    fresh = mapping.map_forward(arrays, stream=stream)
    check([p.numpy() for p in fresh[:-1]], fresh.det.numpy())
    out = list(fresh)

    def call() -> None:
        mapping.map_forward(arrays, out=out, stream=stream)

    def call_fresh() -> None:
        mapping.map_forward(arrays, stream=stream)

    def drained(function: Callable[[], None]) -> Callable[[], float]:
        def measure() -> float:
            stream.synchronize()
            seconds = timed(function, 1)
            stream.synchronize()
            return seconds

        return measure

    def waited() -> float:
        start = time.perf_counter()
        call()
        stream.synchronize()
        return time.perf_counter() - start

    first, last = madspace.Event(device, timing=True), madspace.Event(device, timing=True)
    repeats = 20

    def by_events() -> float:
        first.record(stream)
        for _ in range(repeats):
            call()
        last.record(stream)
        last.synchronize()
        return last.elapsed_since(first) * 1e-3 / repeats

    calls = {
        "host": drained(call),
        "host_fresh_outputs": drained(call_fresh),
        "call_and_wait": waited,
        "device": by_events,
        "c_launch": twin.launch(1, wait=False),
        "c_launch_and_wait": twin.launch(1, wait=True),
    }
    interleaved(calls, 1 + rounds // 5)  # first uses load code, fill pools and wake clocks
    result: dict[str, Any] = interleaved(calls, rounds)
    nbytes = 8 * n * (len(arrays) + sum(x.size for x in out) // n)
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
        self.stdin.write("1\n")
        self.stdin.flush()
        return float(self.stdout.readline())

    def close(self) -> None:
        self.stdin.close()
        self.process.wait()


def cpu_case(order: list[int], n: int, upstream: str | None, rounds: int) -> dict[str, Any]:
    """Microseconds per call on one thread, and ratios to upstream."""
    madspace.set_num_threads(1)
    mapping = madspace.TPropagatorMapping(order, 0.8)
    arrays = host_inputs(len(order) + 1, n)
    fresh = mapping.map_forward(arrays)
    check(list(fresh[:-1]), fresh.det)
    out = list(fresh)
    calls: dict[str, Callable[[], float]] = {
        "out": lambda: timed(lambda: mapping.map_forward(arrays, out=out), 1),
        "fresh_outputs": lambda: timed(lambda: mapping.map_forward(arrays), 1),
    }
    peers = []
    if upstream is not None:
        for name, lanes in (("upstream_default", 0), ("upstream_simd_256", 4), ("upstream_simd_512", 8)):
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


def main() -> int:
    """Run the cases of one device and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if madspace.is_available() else "cpu")
    parser.add_argument("--json", metavar="FILE", help="write the result there instead of printing it")
    parser.add_argument("--upstream-python", metavar="PATH", help="interpreter with PyPI's madspace 0.2.1 (CPU)")
    parser.add_argument("--quick", action="store_true", help="few rounds and small batches")
    options = parser.parse_args()
    rounds = 5 if options.quick else 51
    sizes = SIZES[:3] if options.quick else SIZES
    result: dict[str, Any] = {"provenance": provenance(options.device), "cases": {}}
    if options.device == "cpu":
        pin()
        for order in ([0, 1], [0]):
            for n in sizes[:4]:
                case = cpu_case(order, n, options.upstream_python, rounds)
                result["cases"][f"cpu order={order} n={n}"] = case
                print(f"order {order} n {n}: {case['ns_per_event']:.1f} ns per event", file=sys.stderr)
        result["isa"] = madspace.TPropagatorMapping([0]).kernel
    else:
        from c_twin import CTwin

        twin = CTwin(madspace.Device(0))
        pin()  # not earlier: threads that the driver has started for itself keep all cores
        for order, power in (([0, 1], 0.8), ([1, 0], 0.8), ([0], 0.8), ([0, 1], 0.0), ([0, 1], 1.0), ([0, 1], 0.6)):
            mapping = madspace.TPropagatorMapping(order, power)
            for n in sizes:
                case = gpu_case(mapping, len(order) + 1, n, twin, rounds)
                result["cases"][f"cuda order={order} power={power} n={n}"] = case
                print(
                    f"order {order} power {power} n {n}: device {case['device']['median']:.1f} us, host "
                    f"{case['host']['median']:.1f} us ({case['host_ratio_to_c']:.2f} x C), call + wait "
                    f"{case['call_and_wait']['median']:.1f} us ({case['wait_ratio_to_c']:.2f} x C), "
                    f"{100 * case['share_of_floor']:.0f} % of the floor",
                    file=sys.stderr,
                )
    write_json(options.json, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
