"""Old results against new ones: by how much each case has become slower, and how far the samples of both are spread."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from madspace.bench.command import sections_of
from madspace.bench.terminal import table

# What is ours in the cases of a benchmark; the rest is C and other libraries.
OWN = {
    "latency": ("madspace",),
    "phasespace": ("device", "cold", "host", "host_fresh_outputs", "call_and_wait", "out", "fresh_outputs"),
    "kda": ("replay", "cold", "host", "call"),
    "workspace": ("automatic host", "automatic e2e", "automatic stream", "reuse host", "reuse e2e", "reuse stream"),
}
# What of C was measured in turn with it, on the same host: its drift is the host's. What waits for the device has none,
# since most of that time is the device's.
BESIDE = {
    "madspace": "c",
    "host": "c_launch",
    "host_fresh_outputs": "c_launch",
    "automatic host": "c host",
    "reuse host": "c host",
}


@dataclass(frozen=True)
class Comparison:
    """One figure of a case in both results, in microseconds.

    Attributes
    ----------
    old, new : float
        Medians.
    drift : float
        New over old of the C beside it, 1 where there is none.
    spread : float
        Half the distance of the 5 % tails over the median; the larger one of both results.
    """

    benchmark: str
    case: str
    figure: str
    old: float
    new: float
    drift: float
    spread: float

    @property
    def ratio(self) -> float:
        """New over old, without the host's own drift."""
        return self.new / self.old / self.drift


def figures_of(section: dict[str, Any], benchmark: str) -> Iterator[tuple[str, str, dict[str, float], float | None]]:
    """Yield case, figure, its statistics and the median of the C beside it."""
    for name, case in section["cases"].items():
        for figure in OWN[benchmark]:
            found = _at(case, figure)
            # What costs no more than the empty loop has no ratio.
            if found is not None and found.get("median", 0.0) > 0:
                beside = _at(case, BESIDE.get(figure, ""))
                yield name, figure, found, None if beside is None or beside["median"] <= 0 else beside["median"]


def _at(case: Any, path: str) -> dict[str, float] | None:
    for word in path.split(" "):
        if not isinstance(case, dict) or word not in case:
            return None
        case = case[word]
    return dict(case)


def compared(old: dict[str, Any], new: dict[str, Any]) -> list[Comparison]:
    """Return all figures that both results have.

    Parameters
    ----------
    old, new : dict
        Results of ``python -m madspace bench``.
    """
    found = []
    before = sections_of(old)
    for benchmark, section in sections_of(new).items():
        if benchmark not in before:
            continue
        known = {(case, figure): (x, c) for case, figure, x, c in figures_of(before[benchmark], benchmark)}
        for case, figure, now, c in figures_of(section, benchmark):
            if (case, figure) not in known:
                continue
            then, c_then = known[case, figure]
            drift = c / c_then if c and c_then else 1.0
            spread = max(_spread(then), _spread(now))
            found.append(Comparison(benchmark, case, figure, then["median"], now["median"], drift, spread))
    return found


def _spread(figures: dict[str, float]) -> float:
    return (figures["p95"] - figures["p05"]) / 2 / figures["median"]


def problems(comparison: list[Comparison], threshold: float) -> list[str]:
    """Return one line for each figure that is slower by more than a threshold, or that there is nothing to compare."""
    if not comparison:
        return ["--compare: the results have no case in common"]
    return [
        f"{x.benchmark} {x.case}: {x.figure} is {100 * (x.ratio - 1):.0f} % slower than before"
        for x in comparison
        if not x.ratio <= 1 + threshold
    ]


def tables(comparison: list[Comparison], old: dict[str, Any], new: dict[str, Any]) -> str:
    """Return the table for people, the slowest first, below what differs between the machines."""
    lines = ["compared with an earlier result (us; ratio: new / old, less the drift of C beside it)\n"]
    for what in ("gpu", "device", "processor", "cuda"):
        then, now = (x.get("provenance", {}).get(what) for x in (old, new))
        if then and now and then != now:
            lines.append(f"{what}: {then} -> {now}\n")
    head = ["case", "figure", "old", "new", "C's drift", "spread", "ratio"]
    rows = [
        [
            f"{x.benchmark} {x.case}",
            x.figure,
            f"{x.old:.3f}",
            f"{x.new:.3f}",
            f"{x.drift:.3f}",
            f"+-{100 * x.spread:.0f} %",
            f"{x.ratio:.3f}",
        ]
        for x in sorted(comparison, key=lambda x: -x.ratio)
    ]
    return "\n".join(lines) + "\n" + table(head, rows)
