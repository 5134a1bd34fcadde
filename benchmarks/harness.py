"""What every benchmark needs: provenance, timing of calls, JSON."""

import gc
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import madspace

ROOT = Path(__file__).resolve().parents[1]


def provenance(device: str) -> dict[str, Any]:
    """Everything that a reader needs to judge or repeat a measurement."""
    info: dict[str, Any] = {
        "date": date.today().isoformat(),
        "commit": os.environ.get("MADSPACE_COMMIT") or _output("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"),
        "sources": _source_hash(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "madspace": madspace.__version__,
        "processor": _processor(),
        "cores": os.cpu_count(),
    }
    if device != "cpu":
        query = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit"
        info["gpu"] = _output("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader")
        manifest = ROOT / "madspace" / "_cubins" / "manifest.json"
        if manifest.exists():
            info["cubins"] = {m["file"]: m["sha256"][:16] for m in json.loads(manifest.read_text())["modules"]}
    return info


def _source_hash() -> str:
    digest = hashlib.sha256()
    for folder in ("cuda_src", "madspace"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".h", ".cu", ".def", ".cpp", ".pyx", ".pxd", ".py"} and "include/madspace" not in str(
                path.relative_to(ROOT / folder)
            ):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def pin() -> None:
    """Keep this thread, and what it starts from now on, on one core; not the first one, which serves interrupts."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


@contextmanager
def quiet_interpreter() -> Iterator[None]:
    """No garbage collection meanwhile."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def timed(call: Callable[[], Any], repeats: int) -> float:
    """Seconds per call of a run of calls."""
    clock = time.perf_counter
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


def interleaved(calls: dict[str, Callable[[], float]], rounds: int) -> dict[str, dict[str, float]]:
    """Measure several things in turn, so that drifts of the machine meet all of them; statistics in microseconds.

    Each round begins with another one, so that none always comes behind the same neighbour's mess.
    """
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    with quiet_interpreter():
        for k in range(rounds):
            start = k % len(order)
            for name in order[start:] + order[:start]:
                samples[name].append(calls[name]() * 1e6)
    return {
        name: {"median": float(np.median(x)), "p05": float(np.quantile(x, 0.05)), "p95": float(np.quantile(x, 0.95))}
        for name, x in samples.items()
    }


def write_json(path: str | None, result: dict[str, Any]) -> None:
    """Write a result, or print it where there is no path."""
    text = json.dumps(result, indent=1, sort_keys=True) + "\n"
    if path is None:
        sys.stdout.write(text)
    else:
        Path(path).write_text(text)
