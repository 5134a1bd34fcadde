"""What the packaging tests share: the repository, a clean environment, a place to fetch packages from."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


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


def skip_outside_ci(reason):
    """Skip on a machine that lacks something, fail in CI, which must lack nothing."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def stubtest():
    """Return the command of mypy's stub checker."""
    if importlib.util.find_spec("mypy") is None:
        skip_outside_ci("mypy is not installed")
    return [sys.executable, "-m", "mypy.stubtest"]


@pytest.fixture(scope="session")
def package_index(tmp_path_factory):
    """Skip where pip reaches no package index."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "wheel==0.45.1"]
    folder = tmp_path_factory.mktemp("index")
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    if answer.returncode:
        skip_outside_ci(f"no package index within reach: {answer.stderr[-500:]}")
