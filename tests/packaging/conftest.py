"""What the packaging tests share; sdist and wheel are in tests/distributions.py."""

import importlib.util
import sys

import pytest
from distributions import skip_outside_ci


@pytest.fixture(scope="session")
def stubtest():
    """Return the command of mypy's stub checker."""
    if importlib.util.find_spec("mypy") is None:
        skip_outside_ci("mypy is not installed")
    return [sys.executable, "-m", "mypy.stubtest"]
