"""Every GPU test and every shipped kernel image has a passing run on a GPU, or a stated reason why not."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import ledger
import pytest

ROOT = Path(__file__).resolve().parent.parent
SHA = "0" * 64
OTHER = "1" * 64
PASSED = {"outcome": "passed", "device": "GPU", "date": "2026-01-01T00:00Z"}


@pytest.fixture(scope="module")
def gpu_tests(tmp_path_factory):
    """Return the ids of all GPU tests of the suite, whatever part of it runs now."""
    target = tmp_path_factory.mktemp("ledger") / "gpu-tests"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "--gpu-tests-to",
        str(target),
        str(ROOT / "tests"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target.read_text().splitlines()


def test_all_gpu_tests_and_images_are_covered(gpu_tests):
    pending = ledger.read_pending(ledger.PENDING.read_text()) if ledger.PENDING.exists() else {}
    found = ledger.problems(gpu_tests, ledger.shipped_images(), ledger.read(), pending)
    assert not found, "\n".join(found)


def test_the_suite_has_gpu_tests(gpu_tests):
    assert any("test_memory" in test for test in gpu_tests)
    assert not any("test_ledger" in test or "test_fake_driver" in test for test in gpu_tests)


@pytest.mark.parametrize(
    ("fixtures", "marks", "params", "counts"),
    [
        (["device"], [], {}, True),
        ([], ["gpu"], {}, True),
        ([], [], {}, False),
        (["device", "fake"], [], {}, False),
        (["device"], ["fake"], {}, False),
        (["device", "place"], [], {"place": "cpu"}, False),
        (["device", "place"], [], {"place": "cuda"}, True),
    ],
)
def test_what_counts_as_a_gpu_test(fixtures, marks, params, counts):
    class Item:
        fixturenames = fixtures
        callspec = SimpleNamespace(params=params)

        def get_closest_marker(self, name):
            return name if name in marks else None

    assert ledger.is_gpu_test(Item()) is counts


def make(tests=(), cubins=()):
    entries = {
        file: {"sha256": sha, "device": "GPU", "date": "2026-01-01T00:00Z"} for file, sha in dict(cubins).items()
    }
    return {"tests": dict(tests), "cubins": entries}


def test_nothing_missing_is_no_problem():
    book = make({"t.py::a": PASSED}, {"k.sm_90a.cubin": SHA})
    assert ledger.problems(["t.py::a"], {"k.sm_90a.cubin": SHA}, book, {}) == []


def test_a_test_without_a_run_is_named():
    assert ledger.problems(["t.py::a"], {}, make(), {}) == ["t.py::a: missing in the GPU ledger"]


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_a_run_that_did_not_pass_is_no_cover(outcome):
    book = make({"t.py::a": PASSED | {"outcome": outcome}})
    assert ledger.problems(["t.py::a"], {}, book, {}) == [f"t.py::a: {outcome} in the GPU ledger"]


def test_an_image_that_changed_since_its_run_is_named():
    (problem,) = ledger.problems([], {"k.sm_90a.cubin": SHA}, make({}, {"k.sm_90a.cubin": OTHER}), {})
    assert problem.startswith("k.sm_90a.cubin: no passing GPU run")


@pytest.mark.parametrize(
    "name", ["tests/t.py::a[1]", "tests/t.py::a", "tests/t.py", "tests/"], ids=["id", "test", "file", "folder"]
)
def test_pending_covers_by_prefix(name):
    assert ledger.problems(["tests/t.py::a[1]"], {}, make(), {name: "why"}) == []


def test_pending_names_end_at_boundaries():
    assert len(ledger.problems(["tests/t.py::ab"], {}, make(), {"tests/t.py::a": "why"})) == 2


def test_pending_images_that_are_not_built_here_are_no_problem():
    assert ledger.problems([], {}, make(), {"k.sm_100": "no such device here"}) == []
    (problem,) = ledger.problems([], {"k.sm_100.cubin": SHA}, make({}, {"k.sm_100.cubin": SHA}), {"k.sm_100": "why"})
    assert "remove the line" in problem


@pytest.mark.parametrize("file", ["k.sm_80.cubin", "k.compute_80.ptx"])
def test_pending_names_images_by_stem_and_target(file):
    assert ledger.problems([], {file: SHA}, make(), {ledger.image_name(file): "no such device here"}) == []


def test_a_pending_line_without_a_gap_is_stale():
    (problem,) = ledger.problems(["t.py::a"], {}, make({"t.py::a": PASSED}), {"t.py::a": "why"})
    assert "remove the line" in problem


def test_pending_lines_need_a_reason():
    assert ledger.read_pending("# Title\n\n- `t.py::a`: no device\n") == {"t.py::a": "no device"}
    with pytest.raises(ValueError, match="line 1"):
        ledger.read_pending("- `t.py::a`:\n")


def test_merge_keeps_old_entries_and_leaves_its_input_alone():
    book = make({"t.py::a": PASSED}, {"k.cubin": SHA})
    merged = ledger.merge(book, {"t.py::b": "passed"}, {"l.cubin": OTHER}, "GPU", "today")
    assert set(merged["tests"]) == {"t.py::a", "t.py::b"}
    assert set(merged["cubins"]) == {"k.cubin", "l.cubin"}
    assert set(book["tests"]) == {"t.py::a"}


def test_a_skip_does_not_undo_a_pass():
    book = make({"a": PASSED})
    assert ledger.merge(book, {"a": "skipped"}, {}, "GPU", "today")["tests"] == {"a": PASSED}
    assert ledger.merge(book, {"a": "failed"}, {}, "GPU", "today")["tests"]["a"]["outcome"] == "failed"


@pytest.mark.parametrize(
    "outcomes", [{"a": "passed", "b": "failed"}, {"a": "skipped"}, {}], ids=["failed", "skipped", "none"]
)
def test_images_count_only_in_a_clean_session(outcomes):
    assert ledger.merge(make(), outcomes, {"k.cubin": SHA}, "GPU", "today")["cubins"] == {}


def test_write_and_read_agree(tmp_path):
    book = make({"t.py::a": PASSED}, {"k.cubin": SHA})
    ledger.write(book, tmp_path / "results" / "ledger.json")
    assert ledger.read(tmp_path / "results" / "ledger.json") == book
    assert ledger.read(tmp_path / "none.json") == make()


def test_recorder_keeps_the_worst_phase(pytestconfig):
    class Report:
        def __init__(self, when, outcome):
            self.nodeid, self.when = "t.py::a", when
            self.failed, self.skipped, self.passed = (outcome == kind for kind in ("failed", "skipped", "passed"))

    recorder = ledger.Recorder(pytestconfig)
    recorder.gpu_tests = {"t.py::a"}
    for when, outcome in (("setup", "passed"), ("call", "passed"), ("teardown", "failed")):
        recorder.pytest_runtest_logreport(Report(when, outcome))
    assert recorder.outcomes == {"t.py::a": "failed"}
