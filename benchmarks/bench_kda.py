"""Time of Kimi Delta Attention forward: device time as a replayed graph, host time of a call, share of the byte floor.

    python benchmarks/bench_kda.py [--device cpu|cuda] [--cases NAME,...] [--gates fast,slow] [--peers NAME,...]
                                   [--json FILE] [--quick]

On a GPU, D = 128, bfloat16, float32 states in and out. "replay": one call captured, events around back-to-back replays,
the usual figure; "cold": the same over so many sets of buffers that none is left in the L2 cache when it is used again
(only where a set would fit there); "host": enqueue into a drained queue, beside a raw C launch of an empty kernel.
Fast gates (normal logits) forget within 16 tokens, slow ones (-8) do not: implementations that skip work differ there.
Peers get the same inputs as torch tensors, where they are installed. On the CPU: time of a call on all threads.
Results are checked against a float64 recurrence before anything is timed.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import kda_peers
from harness import interleaved, pin, provenance, timed, write_json
from kda_cases import CASES, GATES, SMALL, Call, Case, Reference, chosen, host_inputs

import madspace

REPLAYS = 20
COLD_BYTES = 160e6  # three times the L2 cache of an H200
MAX_SETS = 256


def replays(graph: Any, stream: madspace.Stream, n_calls: int = 1) -> Callable[[], float]:
    """Return a measurement: seconds per call of back-to-back replays, by events."""
    device = stream.device
    first, last = madspace.Event(device, timing=True), madspace.Event(device, timing=True)
    launches = -(-REPLAYS // n_calls)

    def measure() -> float:
        graph.launch(stream)  # the device must not wait for the host's first launch
        first.record(stream)
        for _ in range(launches):
            graph.launch(stream)
        last.record(stream)
        last.synchronize()
        return last.elapsed_since(first) * 1e-3 / (launches * n_calls)

    return measure


def captured(calls: list[Call], stream: madspace.Stream) -> Any:
    """Return the graph of some calls, one behind the other."""
    for call in calls:
        call(stream=stream)
    stream.synchronize()
    with madspace.capture(stream) as graph:
        for call in calls:
            call(stream=stream)
    return graph.instantiate()


def gpu_case(case: Case, gate: str, twin: Any, peers: list[str], rounds: int) -> dict[str, Any]:
    """All figures of a case, in microseconds."""
    stream = twin.stream
    inputs = host_inputs(case, gate)
    reference = Reference(inputs, case.heads)
    call = Call(inputs, "cuda")
    call(stream=stream)
    stream.synchronize()
    errors = reference.check(*call.results())

    def host() -> float:
        stream.synchronize()
        seconds = timed(lambda: call(stream=stream), 1)
        stream.synchronize()
        return seconds

    graph = captured([call], stream)
    samples = {"replay": replays(graph, stream), "host": host, "c_launch": twin.launch(1, wait=False)}
    sets = [call]
    if case.nbytes() < COLD_BYTES / 2:
        sets += [call.copy() for _ in range(min(MAX_SETS, int(COLD_BYTES // case.nbytes())))]
        samples["cold"] = replays(captured(sets, stream), stream, len(sets))
    made, left_out = kda_peers.measurements(peers, inputs, reference, REPLAYS)
    samples |= made
    interleaved(samples, 1 + rounds // 5)  # wakes clocks
    result: dict[str, Any] = interleaved(samples, rounds)
    result["floor"] = case.floor()
    result["share_of_floor"] = case.floor() / result["replay"]["median"]
    result["host_ratio_to_c"] = result["host"]["median"] / result["c_launch"]["median"]
    result["error"] = {"out": errors[0], "state": errors[1]}
    result["sets_of_buffers"] = len(sets)
    result["left_out"] = left_out
    return result


def cpu_case(case: Case, gate: str, rounds: int) -> dict[str, Any]:
    """Microseconds per call on all threads."""
    inputs = host_inputs(case, gate)
    call = Call(inputs, "cpu")
    call()
    errors = Reference(inputs, case.heads).check(*call.results())

    def once() -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    result: dict[str, Any] = interleaved({"call": once}, rounds)
    result["ns_per_token_head"] = result["call"]["median"] * 1e3 / (case.batches * case.tokens * case.heads)
    result["error"] = {"out": errors[0], "state": errors[1]}
    return result


def line(name: str, result: dict[str, Any]) -> str:
    """Return one line for people."""
    if "call" in result:
        return f"{name}: {result['call']['median']:.0f} us, {result['ns_per_token_head']:.0f} ns per token and head"
    cold = f", cold {result['cold']['median']:.1f}" if "cold" in result else ""
    others = "".join(f", {peer} {result[peer]['median']:.1f}" for peer in kda_peers.PEERS if peer in result)
    return (
        f"{name}: {result['replay']['median']:.1f} us{cold}{others}, {100 * result['share_of_floor']:.0f} % of the "
        f"floor, host {result['host']['median']:.1f} us ({result['host_ratio_to_c']:.2f} x C)"
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the cases of one device and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if madspace.is_available() else "cpu")
    parser.add_argument("--cases", metavar="NAME,...", help="all by default; small ones on the CPU and with --quick")
    parser.add_argument("--gates", metavar="NAME,...", default=",".join(GATES))
    parser.add_argument("--peers", metavar="NAME,...", default=",".join(kda_peers.PEERS), help="measured if installed")
    parser.add_argument("--json", metavar="FILE", help="write the result there instead of printing it")
    parser.add_argument("--quick", action="store_true", help="few rounds, small cases")
    options = parser.parse_args(arguments)
    gpu = options.device != "cpu"
    default = tuple(case.name for case in CASES) if gpu and not options.quick else SMALL
    rounds = 3 if options.quick else 21
    twin = None
    if gpu:
        from c_twin import CTwin

        twin = CTwin(madspace.Device(0))
        pin()  # not earlier: threads that the driver has started for itself keep all cores
    result: dict[str, Any] = {"provenance": provenance(options.device), "rounds": rounds, "cases": {}}
    for case in chosen(options.cases, default):
        for gate in options.gates.split(","):
            name = f"{options.device} {case.name} {gate}"
            if gpu:
                figures = gpu_case(case, gate, twin, [x for x in options.peers.split(",") if x], rounds)
            else:
                figures = cpu_case(case, gate, rounds)
            result["cases"][name] = figures
            print(line(name, figures), file=sys.stderr)
    write_json(options.json, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
