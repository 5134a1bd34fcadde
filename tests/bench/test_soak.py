"""The soak runs from end to end on the fake driver, and notices leaks."""

import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = pytest.mark.fake

SOAK = f"""
import sys
sys.path.insert(0, {str(BENCHMARKS)!r})
import soak
soak.SIZES = (1, 256, 4096)     # this driver keeps freed memory from reuse
CHANGE
sys.exit(soak.main(["--operations", "3000", "--json", sys.argv[1]]))
"""
LEAKS = {
    "pool_used_bytes": """
kept = []
def free(self):
    if self.buffers:
        kept.append(self.buffers.pop())
soak.Soak.free = free
""",
    "file_descriptors": """
import os
kept = []
soak.Soak.make_event = lambda self: kept.append(os.dup(0))
""",
    "python_blocks": """
kept = []
soak.Soak.make_event = lambda self: kept.append([object() for _ in range(100)])
""",
}


def run_soak(run_python, tmp_path, change=""):
    """Return how the soak ended and what it wrote."""
    path = tmp_path / "soak.json"
    done = run_python(SOAK.replace("CHANGE", change).replace("sys.argv[1]", repr(str(path))))
    return done, json.loads(path.read_text())


def test_soak(run_python, tmp_path):
    done, result = run_soak(run_python, tmp_path)
    assert (done.returncode, done.stderr, done.faults) == (0, "", [])
    assert result["grown"] == {}
    assert result["before"]["pool_used_bytes"] == result["after"]["pool_used_bytes"] == 0
    (live,) = [line for line in done.report if line.startswith("live ")]
    assert "device_memory=0" in live
    assert "GROWN" not in done.stdout


@pytest.mark.parametrize("figure", LEAKS)
def test_soak_notices(run_python, tmp_path, figure):
    done, result = run_soak(run_python, tmp_path, LEAKS[figure])
    assert done.returncode == 1, done.stderr
    assert figure in result["grown"]
    assert f"{figure} " in next(line for line in done.stdout.splitlines() if line.endswith("GROWN"))
