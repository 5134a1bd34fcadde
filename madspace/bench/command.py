"""``python -m madspace bench``: measure, print tables, write JSON, draw, compare with an earlier result."""

import argparse
import importlib
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import madspace

NAMES = ("latency", "workspace", "phasespace", "kda")
# What of the options does not change a measurement.
SILENT = ("json", "plot", "compare", "threshold", "results", "run", "command")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("benchmark", nargs="?", choices=(*NAMES, "all"), default="all", help="default: all")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: the first GPU, the CPU where there is none")
    parser.add_argument("--cases", metavar="PATTERN,...", help="names of cases to measure, with * and ?")
    parser.add_argument("--quick", action="store_true", help="few rounds, small cases, no other libraries")
    parser.add_argument("--rounds", type=_positive, metavar="N", help="rounds of samples, instead of the usual number")
    parser.add_argument("--seed", type=int, default=1, help="seed of random inputs (default: 1)")
    report = parser.add_argument_group("report")
    report.add_argument("--json", "--json-out", metavar="FILE", help="write the result there")
    report.add_argument("--plot", metavar="DIR", help="draw the result into files there; needs matplotlib")
    report.add_argument("--compare", metavar="FILE", help="compare with an earlier result; status 1 where slower")
    report.add_argument(
        "--threshold", type=float, default=10.0, metavar="PERCENT", help="how much slower is too slow (default: 10)"
    )
    report.add_argument("--results", metavar="FILE", help="report on this result instead of measuring")
    others = parser.add_argument_group("other implementations")
    others.add_argument(
        "--peers", metavar="NAME,...", help="libraries to measure where installed: all, none with --quick"
    )
    others.add_argument(
        "--kinds",
        metavar="NAME,...",
        help="of arrays: own, torch, cupy; those that are installed, own with --quick",
    )
    others.add_argument("--upstream-python", metavar="PATH", help="interpreter with PyPI's madspace 0.2.1 (phasespace)")
    single = parser.add_argument_group("kda and workspace")
    single.add_argument("--gates", metavar="NAME,...", default="fast,slow", help="default: fast,slow")
    for option, (default, quick) in COUNTS.items():
        single.add_argument(option, type=_positive, metavar="N", help=f"default: {default}, {quick} with --quick")


# Options of the workspace benchmark, as upstream names them: how often, and how often with --quick.
COUNTS = {
    "--warmup": (20, 2),
    "--host-iterations": (501, 15),
    "--e2e-repeats": (51, 3),
    "--calls-per-repeat": (20, 4),
    "--cuda-iterations": (100, 10),
    "--profile-calls": (20, 20),
    "--memory-calls": (20, 20),
}


def run(options: argparse.Namespace) -> int:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        What `add_arguments` declares.

    Returns
    -------
    int
        0; 1 where a benchmark failed, found wrong results, or was slower than before; 2 for wrong arguments.
    """
    try:
        if options.plot is not None:
            importlib.import_module("madspace.bench.plots").require()  # before minutes of work
        _check_files(options)
        old = None if options.compare is None else _read(options.compare)
        result = _read(options.results) if options.results is not None else measure(options)
    except UsageError as error:
        print(f"madspace bench: {error}", file=sys.stderr)
        return 2
    problems = list(result.get("problems", ()))
    sections = sections_of(result)
    print(f"{_origin(result)}\n")
    for name, section in sections.items():
        took = f" ({section['seconds']:.0f} s)" if "seconds" in section else ""
        print(f"{name}{took}\n\n{_module(name).tables(section)}")
        if left_out := section.get("left_out"):
            print("".join(f"left out: {what}: {reason}\n" for what, reason in left_out.items()))
        problems += section.get("problems", [])
    if options.json is not None and sections:
        write(options.json, result)
    if options.plot is not None:
        for path in importlib.import_module("madspace.bench.plots").draw(result, Path(options.plot), old):
            print(f"drawn: {path}")
    if old is not None:
        compare = importlib.import_module("madspace.bench.compare")
        comparison = compare.compared(old, result)
        print(compare.tables(comparison, old, result))
        problems += compare.problems(comparison, options.threshold / 100)
    for problem in problems:
        print(f"madspace bench: {problem}", file=sys.stderr)
    return 1 if problems else 0


class UsageError(Exception):
    """Wrong arguments: files that cannot be read, cases that do not exist, packages that are missing."""


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run the benchmarks that the options name.

    Returns
    -------
    dict
        ``benchmarks``: results by name, each with its ``cases`` and the ``seconds`` that it took; ``provenance``,
        ``settings``, ``problems``.

    Raises
    ------
    UsageError
        When no case fits, or a name of something else is unknown.
    DriverNotFoundError
        When a GPU is asked for where there is no driver.
    """
    from madspace.bench.provenance import provenance
    from madspace.bench.terminal import Progress

    _check_names(options)
    if options.quick:  # others take longer to import than everything to measure
        options.peers = options.peers or ""
        options.kinds = options.kinds or "own"
    if options.device is None:
        options.device = "cuda" if madspace.is_available() and madspace.device_count() else "cpu"
    origin = provenance(options.device)  # first, so that a missing driver is noticed and a broken one loses nothing
    progress = Progress()
    names = NAMES if options.benchmark == "all" else (options.benchmark,)
    benchmarks: dict[str, Any] = {}
    problems: list[str] = []
    for name in names:
        progress.start(name)
        start = time.monotonic()
        try:
            found = _module(name).run(options, progress)
        except Exception as error:  # the others are worth having; what went wrong is told, and is in the exit status
            progress.clear()
            traceback.print_exc()
            problems.append(f"{name}: {type(error).__name__}: {error}")
            continue
        finally:
            progress.clear()
        if found["cases"]:
            benchmarks[name] = found | {"seconds": time.monotonic() - start}
    if not benchmarks and not problems:
        raise UsageError(f"--cases: nothing in {', '.join(names)} fits {options.cases!r}")
    settings = {name: value for name, value in vars(options).items() if name not in SILENT}
    return {
        "provenance": origin,
        "settings": settings,
        "benchmarks": benchmarks,
        "problems": problems,
    }


