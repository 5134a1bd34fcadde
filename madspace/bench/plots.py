"""Drawings of benchmark results; they need matplotlib, which nothing else in the package does."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from madspace.bench.command import UsageError, sections_of
from madspace.bench.compare import compared

FLOOR_STYLE: dict[str, Any] = {"color": "black", "linestyle": "--", "label": "bandwidth of a copy"}
Lines = dict[str, list[tuple[float, float]]]  # points by the name of a line


def require() -> Any:
    """Return matplotlib's module of figures.

    Raises
    ------
    UsageError
        When it is not installed.
    """
    try:
        # Not pyplot: that would choose a window system and keep figures.
        return importlib.import_module("matplotlib.figure")
    except ImportError:
        raise UsageError(
            "--plot: matplotlib is not installed; python3 -m pip install 'madspace-driver[bench]' brings it"
        ) from None


def draw(result: dict[str, Any], folder: Path, old: dict[str, Any] | None = None) -> list[Path]:
    """Draw what a result has: one file for each benchmark, and one for the comparison with an older result.

    Parameters
    ----------
    result, old : dict
        Of ``python -m madspace bench``.
    folder : Path
        Made where it is missing.

    Returns
    -------
    list of Path
        PNG files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, figure in _figures(result, old):
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=120)
        drawn.append(path)
    return drawn


def _figures(result: dict[str, Any], old: dict[str, Any] | None) -> Iterator[tuple[str, Any]]:
    sections = sections_of(result)
    if "latency" in sections:
        yield "latency", latency(sections["latency"]["cases"])
    if "phasespace" in sections:
        lines, floors = by_batch(sections["phasespace"]["cases"])
        yield "phasespace", against_size(lines, floors, "events", "Phase-space mappings")
    if "kda" in sections:
        lines, floors = by_tokens(sections["kda"]["cases"])
        yield "kda", against_size(lines, floors, "tokens", "Kimi Delta Attention forward, one sequence")
    if "workspace" in sections:
        yield "workspace", workspaces(sections["workspace"]["cases"])
    shares = {
        f"{benchmark} {name}": case["share_of_floor"]
        for benchmark, section in sections.items()
        for name, case in section["cases"].items()
        if "share_of_floor" in case
    }
    if shares:
        yield "share_of_floor", share_of_floor(shares)
    if old is not None and (comparison := compared(old, result)):
        ratios = {f"{x.benchmark} {x.case}: {x.figure}": (x.ratio, x.spread) for x in comparison}
        yield "comparison", old_against_new(ratios)


def latency(cases: dict[str, Any]) -> Any:
    """Draw the distribution per call: boxes from 25 to 75 %, whiskers from 5 to 95 %, marks at 99 % and the maximum."""
    names = list(cases)
    figure, axes = _figure(len(names) * 0.42)
    for offset, who, colour in ((-0.2, "c", "tab:grey"), (0.2, "madspace", "tab:blue")):
        boxes, places, tails = [], [], []
        for i, name in enumerate(names):
            found = cases[name].get(who, {}).get("each") or _from_runs(cases[name].get(who))
            if found is None:
                continue
            # An operation may cost less than reading the clock; a logarithm needs something.
            q = {key: max(x, 1e-3) for key, x in found.items()}
            places.append(i + offset)
            boxes.append({"med": q["p50"], "q1": q["p25"], "q3": q["p75"], "whislo": q["p05"], "whishi": q["p95"]})
            tails.append((q["p99"], q["max"]))
        if not boxes:
            continue
        style = {"facecolor": colour, "alpha": 0.6}
        axes.bxp(
            boxes, positions=places, widths=0.32, orientation="horizontal", showfliers=False, patch_artist=True,
            boxprops=style, medianprops={"color": "black"}, manage_ticks=False,
        )  # fmt: skip
        for marker, which in (("|", 0), (".", 1)):
            label = f"{'C' if who == 'c' else who}, {('99 %', 'maximum')[which]}"
            axes.scatter([t[which] for t in tails], places, marker=marker, color=colour, label=label)
    _name_rows(axes, names)
    axes.set_xscale("log")
    axes.set_xlabel("microseconds per call")
    axes.set_title("Latency: boxes 25 to 75 %, whiskers 5 to 95 %")
    axes.legend(loc="lower right", fontsize="small")
    return figure


def _from_runs(figures: dict[str, float] | None) -> dict[str, float] | None:
    """Return quantiles of a result that has those of runs only."""
    if figures is None:
        return None
    low, middle, high = figures["p05"], figures["median"], figures["p95"]
    return {"p05": low, "p25": low, "p50": middle, "p75": high, "p95": high, "p99": high, "max": high}


