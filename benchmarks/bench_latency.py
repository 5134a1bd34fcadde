"""Host time of single runtime operations, beside the same driver calls from C and, where installed, other libraries.

    python benchmarks/bench_latency.py [--json FILE] [--quick] [--peers NAME,...]

Everything runs in one process, on one device, in one context. A sample is the mean of a short run of equal operations
into a drained queue, so that the device never holds the host up; the cost of the empty loop is subtracted on both
sides. All operations are sampled in turn, in an order that changes from round to round, on one core, without garbage
collection.
Figures are in microseconds; "ratio" is the median over that of C.
"""

import argparse
import sys
import timeit
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import latency_peers
from c_twin import CTwin
from harness import interleaved, pin, provenance, write_json
from latency_peers import N_GRAPH_NODES

import madspace

ROUNDS, QUICK_ROUNDS = 501, 3
RUN, QUICK_RUN = 20, 4  # operations of a sample: far fewer than a queue holds


@dataclass
class Case:
    """One operation: what it is in C and what in Python, by the name of who does it."""

    c: Callable[[], float]
    statements: dict[str, tuple[str, dict[str, Any]]]
    current: bool = True  # the device's context is current while Python runs, as under a framework


def make_cases(twin: CTwin, device: madspace.Device, run: int) -> dict[str, Case]:
    """Prepare the operations of madspace and their C twins."""
    stream, other = twin.stream, madspace.Stream(device)
    event, pool = madspace.Event(device), device.pool
    buffer = pool.allocate(1 << 10, stream=stream)
    names = {"kernel": twin.kernel, "stream": stream, "other": other, "event": event, "pool": pool, "buffer": buffer}

    def case(statement: str, operation: str, current: bool = True, **operands: Any) -> Case:
        return Case(twin.operation(operation, run, **operands), {"madspace": (statement, names)}, current)

    cases = {
        "launch": case("kernel.launch(1, 32, 0, 0, stream=stream)", "launch"),
        "launch_buffer": case("kernel.launch(1, 32, buffer, 0, stream=stream)", "launch"),
        "launch_push_context": case("kernel.launch(1, 32, 0, 0, stream=stream)", "launch_in_context", current=False),
        "launch_and_wait": case("kernel.launch(1, 32, 0, 0, stream=stream); stream.synchronize()", "launch_and_wait"),
        "record_and_wait": case(
            "event.record(stream); other.wait(event)", "record_and_wait", event=event.handle, other_stream=other.handle
        ),
    }
    for label, nbytes in (("1_kib", 1 << 10), ("16_mib", 1 << 24)):
        statement = f"pool.allocate({nbytes}, stream=stream).close()"
        cases[f"allocate_and_free_{label}"] = case(statement, "allocate_and_free", pool=pool.handle, nbytes=nbytes)
    if hasattr(twin.kernel, "bind"):
        names["bound"] = twin.kernel.bind(1, 32, 0, 0, stream=stream)
        cases["launch_bound"] = case("bound()", "launch")
    if hasattr(madspace, "capture"):
        with madspace.capture(stream) as graph:
            for _ in range(N_GRAPH_NODES):
                twin.kernel.launch(1, 32, 0, 0, stream=stream)
        names["graph"] = graph.instantiate()
        cases["launch_graph"] = case("graph.launch(stream)", "launch_graph", graph=names["graph"].handle)
    return cases


def samples_of(
    cases: dict[str, Case], twin: CTwin, device: madspace.Device, run: int
) -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield everything that is measured, by name: a pair of case and who does it, joined by a blank."""

    def drained(sample: Callable[[], float]) -> Callable[[], float]:
        def measure() -> float:
            device.synchronize()
            return sample()

        return measure

    def python(statement: str, names: dict[str, Any], current: bool) -> Callable[[], float]:
        timer = timeit.Timer(statement, globals=names)

        def measure() -> float:
            device.synchronize()
            if not current:
                return timer.timeit(run) / run
            with twin.context():
                return timer.timeit(run) / run

        return measure

    yield "empty c", twin.operation("nothing", run)
    yield "empty python", python("pass", {}, True)
    for name, case in cases.items():
        yield f"{name} c", drained(case.c)
        for who, (statement, names) in case.statements.items():
            yield f"{name} {who}", python(statement, names, case.current)


def evaluate(cases: dict[str, Case], figures: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Subtract the empty loops and compare with C."""
    result: dict[str, Any] = {}
    for name, case in cases.items():
        result[name] = {}
        for who in ("c", *case.statements):
            empty = figures["empty c" if who == "c" else "empty python"]["median"]
            result[name][who] = {key: value - empty for key, value in figures[f"{name} {who}"].items()}
        for who in case.statements:
            result[name][who]["ratio"] = result[name][who]["median"] / result[name]["c"]["median"]
    return result


def main() -> int:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the result there instead of printing it")
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--peers", default="cuda.core,cupy,torch", help="other libraries to measure, where installed")
    options = parser.parse_args()
    rounds, run = (QUICK_ROUNDS, QUICK_RUN) if options.quick else (ROUNDS, RUN)
    device = madspace.Device(0)
    twin = CTwin(device)
    cases = make_cases(twin, device, run)
    with twin.context():
        left_out = latency_peers.add_to(cases, [name for name in options.peers.split(",") if name])
    pin()  # not earlier: threads that the driver has started for itself keep all cores
    samples = dict(samples_of(cases, twin, device, run))
    interleaved(samples, 1 if options.quick else 20)  # first uses load code, fill pools and wake clocks
    result = {
        "provenance": provenance("cuda"),
        "rounds": rounds,
        "left_out": left_out,
        "cases": evaluate(cases, interleaved(samples, rounds)),
    }
    for name, figures in result["cases"].items():
        others = "  ".join(
            f"{who} {x['median']:.3f} ({x['ratio']:.2f} x C)" for who, x in figures.items() if who != "c"
        )
        print(f"{name:24} C {figures['c']['median']:.3f} us  {others}", file=sys.stderr)
    write_json(options.json, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
