"""What a caller-owned workspace saves in KDA: the same call with and without one, `out` and states given in both.

Per case, kind of arrays (`madspace.Tensor`, torch where it is installed) and way (automatic, reuse), in microseconds:
"host": enqueue of one call of 16, the first of them into a drained queue; "e2e": a batch of calls and the wait for
them, per call; "stream": by events around a batch. Both ways and launches of the same kernels from C are sampled in
turn. Beside these: allocations per call (the pool's count, or torch's profiler), bytes that calls add to the peak,
whether both ways and a replayed graph give the same bits, and what FlashKDA's formula would ask for. The table is
Markdown.
"""

import argparse
from contextlib import nullcontext
from typing import Any

import madspace
from madspace.bench import workspace_calls
from madspace.bench.c_twin import CTwin
from madspace.bench.command import COUNTS
from madspace.bench.kda_cases import SMALL, WORKSPACE_CASES, Case, Reference, chosen, host_inputs
from madspace.bench.terminal import Progress, table
from madspace.bench.timing import ENQUEUED, interleaved, pinned

WAYS = ("automatic", "reuse")


def measure(case: Case, kind: str, device: str, twin: CTwin | None, options: argparse.Namespace) -> dict[str, Any]:
    """All figures of a case and a kind of arrays."""
    inputs = host_inputs(case, "fast", options.seed)
    ways = {way: workspace_calls.make(kind, inputs, device, twin, reuse=way == "reuse") for way in WAYS}
    for call in ways.values():
        for _ in range(options.warmup):
            call()
        call.wait()
    Reference(inputs, case.heads).check(*ways["automatic"].results())
    result: dict[str, Any] = {way: {} for way in WAYS}
    samples = {f"{way} host": call.host for way, call in ways.items()}
    if twin is not None:
        samples["c host"] = workspace_calls.c_host(workspace_calls.make("own", inputs, device, twin, reuse=True), twin)
    _store(result, interleaved(samples, -(-options.host_iterations // ENQUEUED)))
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
    # A capture by another library gives no memory: there a call needs its own workspace.
    replayed = [call for way, call in ways.items() if kind == "own" or way == "reuse"]
    result["replay_equal"] = all(call.replay_is_equal() for call in replayed) if device != "cpu" else None
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


def tables(result: dict[str, Any]) -> str:
    """Return the Markdown table."""
    cases = result["cases"]
    head = (
        "case", "kind", "way", "host p50", "p95", "x C", "e2e p50", "p95", "stream", "allocations", "added peak",
        "workspace", "FlashKDA's", "equal",
    )  # fmt: skip
    rows = []
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
    return table(head, rows)


def run(options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Measure the cases on one device.

    Parameters
    ----------
    options : argparse.Namespace
        ``device``, ``cases`` (patterns of names), ``kinds``, ``quick``, ``seed`` and those of `COUNTS`.
    progress : Progress
        Told what is measured.

    Returns
    -------
    dict
        ``cases`` by name and kind of arrays; ``problems``, where results differ.
    """
    gpu = options.device != "cpu"
    asked = options.kinds.split(",") if options.kinds else [k for k in workspace_calls.KINDS if _installed(k)]
    kinds = [kind for kind in workspace_calls.KINDS if kind in asked]
    counts = argparse.Namespace(seed=options.seed)
    for option, values in COUNTS.items():
        name = option[2:].replace("-", "_")
        given = getattr(options, name)
        setattr(counts, name, values[options.quick] if given is None else given)
    twin = CTwin(madspace.Device(0)) if gpu else None
    default = WORKSPACE_CASES if gpu and not options.quick else tuple(x for x in SMALL if x in WORKSPACE_CASES)
    cases: dict[str, Any] = {}
    for case in chosen(options.cases, default):
        for kind in kinds:
            name = f"{case.name} {kind}"
            progress.start(f"workspace: {name}")
            with pinned() if gpu else nullcontext():  # on the CPU all threads work
                cases[name] = measure(case, kind, options.device, twin, counts)
    problems = [
        f"{name}: results with and without a workspace, or of a replayed graph, differ"
        for name, x in cases.items()
        if not x["equal"] or x["replay_equal"] is False
    ]
    return {"cases": cases, "options": vars(counts), "problems": problems}


def _installed(kind: str) -> bool:
    return kind == "own" or workspace_calls.has_torch()
