"""Host time of single runtime operations, beside the same driver calls from C and, where installed, other libraries.

Everything runs in one process, on one device, in one context. "median" and its tails are of means of short runs of
equal operations into a drained queue, so that the device never holds the host up; "each" are quantiles of operations
that were timed one by one. The cost of the empty loop, or of reading the clock, is subtracted on both sides. All
operations are sampled in turn, in an order that changes from round to round, on one core, without garbage collection.
Figures are in microseconds; "ratio" is the median over that of C.
"""

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import madspace
from madspace.bench import latency_peers
from madspace.bench.c_api import CApi
from madspace.bench.c_twin import CTwin
from madspace.bench.latency_cases import COPIES, NATIVE, QUICK_COPIES, Case, Setup, make_cases
from madspace.bench.terminal import Progress, table
from madspace.bench.timing import Measurement, Statement, Timed, distribution, pinned, sampled, spread

ROUNDS, QUICK_ROUNDS = 201, 31
RUN, QUICK_RUN = 20, 8  # operations of a sample: far fewer than a queue holds
Group = tuple[int, int]  # operations of a sample and rounds: what is sampled in turn


class Context:
    """What surrounds a sample: a drained queue, the device's context current or not; nothing on the CPU."""

    def __init__(self, twin: CTwin | None, device: madspace.Device | None) -> None:
        self._twin, self._device = twin, device

    def enter(self, current: bool) -> AbstractContextManager[None]:
        """Return the context of a sample in Python."""
        if self._twin is None:
            return nullcontext()
        return self._twin.context() if current else self._twin.no_context()

    def measurements(self, timed: Timed, run: int, case: Case, native: bool) -> dict[str, Measurement]:
        """Return how to sample something: a run of operations, and operations one by one."""

        def inside(sample: Callable[[int], float | list[float]]) -> Measurement:
            def measure() -> float | list[float]:
                if self._device is not None:
                    self._device.synchronize()
                if case.prepare is not None:
                    case.prepare()
                with nullcontext() if native else self.enter(case.current):
                    return sample(run)

            return measure

        return {"run": inside(timed.mean), "each": inside(timed.each)}


def grouped(cases: dict[str, Case], run: int, rounds: int) -> dict[Group, dict[str, Case]]:
    """Return the cases that are sampled in turn, by operations of a sample and rounds."""
    groups: dict[Group, dict[str, Case]] = {}
    for name, case in cases.items():
        group = min(run, case.run or run), max(3, round(rounds * case.effort))
        groups.setdefault(group, {})[name] = case
    return groups


def measure(
    cases: dict[str, Case], empty: dict[str, Timed], context: Context, group: Group, progress: Progress
) -> dict[str, Any]:
    """Sample a group of cases and subtract the empty loops.

    Parameters
    ----------
    empty : dict
        What does nothing, in C (``c``) and in Python (``python``).
    """
    run, rounds = group
    samples: dict[str, Measurement] = {}

    def add(name: str, who: str, timed: Timed, case: Case, native: bool) -> None:
        for kind, sample in context.measurements(timed, run, case, native).items():
            samples[f"{name} {who} {kind}"] = sample

    for who, timed in empty.items():
        add("empty", who, timed, Case({}), who == "c")
    for name, case in cases.items():
        for who, timed in case.who.items():
            add(name, who, timed, case, who in NATIVE)
    sampled(samples, max(1, rounds // 20))  # first uses load code, fill pools and wake clocks
    found = sampled(samples, rounds, progress)
    result: dict[str, Any] = {}
    for name, case in cases.items():
        result[name] = {}
        for who in case.who:
            nothing = "empty c" if who in NATIVE else "empty python"
            offsets = {kind: spread(found[f"{nothing} {kind}"])["median"] for kind in ("run", "each")}
            figures: dict[str, Any] = spread(found[f"{name} {who} run"], offsets["run"])
            figures["each"] = distribution(found[f"{name} {who} each"], offsets["each"])
            result[name][who] = figures
        for who, figures in result[name].items():
            if who != "c" and "c" in result[name]:
                figures["ratio"] = figures["median"] / result[name]["c"]["median"]
    return result


def api_of(twin: CTwin, device: madspace.Device) -> tuple[CApi | None, str]:
    """Return the operations through the C API, and why there are none."""
    try:
        return CApi(twin, device), ""
    except RuntimeError as error:  # no headers of Python
        return None, str(error)


def run(options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Measure what the options ask for.

    Parameters
    ----------
    options : argparse.Namespace
        ``device``, ``cases`` (patterns of names), ``peers``, ``rounds`` and ``quick``.
    progress : Progress
        Told how far it is.

    Returns
    -------
    dict
        ``cases``, by name and by who does it; ``rounds``; ``left_out``, the reasons why peers are missing.
    """
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    length = QUICK_RUN if options.quick else RUN
    empty: dict[str, Timed] = {"python": Statement("pass", {})}
    setup, no_api = None, ""
    context = Context(None, None)
    if options.device != "cpu":
        device = madspace.Device(0)
        twin = CTwin(device)
        api, no_api = api_of(twin, device)
        setup = Setup(twin, device, QUICK_COPIES if options.quick else COPIES, api)
        empty["c"] = twin.operation("nothing")
        context = Context(twin, device)
    cases, left_out = make_cases(setup, options.cases)
    if setup is not None and setup.api is None:
        left_out["c_api"] = no_api
    if setup is not None:
        peers = [name for name in latency_peers.PEERS if options.peers is None or name in options.peers.split(",")]
        with context.enter(True):
            left_out |= latency_peers.add_to(cases, peers, setup)
    result: dict[str, Any] = {}
    groups = grouped(cases, length, rounds)
    for number, (group, members) in enumerate(groups.items(), 1):
        progress.start(f"latency: {len(members)} operations, part {number} of {len(groups)}")
        with pinned():
            result |= measure(members, empty, context, group, progress)
    ordered = {name: result[name] for name in cases}
    return {"cases": ordered, "rounds": rounds, "left_out": left_out}


def tables(result: dict[str, Any]) -> str:
    """Return the table for people: medians, ratios to C, and quantiles of single operations."""
    peers = list(dict.fromkeys(who for case in result["cases"].values() for who in case))
    others = [who for who in peers if who not in ("c", "madspace")]
    head = ["us", "C", "madspace", "x C", "p50", "p95", "p99", "max", "C's p99", *others]
    rows = []
    for name, case in result["cases"].items():
        mine, c = case.get("madspace"), case.get("c")
        cells = [_cell(c), _cell(mine), f"{mine['ratio']:.2f}" if mine and "ratio" in mine else "-"]
        cells += [_cell(mine and mine.get("each"), key) for key in ("p50", "p95", "p99", "max")]
        cells.append(_cell(c and c.get("each"), "p99"))
        rows.append([name, *cells, *(_cell(case.get(who)) for who in others)])
    return table(head, rows)


def _cell(figures: dict[str, float] | None, key: str = "median") -> str:
    return f"{figures[key]:.3f}" if figures else "-"
