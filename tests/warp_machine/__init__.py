"""Runs the CUDA kernels of KDA on the host, lane by lane (see machine.h), as kernels of the fake driver."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent.parent / "cuda_src"
KERNELS = [f"kda_{stem}_{d}" for stem in ("forward", "prepare", "scan", "decode") for d in (64, 128)]
KERNELS.append("kda_forward_wide_128")


def build() -> Path:
    """Compile the kernels for the host where that has not been done yet; the path of the library."""
    own = sorted([*HERE.glob("*.cpp"), *HERE.glob("*.h")])
    kernels = sorted([*SOURCES.glob("kda/*"), *SOURCES.glob("include/madspace/*")])
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in own + kernels)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "madspace-tests"
    target = cache / digest / "kda.so"
    if target.exists():
        return target
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise RuntimeError("warp machine: no C++ compiler found (g++ or c++ on PATH, or CXX)")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        # The kernels find the machine's instructions beside them instead of the GPU's.
        tree = Path(scratch)
        shutil.copytree(SOURCES / "include", tree / "include")
        shutil.copytree(SOURCES / "kda", tree / "kda")
        shutil.copy(HERE / "ptx.h", tree / "kda" / "ptx.h")
        made = tree / "kda.so"
        flags = ["-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wno-attributes", "-x", "c++"]
        paths = [f"-I{tree}", f"-I{tree / 'kda'}", f"-I{HERE}", str(HERE / "machine.cpp"), str(HERE / "kernels.cpp")]
        done = subprocess.run(
            [*compiler.split(), *flags, *paths, "-o", str(made)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"warp machine: {done.stderr}")
        made.replace(target)
    return target


@functools.cache
def load() -> ctypes.CDLL:
    """Return the library."""
    library = ctypes.CDLL(str(build()))
    library.machine_problem.restype = ctypes.c_char_p
    return library


def is_loaded() -> bool:
    """Tell whether load() was called."""
    return load.cache_info().currsize > 0


def problem() -> str:
    """Return what a kernel did wrong first, and forget it; empty if nothing.

    An address outside, a wait without end, lanes that use memory without being in order.
    """
    return load().machine_problem().decode()


def register(fake) -> None:
    """Let the fake driver's launches of the KDA kernels run here."""
    for name in KERNELS:
        fake.register(name, ctypes.cast(load()[f"twin_{name}"], ctypes.c_void_p).value)