def by_batch(cases: dict[str, Any]) -> tuple[Lines, Lines]:
    """Return times of mappings against batch sizes, and their floors."""
    return _by_size(cases, r"(?P<line>.*) n=(?P<size>\d+)", ("device", "fresh_outputs", "upstream_default"))


def by_tokens(cases: dict[str, Any]) -> tuple[Lines, Lines]:
    """Return times of attention against the tokens of one sequence, by number of heads, and their floors."""
    return _by_size(cases, r"\w+ fixed-t(?P<size>\d+)-(?P<line>h\d+ \w+)", ("replay", "call", "flash_kda", "fla_chunk"))


def _by_size(cases: dict[str, Any], pattern: str, figures: tuple[str, ...]) -> tuple[Lines, Lines]:
    lines: Lines = {}
    floors: Lines = {}
    for name, case in cases.items():
        match = re.fullmatch(pattern, name)
        if match is None:
            continue
        size = float(match["size"])
        for figure in figures:
            if figure in case:
                lines.setdefault(f"{match['line']}: {figure}", []).append((size, case[figure]["median"]))
        if "floor" in case:
            floors.setdefault(match["line"], []).append((size, case["floor"]))
    return lines, floors


def against_size(lines: Lines, floors: Lines, what: str, title: str) -> Any:
    """Draw times against sizes, both on logarithmic axes, with the times that the bytes take at least."""
    figure, axes = _figure(5)
    for name, points in lines.items():
        axes.plot(*zip(*sorted(points), strict=True), marker="o", label=name)
    # Mappings of as many particles share a floor, and so do gates.
    different = {tuple(sorted(points)) for points in floors.values()}
    for i, floor in enumerate(sorted(different)):
        style = FLOOR_STYLE if i == 0 else FLOOR_STYLE | {"label": None}
        axes.plot(*zip(*floor, strict=True), marker="x", **style)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(what)
    axes.set_ylabel("microseconds")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    if lines:
        axes.legend(fontsize="x-small")
    return figure


def workspaces(cases: dict[str, Any]) -> Any:
    """Draw the host time of a call with automatic allocation and with a caller-owned workspace."""
    names = list(cases)
    figure, axes = _figure(len(names) * 0.6)
    for offset, way in ((-0.2, "automatic"), (0.2, "reuse")):
        found = [cases[name][way]["host"] for name in names]
        medians = [x["median"] for x in found]
        tails = [
            [max(0.0, x["median"] - x["p05"]) for x in found],
            [max(0.0, x["p95"] - x["median"]) for x in found],
        ]
        axes.barh([i + offset for i in range(len(names))], medians, 0.38, xerr=tails, label=way)
    _name_rows(axes, names)
    axes.set_xlabel("microseconds of the host per call, with 5 % tails")
    axes.set_title("KDA: automatic allocation and reuse of a workspace")
    axes.legend(fontsize="small")
    return figure


def share_of_floor(shares: dict[str, float]) -> Any:
    """Draw the share of the bandwidth floor per kernel and size."""
    figure, axes = _figure(len(shares) * 0.3)
    axes.barh(range(len(shares)), [100 * x for x in shares.values()], color="tab:green")
    _name_rows(axes, list(shares))
    axes.axvline(100, **FLOOR_STYLE)
    axes.set_xlabel("per cent: time of a copy of as many bytes over time on the device")
    axes.set_title("Share of the floor")
    return figure


def old_against_new(ratios: dict[str, tuple[float, float]]) -> Any:
    """Draw new over old for each figure, with the spread of the samples."""
    figure, axes = _figure(len(ratios) * 0.28)
    places = list(range(len(ratios)))
    values, spreads = [x[0] for x in ratios.values()], [abs(x[0] * x[1]) for x in ratios.values()]
    axes.errorbar(values, places, xerr=spreads, fmt="o", capsize=2)
    _name_rows(axes, list(ratios))
    axes.axvline(1, color="black")
    axes.set_xlabel("new / old: slower to the right")
    axes.set_title("Compared with the earlier result")
    return figure


def _figure(height: float) -> tuple[Any, Any]:
    figure = require().Figure(figsize=(9, max(3.0, 1.5 + height)), layout="constrained")
    return figure, figure.subplots()


def _name_rows(axes: Any, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names, fontsize="small")
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="x", alpha=0.3)