def sections_of(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the results of a file by the name of the benchmark, also of files that hold one and do not name it."""
    if "benchmarks" in result:
        return dict(result["benchmarks"])
    figures = [set(case) for case in result["cases"].values()]
    for name, mark in (
        ("latency", {"c"}),
        ("workspace", {"reuse"}),
        ("kda", {"replay"}),
        ("kda", {"ns_per_token_head"}),
    ):
        if any(mark <= found for found in figures):
            return {name: result}
    return {"phasespace": result}


def _origin(result: dict[str, Any]) -> str:
    """Return one line that says where a result comes from."""
    found = result.get("provenance", {})
    machine = found.get("gpu") or found.get("device") or found.get("processor") or "unknown machine"
    version, commit, day = (found.get(name) or "unknown" for name in ("madspace", "commit", "date"))
    return f"{machine}; madspace {version}, commit {commit}, {day}"


def write(path: str, result: dict[str, Any]) -> None:
    """Write a result."""
    Path(path).write_text(json.dumps(result, indent=1) + "\n")


def _check_names(options: argparse.Namespace) -> None:
    """Refuse names that nothing knows, before minutes of work."""
    known = {
        "peers": [*_module("latency_peers").PEERS, *_module("kda_peers").PEERS],
        "gates": _module("kda_cases").GATES,
        "kinds": ["own", *_module("phasespace_arrays").PACKAGES],
    }
    for option, names in known.items():
        given = set(filter(None, (getattr(options, option) or "").split(",")))
        if unknown := given - set(names):
            raise UsageError(f"--{option}: expected some of {', '.join(names)}, got {', '.join(sorted(unknown))}")


def _check_files(options: argparse.Namespace) -> None:
    """Refuse files that cannot be written, before minutes of work."""
    if options.json is not None and not Path(options.json).resolve().parent.is_dir():
        raise UsageError(f"--json: {Path(options.json).parent} is no folder")
    if options.json is not None and Path(options.json).is_dir():
        raise UsageError(f"--json: {options.json} is a folder")
    if options.plot is not None and Path(options.plot).exists() and not Path(options.plot).is_dir():
        raise UsageError(f"--plot: {options.plot} is no folder")


def _read(path: str) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads(Path(path).read_text())
        # Whatever is not as it must be shows now, not after minutes of work.
        _origin(result)
        _module("compare").compared(result, result)
        if unknown := set(sections_of(result)) - set(NAMES):
            raise UsageError(f"{path}: expected results of {', '.join(NAMES)}, got {', '.join(sorted(unknown))}")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from None
    except (KeyError, AttributeError, TypeError):
        raise UsageError(f"{path}: expected a result of a benchmark") from None
    return result


def _module(name: str) -> Any:
    return importlib.import_module(f"madspace.bench.{name}")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {value}")
    return value
