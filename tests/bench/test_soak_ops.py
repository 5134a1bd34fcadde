"""The soak of the ops runs from end to end on the CPU and on the fake driver, and notices leaks."""

import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

SOAK = f"""
import sys
sys.path.insert(0, {str(BENCHMARKS)!r})
import soak_ops
kept = []
CHANGE
sys.exit(soak_ops.main(["--operations", "NUMBER", "--device", "DEVICE", "--json", "FILE"]))
"""
KEEP = "soak_ops.OpsSoak.refused = lambda self: kept.append({})"
LEAKS = {
    "python_blocks": KEEP.format("[object() for _ in range(1000)]"),
    "file_descriptors": "import os\n" + KEEP.format("os.dup(0)"),
    "resident_bytes": KEEP.format("b'x' * (1 << 20)"),
}
# The fake driver keeps freed memory from reuse, and a log.
FAKE = "soak_ops.LIMITS['resident_bytes'] = 1 << 30\n"
HANDLES = FAKE + KEEP.format("soak_ops.madspace.Event()")
MEMORY = FAKE + KEEP.format("self.mapping.map_forward(self.libraries['tensors'].inputs)")


def run_soak(run_python, tmp_path, device, change="", n=4000):
    """Return how the soak ended and what it wrote."""
    path = tmp_path / "soak.json"
    code = SOAK.replace("CHANGE", change).replace("NUMBER", str(n)).replace("DEVICE", device)
    done = run_python(code.replace("FILE", str(path)))
    assert path.exists(), done.stderr
    return done, json.loads(path.read_text())


def test_on_the_cpu(run_python, tmp_path):
    done, result = run_soak(run_python, tmp_path, "cpu")
    assert (done.returncode, done.stderr, done.faults) == (0, "", [])
    assert result["grown"] == {}
    assert {"tensors", "numpy"} <= set(result["libraries"])
    assert (result["before"]["handles"], result["after"]["handles"]) == (0, 0)
    assert "GROWN" not in done.stdout


@pytest.mark.needs("torch")
def test_torch_takes_part(run_python, tmp_path):
    _, result = run_soak(run_python, tmp_path, "cpu", n=500)
    assert "torch" in result["libraries"]


@pytest.mark.parametrize("figure", LEAKS)
def test_leaks_on_the_cpu_are_noticed(run_python, tmp_path, figure):
    done, result = run_soak(run_python, tmp_path, "cpu", LEAKS[figure])
    assert done.returncode == 1, done.stderr
    assert figure in result["grown"]
    assert f"{figure} " in next(line for line in done.stdout.splitlines() if line.endswith("GROWN"))


@pytest.mark.fake
def test_on_the_fake_driver(run_python, tmp_path):
    """Its kernels do nothing; streams, events and memory come and go."""
    done, result = run_soak(run_python, tmp_path, "cuda", FAKE)
    assert (done.returncode, done.stderr, done.faults) == (0, "", [])
    assert result["grown"] == {}
    assert result["before"]["handles"] == result["after"]["handles"] > 0
    (live,) = [line for line in done.report if line.startswith("live ")]
    assert "device_memory=0" in live


@pytest.mark.fake
@pytest.mark.parametrize(
    ("figure", "change"), [("handles", HANDLES), ("pool_used_bytes", MEMORY)], ids=["handles", "memory"]
)
def test_leaks_on_a_device_are_noticed(run_python, tmp_path, figure, change):
    done, result = run_soak(run_python, tmp_path, "cuda", change)
    assert done.returncode == 1, done.stderr
    assert figure in result["grown"]
