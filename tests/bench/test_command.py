"""``python -m madspace bench`` beside the measuring: its arguments, comparisons, drawings, and what it costs others."""

import copy
import io
import json
import os
import sys
from pathlib import Path

import pytest

from madspace import __main__ as command_line
from madspace.bench import command, compare, terminal, timing

ROOT = Path(__file__).resolve().parents[2]
LATENCY = ROOT / "benchmarks" / "results" / "latency_h200.json"
PHASESPACE = ROOT / "benchmarks" / "results" / "phasespace_h200.json"


def bench(*arguments):
    """Return the exit status of the command."""
    return command_line.main(["bench", *map(str, arguments)])


def spread(median, tail=0.02):
    return {"median": median, "p05": median * (1 - tail), "p95": median * (1 + tail)}


def each(median):
    return {f"p{q:02}": median * (1 + q / 100) for q in (5, 25, 50, 75, 95, 99)} | {"max": 3 * median}


def result():
    """Return a result of everything, of one case each."""
    launch = {who: spread(x) | {"each": each(x)} for who, x in (("c", 3.5), ("madspace", 4.0))}
    launch["madspace"]["ratio"] = 4.0 / 3.5
    batch = {name: spread(x) for name, x in (("device", 8.0), ("host", 7.0), ("call_and_wait", 15.0))}
    batch |= {"c_launch": spread(3.5), "c_launch_and_wait": spread(9.0), "floor": 5.6, "share_of_floor": 0.7}
    tokens = {"replay": spread(43.0), "host": spread(9.0), "c_launch": spread(3.5)}
    tokens |= {"floor": 0.1, "share_of_floor": 0.002, "host_ratio_to_c": 2.6}
    way = {"host": spread(9.0), "e2e": spread(50.0), "stream": spread(43.0)}
    way |= {"host_ratio_to_c": 2.6, "allocations_per_call": 0, "added_peak_bytes": 0}
    workspace = {"automatic": way, "reuse": way, "c": {"host": spread(3.5)}, "equal": True, "replay_equal": True}
    workspace |= {"workspace_bytes": 374400, "flashkda_workspace_bytes": 235136}
    return {
        "provenance": {"gpu": "one", "processor": "two"},
        "benchmarks": {
            "latency": {"cases": {"launch": launch}, "left_out": {"cupy": "it is not installed"}},
            "workspace": {"cases": {"fixed-t256-h1 own": workspace}},
            "phasespace": {"cases": {"cuda order=[0, 1] power=0.8 n=100000": batch}},
            "kda": {"cases": {"cuda fixed-t256-h1 fast": tokens}},
        },
    }


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a result into a file."""

    def write(name, result):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(result))
        return path

    return write


def slowed(benchmark, figure, factor):
    """Return the result with one figure of one benchmark slower by a factor."""
    new = copy.deepcopy(result())
    (case,) = new["benchmarks"][benchmark]["cases"].values()
    for word in figure.split():
        case = case[word]
    case.update({key: value * factor for key, value in case.items() if isinstance(value, float)})
    return new


PLANTED = [
    ("latency", "madspace"),
    ("workspace", "reuse e2e"),
    ("phasespace", "device"),
    ("phasespace", "host"),
    ("kda", "replay"),
]


@pytest.mark.parametrize(("benchmark", "figure"), PLANTED, ids=" ".join)
def test_planted_slowdown_is_caught(written, capsys, benchmark, figure):
    old, new = written("old", result()), written("new", slowed(benchmark, figure, 1.2))
    assert bench("--results", new, "--compare", old) == 1
    assert f"{figure} is 20 % slower than before" in capsys.readouterr().err
    assert bench("--results", new, "--compare", old, "--threshold", 25) == 0
    assert bench("--results", old, "--compare", new) == 0


def test_equal_results_pass_with_ratio_and_spread(written, capsys):
    path = written("same", result())
    assert bench("--results", path, "--compare", path) == 0
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("| latency launch")]
    assert [x.strip() for x in line.split("|")[2:-1]] == ["madspace", "4.000", "4.000", "1.000", "+-2 %", "1.000"]


def test_slower_host_is_no_slower_library(written):
    new = slowed("latency", "madspace", 1.5)
    c = new["benchmarks"]["latency"]["cases"]["launch"]["c"]
    c["median"] *= 1.5
    (found,) = [x for x in compare.compared(result(), new) if x.benchmark == "latency"]
    assert (found.drift, found.ratio) == (1.5, pytest.approx(1.0))


def test_other_machine_is_named(written, capsys):
    new = result()
    new["provenance"]["gpu"] = "another"
    assert bench("--results", written("new", new), "--compare", written("old", result())) == 0
    assert "gpu: one -> another" in capsys.readouterr().out


def test_nothing_in_common_is_a_failure(written, capsys):
    new = {"benchmarks": {"kda": result()["benchmarks"]["kda"]}}
    assert bench("--results", written("new", new), "--compare", LATENCY) == 1
    assert "no case in common" in capsys.readouterr().err


@pytest.mark.parametrize("path", [LATENCY, PHASESPACE], ids=lambda path: path.stem)
def test_results_of_before_compare(path, capsys):
    assert bench("--results", path, "--compare", path) == 0
    assert len(capsys.readouterr().out.splitlines()) > 20


@pytest.mark.needs("matplotlib")
def test_drawings(written, tmp_path, capsys):
    folder = tmp_path / "drawn" / "here"
    path = written("result", result())
    assert bench("--results", path, "--compare", path, "--plot", folder) == 0
    names = ["comparison", "kda", "latency", "phasespace", "share_of_floor", "workspace"]
    assert sorted(x.name for x in folder.iterdir()) == [f"{name}.png" for name in names]
    assert all(x.read_bytes().startswith(b"\x89PNG") for x in folder.iterdir())
    assert capsys.readouterr().out.count("drawn: ") == 6


@pytest.mark.needs("matplotlib")
@pytest.mark.parametrize("path", [LATENCY, PHASESPACE], ids=lambda path: path.stem)
def test_results_of_before_are_drawn(path, tmp_path):
    assert bench("--results", path, "--plot", tmp_path) == 0
    assert list(tmp_path.glob("*.png"))


def test_drawing_without_matplotlib_says_what_to_install(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert bench("latency", "--device", "cpu", "--plot", tmp_path) == 2  # and measures nothing before
    assert "madspace-driver[bench]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kda", "--cases", "none"], "--cases: nothing in kda fits 'none'"),
        (["kda", "--gates", "late"], "--gates: expected some of fast, slow, got late"),
        (["workspace", "--kinds", "jax"], "--kinds: expected some of own, torch, cupy, got jax"),
        (["all", "--peers", "cupy,nobody"], "got nobody"),
        (["all", "--json", "no/such/folder/x.json"], "no/such/folder is no folder"),
        (["all", "--json", "/"], "--json: / is a folder"),
        (["--results", LATENCY, "--json", "/"], "--json: / is a folder"),
        (["--results", "missing.json"], "missing.json"),
        (["--compare", __file__], "test_command.py"),
    ],
    ids=lambda x: x[-1] if isinstance(x, list) else "",
)
def test_wrong_arguments_are_named(arguments, message, capsys):
    assert bench(*arguments, "--device", "cpu") == 2
    assert message in capsys.readouterr().err


def launch_of(figures):
    return {"benchmarks": {"latency": {"cases": {"launch": {"madspace": figures}}}}}


@pytest.mark.parametrize("option", ["--results", "--compare"])
@pytest.mark.parametrize(
    "content",
    [
        [1, 2],
        {"benchmarks": {"latency": 5}},
        {"benchmarks": {"latency": {"cases": []}}},
        {"provenance": None} | launch_of(spread(4.0)),
        launch_of(4.0),
        launch_of({"median": 4.0}),
        launch_of(spread(4.0) | {"median": "4"}),
    ],
    ids=lambda content: json.dumps(content)[:60],
)
def test_file_that_is_no_result_is_refused(written, monkeypatch, capsys, option, content):
    monkeypatch.setattr(command, "measure", lambda options: pytest.fail("measured before the file was read"))
    assert bench(option, written("other", content)) == 2
    assert "expected a result of a benchmark" in capsys.readouterr().err


def test_results_of_another_benchmark_are_named(written, capsys):
    assert bench("--results", written("other", {"benchmarks": {"unheard_of": {"cases": {}}}})) == 2
    assert "expected results of latency, workspace, phasespace, kda, got unheard_of" in capsys.readouterr().err


@pytest.mark.needs("matplotlib")
def test_file_in_the_place_of_a_folder_for_drawings(written, capsys):
    path = written("result", result())
    assert bench("--results", path, "--plot", path) == 2
    assert f"--plot: {path} is no folder" in capsys.readouterr().err


def test_failure_of_one_benchmark_is_told_and_the_others_go_on(monkeypatch, tmp_path, capsys):
    def broken(options, progress):
        raise RuntimeError("momentum is not conserved")

    monkeypatch.setattr("madspace.bench.phasespace.run", broken)
    path = tmp_path / "result.json"
    cases = "dlpack_*_numpy,cpu*"
    assert bench("all", "--device", "cpu", "--cases", cases, "--rounds", "1", "--quick", "--json", path) == 1
    assert "phasespace: RuntimeError: momentum is not conserved" in capsys.readouterr().err
    assert set(json.loads(path.read_text())["benchmarks"]) == {"latency"}


@pytest.mark.fake
def test_missing_compiler_is_named(device, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    assert bench("latency", "--device", "cuda") == 1
    assert "no C compiler found" in capsys.readouterr().err


def test_missing_driver_is_told_in_one_line(run_python):
    code = "import sys; from madspace.__main__ import main; sys.exit(main(['bench', 'kda', '--device', 'cuda']))"
    done = run_python(code, driver=None, env={"MADSPACE_DRIVER_LIBRARY": "/nowhere/libcuda.so.1"})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("madspace bench: ")


def test_import_of_the_package_brings_no_benchmark(run_python):
    code = "import sys, madspace; print([x for x in sys.modules if x.startswith('madspace.bench')])"
    assert run_python(code).stdout.strip() == "[]"


def test_progress_on_a_terminal_only():
    file = io.StringIO()
    progress = terminal.Progress(file)
    progress.start("title")
    assert file.getvalue() == ""
    file.isatty = lambda: True
    progress = terminal.Progress(file)
    progress.start("title")
    for i in range(100):
        progress.step(i, 100)
    progress.clear()
    assert "title  95 %" in file.getvalue()
    assert file.getvalue().count("\r") == 22
    assert file.getvalue().endswith("\x1b[K")


def test_table_is_aligned_markdown():
    assert terminal.table(["name", "n"], [["a", "1.0"], ["longer", "22.25"]]) == (
        "| name   |     n |\n| ------ | ----: |\n| a      |   1.0 |\n| longer | 22.25 |\n"
    )


def test_order_changes_from_round_to_round():
    order = []
    calls = {name: lambda name=name: order.append(name) or 1e-6 for name in "abc"}
    assert timing.interleaved(calls, 3)["a"] == pytest.approx(spread(1.0, 0))
    assert "".join(order) == "abcbcacab"


def test_pinned_thread_gets_its_cores_back():
    cores = os.sched_getaffinity(0)
    with timing.pinned():
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == cores
