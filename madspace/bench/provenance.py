"""Where a result comes from: everything that a reader needs to judge or repeat a measurement."""

import hashlib
import json
import os
import platform
import subprocess
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import madspace
from madspace.core._inventory import driver_version

PACKAGE = Path(madspace.__file__).resolve().parent
ROOT = PACKAGE.parent  # of the repository, where this is one
PEERS = (
    "cuda-bindings", "cuda-core", "cupy", "cupy-cuda13x", "torch", "numba-cuda", "triton", "jax",
    "flash-linear-attention", "flash-kda",
)  # fmt: skip
GPU_QUERY = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit"


def provenance(device: str) -> dict[str, Any]:
    """Return date, commit, versions and machine; with GPU, driver, clocks, power limit and cubins where one is used."""
    info: dict[str, Any] = {
        "date": date.today().isoformat(),
        "commit": _commit(),
        "sources": _source_hash(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "madspace": madspace.__version__,
        "peers": _versions(),
        "processor": _processor(),
        "cores": os.cpu_count(),
    }
    if device != "cpu":
        info["gpu"] = _output("nvidia-smi", f"--query-gpu={GPU_QUERY}", "--format=csv,noheader")
        info["device"] = madspace.Device(0).name
        number = driver_version()
        info["cuda"] = f"{number // 1000}.{number % 1000 // 10}"
        manifest = PACKAGE / "_cubins" / "manifest.json"
        if manifest.exists():
            info["cubins"] = {m["file"]: m["sha256"][:16] for m in json.loads(manifest.read_text())["modules"]}
    return info


def _commit() -> str:
    """Commit of the source tree; an installed package has none, whatever repository the environment lies in."""
    if given := os.environ.get("MADSPACE_COMMIT"):
        return given
    if not (ROOT / "cuda_src").is_dir():
        return ""
    return _output("git", "-C", str(ROOT), "describe", "--always", "--dirty")


def _source_hash() -> str:
    """Hash of the sources that are there: all of them in a source tree, the Python files of an installed package."""
    digest = hashlib.sha256()
    for folder in (ROOT / "cuda_src", PACKAGE):
        for path in sorted(folder.rglob("*")):
            shown_twice = "include/madspace" in str(path.relative_to(folder)) and folder == PACKAGE
            if path.suffix in {".h", ".cu", ".def", ".cpp", ".pyx", ".pxd", ".py"} and not shown_twice:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _versions() -> dict[str, str]:
    found = {}
    for name in PEERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
