"""What a caller-owned workspace saves in KDA: the same call with and without one, `out` and states given in both.

    python benchmarks/bench_workspace.py [--device cpu|cuda] [--cases NAME,...] [--kinds own,torch] [--json-out FILE]
                                         [--quick] [--warmup N] [--host-iterations N] [--e2e-repeats N]
                                         [--calls-per-repeat N] [--cuda-iterations N] [--profile-calls N]
                                         [--memory-calls N]

Per case, kind of arrays (`madspace.Tensor`, torch where it is installed) and way (automatic, reuse), in microseconds:
"host": enqueue of one call into a drained queue; "e2e": a batch of calls and the wait for them, per call; "stream": by
events around a batch. Both ways and a raw C launch of an empty kernel are sampled in turn. Beside these: allocations
per call (the pool's count, or torch's profiler), bytes that calls add to the peak, whether both ways and a replayed
graph give the same bits, and what FlashKDA's formula would ask for. The table is Markdown.
"""

import argparse
import sys
from typing import Any

import workspace_calls
from harness import interleaved, pin, provenance, write_json
from kda_cases import SMALL, WORKSPACE_CASES, Case, Reference, chosen, host_inputs

import madspace

WAYS = ("automatic", "reuse")


def measure(case: Case, kind: str, device: str, twin: Any, options: argparse.Namespace) -> dict[str, Any]:
    """All figures of a case and a kind of arrays."""
    inputs = host_inputs(case, "fast")
    ways = {way: workspace_calls.make(kind, inputs, device, twin, reuse=way == "reuse") for way in WAYS}
    for call in ways.values():
        for _ in range(options.warmup):
            call()
        call.wait()
    Reference(inputs, case.heads).check(*ways["automatic"].results())
    result: dict[str, Any] = {way: {} for way in WAYS}
    samples = {f"{way} host": call.host for way, call in ways.items()}
    if twin is not None:
        samples["c host"] = twin.launch(1, wait=False)
    _store(result, interleaved(samples, options.host_iterations))
    batch = options.calls_per_repeat
    batches = {f"{way} e2e": call.batch_and_wait(batch) for way, call in ways.items()}
    _store(result, interleaved(batches, options.e2e_repeats))
    if device != "cpu":
        n = options.cuda_iterations
        _store(result, interleaved({f"{way} stream": call.batch_by_events(n) for way, call in ways.items()}, 5))
    for way, call in ways.items():
        result[way]["allocations_per_call"] = call.allocations(options.profile_calls)
        result[way]["added_peak_bytes"] = call.added_peak(options.memory_calls)
    result["equal"] = ways["automatic"].bits() == ways["reuse"].bits()
    result["replay_equal"] = all(call.replay_is_equal() for call in ways.values()) if device != "cpu" else None
    result["workspace_bytes"] = madspace.kda.get_workspace_size(
        case.batches * case.tokens, case.heads, case.n_sequences
    )
    result["flashkda_workspace_bytes"] = case.flashkda_workspace()
    if twin is not None:
        for way in WAYS:
            result[way]["host_ratio_to_c"] = result[way]["host"]["median"] / result["c"]["host"]["median"]
    return result


def _store(result: dict[str, Any], figures: dict[str, dict[str, float]]) -> None:
    for name, figure in figures.items():
        way, what = name.split()
        result.setdefault(way, {})[what] = figure


def table(cases: dict[str, dict[str, Any]]) -> str:
    """Return the Markdown table."""
    head = (
        "case", "kind", "way", "host p50", "p95", "x C", "e2e p50", "p95", "stream", "allocations", "added peak",
        "workspace", "FlashKDA's", "equal",
    )  # fmt: skip
    rows = [head, ("---",) * len(head)]
    for name, result in cases.items():
        equal = "yes" if result["equal"] and result["replay_equal"] is not False else "NO"
        for way in WAYS:
            x = result[way]
            ratio = f"{x['host_ratio_to_c']:.2f}" if "host_ratio_to_c" in x else "-"
            stream = f"{x['stream']['median']:.1f}" if "stream" in x else "-"
            host, e2e = ((f"{x[what]['median']:.2f}", f"{x[what]['p95']:.2f}") for what in ("host", "e2e"))
            sizes = (f"{result['workspace_bytes']:,}", f"{result['flashkda_workspace_bytes']:,}")
            memory = (f"{x['allocations_per_call']:g}", f"{x['added_peak_bytes']:,}")
            rows.append((*name.split(), way, *host, ratio, *e2e, stream, *memory, *sizes, equal))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table and write the result; 1 where results differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if madspace.is_available() else "cpu")
    parser.add_argument("--cases", metavar="NAME,...", help="those of upstream by default; small ones on the CPU")
    parser.add_argument("--kinds", metavar="NAME,...", help="own and torch by default, where that is installed")
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--host-iterations", type=int, default=501)
    parser.add_argument("--e2e-repeats", type=int, default=51)
    parser.add_argument("--calls-per-repeat", type=int, default=20)
    parser.add_argument("--cuda-iterations", type=int, default=100)
    parser.add_argument("--profile-calls", type=int, default=20)
    parser.add_argument("--memory-calls", type=int, default=20)
    parser.add_argument("--json-out", "--json", dest="json", metavar="FILE", help="write the result there as well")
    parser.add_argument("--quick", action="store_true", help="few rounds")
    options = parser.parse_args(arguments)
    if options.quick:
        options.warmup, options.host_iterations, options.e2e_repeats, options.cuda_iterations = 2, 15, 3, 10
        options.calls_per_repeat = 4
    gpu = options.device != "cpu"
    kinds = options.kinds.split(",") if options.kinds else [k for k in workspace_calls.KINDS if _installed(k)]
    twin = None
    if gpu:
        from c_twin import CTwin

        twin = CTwin(madspace.Device(0))
        pin()  # not earlier: threads that the driver has started for itself keep all cores
    default = WORKSPACE_CASES if gpu else tuple(name for name in SMALL if name in WORKSPACE_CASES)
    result: dict[str, Any] = {"provenance": provenance(options.device), "options": vars(options), "cases": {}}
    for case in chosen(options.cases, default):
        for kind in kinds:
            result["cases"][f"{case.name} {kind}"] = measure(case, kind, options.device, twin, options)
            print(f"{case.name} {kind}", file=sys.stderr)
    sys.stdout.write(table(result["cases"]))
    if options.json:
        write_json(options.json, result)
    return 0 if all(x["equal"] and x["replay_equal"] is not False for x in result["cases"].values()) else 1


def _installed(kind: str) -> bool:
    return kind == "own" or workspace_calls.has_torch()


if __name__ == "__main__":
    sys.exit(main())
