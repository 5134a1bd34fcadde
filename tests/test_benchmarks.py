"""The benchmarks run from end to end, on the fake driver, where figures mean nothing; the soak notices leaks."""

import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
pytestmark = pytest.mark.fake

LATENCY = f"""
import sys
sys.path.insert(0, {str(BENCHMARKS)!r})
import bench_latency
sys.argv = ["bench_latency.py", "--quick", "--peers", "", "--json", sys.argv[1]]
sys.exit(bench_latency.main())
"""
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


def test_latency(run_python, tmp_path):
    path = tmp_path / "latency.json"
    script = LATENCY.replace("sys.argv[1]", repr(str(path)))
    done = run_python(script)
    assert (done.returncode, done.stdout, done.faults) == (0, "", []), done.stderr
    result = json.loads(path.read_text())
    assert {"provenance", "rounds", "left_out", "cases"} == set(result)
    for name in ("launch", "launch_and_wait", "allocate_and_free_1_kib", "allocate_and_free_16_mib", "record_and_wait"):
        case = result["cases"][name]
        assert case["madspace"]["ratio"] == pytest.approx(case["madspace"]["median"] / case["c"]["median"])
        assert case["madspace"]["p05"] <= case["madspace"]["median"] <= case["madspace"]["p95"]
        assert f"{name} " in done.stderr


def test_latency_names_the_peers_that_are_missing(run_python, tmp_path):
    path = tmp_path / "latency.json"
    script = LATENCY.replace("sys.argv[1]", repr(str(path))).replace('"--peers", ""', '"--peers", "no such library"')
    assert run_python(script).returncode == 0
    assert "no such library" in json.loads(path.read_text())["left_out"]["no such library"]


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


PHASESPACE = f"""
import sys
sys.path.insert(0, {str(BENCHMARKS)!r})
import bench_phasespace
bench_phasespace.SIZES = (100, 1000, 3000)
sys.argv = ["bench_phasespace.py", "--quick", "--device", "cpu", "--json", PATH]
sys.exit(bench_phasespace.main())
"""


def test_phasespace_on_the_cpu(run_python, tmp_path):
    path = tmp_path / "phasespace.json"
    done = run_python(PHASESPACE.replace("PATH", repr(str(path))), driver=None)
    assert done.returncode == 0, done.stderr
    cases = json.loads(path.read_text())["cases"]
    assert len(cases) == 6
    for name, case in cases.items():
        assert case["ns_per_event"] > 0, name
        assert case["out"]["p05"] <= case["out"]["median"] <= case["out"]["p95"]


KDA = f"""
import sys
sys.path.insert(0, {str(BENCHMARKS)!r})
if "DEVICE" == "cuda":
    import fake_driver
    from kda.places import register_kernels
    register_kernels(fake_driver.load())
import SCRIPT
SCRIPT.COLD_BYTES = 1e6     # each call is real work here
sys.exit(SCRIPT.main(["--quick", "--device", "DEVICE", "--json", PATH, *ARGUMENTS]))
"""


def run_kda(run_python, path, script, device, *arguments):
    """Run a benchmark of KDA; return how it ended, and what it wrote."""
    code = KDA.replace("DEVICE", device).replace("SCRIPT", script).replace("PATH", repr(str(path)))
    done = run_python(code.replace("ARGUMENTS", repr(list(arguments))), driver="fake" if device == "cuda" else None)
    assert (done.returncode, done.faults) == (0, []), done.stderr
    return done, json.loads(path.read_text())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_kda(run_python, tmp_path, device):
    names = ("fixed-t256-h1", "varlen-17-33-65-257-h4")
    arguments = ("--cases", ",".join(names), "--peers", "flash_kda")
    done, result = run_kda(run_python, tmp_path / "kda.json", "bench_kda", device, *arguments)
    assert set(result["cases"]) == {f"{device} {name} {gate}" for name in names for gate in ("fast", "slow")}
    for name, case in result["cases"].items():
        assert name in done.stderr
        assert case["error"]["out"] < 4e-3
        measured = case["call" if device == "cpu" else "replay"]
        assert measured["p05"] <= measured["median"] <= measured["p95"]
        if device == "cuda":
            assert (case["sets_of_buffers"] > 1) == ("cold" in case) == ("t256" in name)
            assert "flash_kda" in case["left_out"]


def test_kda_refuses_unknown_cases(run_python, tmp_path):
    code = KDA.replace("DEVICE", "cpu").replace("SCRIPT", "bench_kda").replace("PATH", "''")
    done = run_python(code.replace("ARGUMENTS", "['--cases', 'none']"), driver=None)
    assert done.returncode == 1
    assert "--cases: unknown ['none']" in done.stderr


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_workspace(run_python, tmp_path, device):
    arguments = ("--cases", "fixed-t256-h1", "--kinds", "own")
    done, result = run_kda(run_python, tmp_path / "workspace.json", "bench_workspace", device, *arguments)
    (case,) = result["cases"].values()
    assert case["equal"]
    assert case["replay_equal"] is (None if device == "cpu" else True)
    assert (case["reuse"]["allocations_per_call"], case["reuse"]["added_peak_bytes"]) == (0, 0)
    if device == "cuda":
        assert case["automatic"]["allocations_per_call"] == 1
        assert case["automatic"]["added_peak_bytes"] > 0
    assert case["flashkda_workspace_bytes"] == 235_136
    head, rule, *rows = done.stdout.splitlines()
    assert len(rows) == 2
    assert all(line.count("|") == head.count("|") for line in (rule, *rows))
