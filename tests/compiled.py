"""Libraries that tests compile: once per content and user, by the process that comes first."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def compiled(name, sources, arguments, text=""):
    """Compile a library where that has not been done yet, and return its path.

    Parameters
    ----------
    name : str
        Its file name.
    sources : list of Path
        The files that it depends on.
    arguments : callable
        Takes an empty folder, for anything the compiler is to find there, and returns the compiler's arguments but for
        the output.
    text : str
        What it depends on beside them.
    """
    content = b"".join(path.read_bytes() for path in sources) + text.encode()
    digest = hashlib.sha256(content).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "madspace-tests"
    target = cache / digest / name
    if target.exists():
        return target
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise RuntimeError(f"{name}: no C++ compiler found (g++ or c++ on PATH, or CXX)")
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return target
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            made = Path(scratch) / name
            command = [*compiler.split(), *map(str, arguments(Path(scratch))), "-o", str(made)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{name}: {' '.join(command)} failed:\n{done.stderr}")
            made.replace(target)
    return target
