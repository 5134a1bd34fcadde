"""What packages are made of for tests: the sdist and the wheel, each once in a session, whatever number of processes.

A plugin of conftest.py: the fixtures are there for every test.
"""

import fcntl
import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root():
    """Return the folder of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def clean_environment():
    """Return an environment without a CUDA toolkit, without this suite's fake driver, and without other packages."""
    hidden = {"CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV"}
    environment = {
        name: value for name, value in os.environ.items() if name not in hidden and not name.startswith("MADSPACE_")
    }
    folders = [folder for folder in environment["PATH"].split(os.pathsep) if not (Path(folder) / "nvcc").exists()]
    return environment | {"PATH": os.pathsep.join(folders)}


def run(command, cwd, environment):
    """Return the output of a command that must succeed."""
    command = [str(word) for word in command]
    answer = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=900)
    assert answer.returncode == 0, f"{' '.join(command)}\n{answer.stdout[-8000:]}\n{answer.stderr[-8000:]}"
    return answer.stdout + answer.stderr


def skip_outside_ci(reason):
    """Skip on a machine that lacks something, fail in CI, which must lack nothing."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@functools.cache
def without_index():
    """Say why pip reaches no package index; empty where it does."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "wheel==0.45.1"]
    with tempfile.TemporaryDirectory() as folder:
        answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    return f"no package index within reach: {answer.stderr[-500:]}" if answer.returncode else ""


@pytest.fixture(scope="session")
def package_index():
    """Skip where pip reaches no package index."""
    if reason := without_index():
        skip_outside_ci(reason)


@pytest.fixture(scope="session")
def made_once(request, tmp_path_factory):
    """Return ``made_once(name, make)``: the folder that ``make(folder)`` has filled, in the process that came first.

    The others wait for it; where it failed, the next one tries.
    """
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if hasattr(request.config, "workerinput") else own

    def made(name, make):
        folder = shared / name
        folder.mkdir(exist_ok=True)
        with (shared / f"{name}.made").open("a+") as note:
            fcntl.flock(note, fcntl.LOCK_EX)
            note.seek(0)
            if not note.read():
                make(folder)
                note.write("made")
        return folder

    return made


@pytest.fixture(scope="session")
def sdist(made_once, package_index, clean_environment):
    """Return the source distribution."""

    def make(folder):
        run([sys.executable, "-m", "build", "--sdist", "--outdir", folder, ROOT], folder, clean_environment)

    (archive,) = made_once("sdist", make).glob("*.tar.gz")
    return archive


@pytest.fixture(scope="session")
def built(made_once, sdist, clean_environment):
    """Return the wheel that pip makes of the sdist in isolation, and what pip printed."""

    def make(folder):
        command = [sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "--no-cache-dir", "-w", folder, sdist]
        (folder / "log").write_text(run(command, folder, clean_environment))

    folder = made_once("wheel", make)
    (wheel,) = folder.glob("*.whl")
    return wheel, (folder / "log").read_text()
