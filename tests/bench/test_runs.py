"""The benchmarks run from end to end, on the CPU and on the fake driver, where figures mean nothing."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from kda import inputs as kda_inputs
from kda import oracle

import madspace
from madspace.bench import kda_cases, latency_cases

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.fake

RUN = """
import sys
if DEVICE == "cuda":
    import fake_driver
    from kda.places import register_host_kernels
    from phasespace import conftest
    register_host_kernels(fake_driver.load())
    conftest._register_host_kernels()
    import warp_machine
    warp_machine.register(fake_driver.load(), "phasespace")
    for _, text in conftest.fuse_programs.sources():
        warp_machine.register_fused(fake_driver.load(), text.partition("namespace madspace;")[2])
from madspace import __main__
from madspace.bench import kda, phasespace
kda.COLD_BYTES = phasespace.COLD_BYTES = 1e6    # each call is real work here
phasespace.SIZES, phasespace.VARIANT_SIZE = (100, 1000, 3000), 1000
sys.exit(__main__.main(["bench", *ARGUMENTS, "--quick", "--rounds", "3", "--device", DEVICE]))
"""


@pytest.fixture
def bench(run_python, tmp_path):
    """Return a function that runs the command with few rounds; how it ended, and the section of one benchmark."""

    def run(name, device, *arguments, status=0):
        path = tmp_path / f"{name}.json"
        arguments = [name, "--json", str(path), *arguments]
        code = RUN.replace("DEVICE", repr(device)).replace("ARGUMENTS", repr(arguments))
        done = run_python(code, driver="fake" if device == "cuda" else None)
        assert (done.returncode, done.faults) == (status, []), done.stderr
        result = json.loads(path.read_text())
        return done, result["benchmarks"].get(name, result)

    return run


def test_latency(bench):
    # None of those that write much: the fake driver fills all that is allocated and freed.
    names = ["launch*", "record*", "wait*", "query*", "elapsed", "make*", "update*", "push*", "fork*", "dlpack*numpy"]
    names += ["*_1_kib", "*_64_kib", "*_4_b", "*_64_kib_queued"]
    chosen = ",".join(names).replace("launch*", "launch,launch_[!g]*,launch_graph,launch_graph_1")
    done, result = bench("latency", "cuda", "--cases", chosen, "--peers", "")
    assert done.stderr == ""  # no progress where nobody watches
    for name in ("launch", "launch_64_arguments", "allocate_and_free_1_kib", "record_and_wait", "h2d_pinned_4_b"):
        case = result["cases"][name]
        assert case["madspace"]["ratio"] == pytest.approx(case["madspace"]["median"] / case["c"]["median"])
        for figures in case.values():
            assert figures["p05"] <= figures["median"] <= figures["p95"]
            each = figures["each"]
            assert each["p50"] <= each["p95"] <= each["p99"] <= each["max"]
        assert f"| {name} " in done.stdout
    assert set(result["cases"]["push_and_pop_context"]) == {"c"}
    assert "c_api" not in result["left_out"], result["left_out"]["c_api"]
    for name in (
        "launch",
        "launch_and_wait",
        "allocate_and_free_1_kib",
        "record_and_wait",
        "wait_event",
        "launch_graph",
    ):
        assert set(result["cases"][name]) == {"c", "c_api", "madspace"}
        assert result["cases"][name]["c_api"]["ratio"] > 0
    assert set(result["cases"]["dlpack_in_numpy"]) == {"madspace"}


def test_latency_keeps_the_names_of_earlier_results(device):
    setup = latency_cases.Setup(latency_cases.CTwin(device), device, latency_cases.QUICK_COPIES)
    families = ("launches", "memory", "order", "graphs", "copies")
    names = [name for family in families for name, _ in getattr(latency_cases, family)(setup)]
    assert len(names) == len(set(names))
    earlier = json.loads((ROOT / "benchmarks" / "results" / "latency_h200.json").read_text())
    assert set(earlier["cases"]) <= set(names)


def test_context_is_current_or_not_and_the_stack_is_as_before(device, fake):
    twin = latency_cases.CTwin(device)
    kernel = latency_cases.Statement("kernel.launch(1, 32, 0, 0, stream=stream)", vars(twin))
    depth = fake.context_depth()
    pushes = []
    with twin.context(), twin.context():
        for context in (twin.context, twin.no_context):
            with context():
                fake.clear_log()
                kernel.mean(1)
                pushes.append("cuCtxPushCurrent" in fake.names())
        assert fake.context_depth() == depth + 2
    assert pushes == [False, True]


def test_fork_and_join_has_the_same_order_in_c(device, fake):
    setup = latency_cases.Setup(latency_cases.CTwin(device), device)
    made = {name: make for name, make in latency_cases.order(setup) if name.startswith("fork_and_join")}
    assert len(made) == (len(latency_cases.FORKS) if hasattr(madspace, "fork_streams") else 0)
    # The C side is there whatever the package has.
    streams, events = [madspace.Stream(device) for _ in range(2)], [madspace.Event(device) for _ in range(2)]
    operands = {"streams": latency_cases.handles(streams), "events": latency_cases.handles(events), "n": 2}
    twin = setup.twin.operation("fork_and_join", event=setup.event.handle, **operands)
    fake.clear_log()
    assert len(twin.each(1)) == 1
    names = [name for name in fake.names() if "Ctx" not in name]
    joins = ["cuEventRecord", "cuStreamWaitEvent"] * 2
    assert names == ["cuEventRecord", "cuStreamWaitEvent", "cuStreamWaitEvent", *joins]
    for make in made.values():
        case = make()
        assert min(case.who["c"].mean(2), case.who["madspace"].mean(2)) > 0


def test_latency_on_the_cpu(bench):
    _, result = bench("latency", "cpu", "--cases", "dlpack_*_numpy")
    assert set(result["cases"]) == {"dlpack_in_numpy", "dlpack_out_numpy"}


def test_peers_that_are_missing_are_named(bench, run_python):
    # A name in sys.modules that is None is one that cannot be imported, wherever this runs.
    hidden = RUN.replace("import sys", "import sys\nsys.modules['cupy'] = None", 1)
    code = hidden.replace("DEVICE", "'cuda'").replace(
        "ARGUMENTS", "['latency', '--cases', 'launch', '--peers', 'cupy']"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert "left out: cupy: ModuleNotFoundError" in done.stdout


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_phasespace(bench, device):
    done, result = bench("phasespace", device, "--cases", "c*order=[[]0*,numpy*")
    assert len(result["cases"]) == {"cpu": 6, "cuda": 12}[device]
    for name, case in result["cases"].items():
        figures = ("out", "fresh_outputs") if device == "cpu" else ("device", "host", "call_and_wait")
        if name.startswith("numpy"):
            figures = ("call", "call_fresh_outputs", "call_page_locked", "staged_copies", "pinned_copies")
            assert case["ratio_to_pinned_copies"] > 0
        for figure in figures:
            assert case[figure]["p05"] <= case[figure]["median"] <= case[figure]["p95"], name
        assert f"| {name} " in done.stdout
    if device == "cuda":
        assert all("cold" in case for name, case in result["cases"].items() if name.startswith("cuda"))


def test_programs(bench):
    cases = ["program shipped order=[[]0? 1[]] *", "program interpreted order=[[]0? 1[]] *", "program uniform*"]
    done, result = bench("phasespace", "cuda", "--cases", ",".join(cases))
    kinds = ["shipped read", "shipped read shared", "shipped own", "interpreted read"]
    names = [x.replace(" ", " order=[0, 1] ", 1) for x in kinds] + ["uniform width=5", "uniform width=8"]
    assert list(result["cases"]) == [f"program {name} n=1000" for name in names]
    for name, case in result["cases"].items():
        assert case["device"]["p05"] <= case["device"]["median"] <= case["device"]["p95"]
        assert f"| {name} " in done.stdout


def test_arrays_of_packages(run_python):
    # Tensors that go by the name of another package, and a package that does not work.
    stand_in = """from madspace.bench import kda, phasespace, phasespace_arrays
import madspace
put = lambda x: madspace.asarray(x, device=0)
phasespace_arrays.PACKAGES.update(torch=lambda stream: (put, madspace.stream(stream)), cupy=None)
"""
    arguments = ["phasespace", "--cases", "cuda * n=1000", "--kinds", "torch,cupy"]
    code = RUN.replace("from madspace.bench import kda, phasespace\n", stand_in)
    done = run_python(code.replace("DEVICE", "'cuda'").replace("ARGUMENTS", repr(arguments)), driver="fake")
    assert (done.returncode, done.faults) == (0, []), done.stderr
    assert "left out: cupy: TypeError" in done.stdout
    assert re.search(r"\| cuda torch order=\[0, 1\] power=0.8 n=1000 +\|", done.stdout)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_kda(bench, device):
    names = ("fixed-t256-h1", "varlen-17-33-65-257-h4")
    done, result = bench("kda", device, "--cases", ",".join(names), "--peers", "flash_kda")
    assert set(result["cases"]) == {f"{device} {name} {gate}" for name in names for gate in ("fast", "slow")}
    for name, case in result["cases"].items():
        assert f"| {name} " in done.stdout
        assert case["error"]["out"] < 4e-3
        measured = case["call" if device == "cpu" else "replay"]
        assert measured["p05"] <= measured["median"] <= measured["p95"]
        if device == "cuda":
            assert (case["sets_of_buffers"] > 1) == ("cold" in case) == ("t256" in name)
            assert "flash_kda" in case["left_out"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_workspace(bench, device):
    done, result = bench("workspace", device, "--cases", "fixed-t256-h1", "--kinds", "own", "--warmup", "1")
    (case,) = result["cases"].values()
    assert result["options"]["warmup"] == 1
    assert case["equal"]
    assert case["replay_equal"] is (None if device == "cpu" else True)
    assert (case["reuse"]["allocations_per_call"], case["reuse"]["added_peak_bytes"]) == (0, 0)
    if device == "cuda":
        assert case["automatic"]["allocations_per_call"] == 1
        assert case["automatic"]["added_peak_bytes"] > 0
    assert case["flashkda_workspace_bytes"] == 235_136
    head, rule, *rows = (line for line in done.stdout.splitlines() if line.startswith("|"))
    assert len(rows) == 2
    assert all(line.count("|") == head.count("|") for line in (rule, *rows))


def test_all_of_them_with_their_provenance(bench):
    done, result = bench("all", "cpu", "--cases", "dlpack_*_numpy,fixed-t256-h1,cpu*n=100", "--seed", "7")
    assert list(result["benchmarks"]) == ["latency", "workspace", "phasespace", "kda"]
    assert {"date", "commit", "sources", "python", "numpy", "madspace", "processor"} <= set(result["provenance"])
    assert (result["settings"]["seed"], result["settings"]["quick"], result["problems"]) == (7, True, [])
    assert re.findall(r"^(\w+) \(\d+ s\)$", done.stdout, re.MULTILINE) == list(result["benchmarks"])


def test_provenance_of_a_gpu(bench, tmp_path):
    bench("latency", "cuda", "--cases", "launch", "--peers", "")
    found = json.loads((tmp_path / "latency.json").read_text())["provenance"]
    assert found["cuda"] == "13.0"
    assert found["device"]
    assert "gpu" in found
    assert any(name.startswith("kda_forward.") for name in found["cubins"])


@pytest.mark.parametrize("name", ["fixed-t256-h1", "varlen-17-33-65-257-h4", "decode-b64-t1-h32"])
@pytest.mark.parametrize("gate", kda_cases.GATES)
def test_reference_of_kda_is_that_of_the_tests(name, gate):
    (case,) = kda_cases.chosen(name, ())
    inputs = kda_cases.host_inputs(case, gate)
    reference = kda_cases.Reference(inputs, case.heads)
    expected = oracle.kda(**inputs, heads=reference.heads)
    np.testing.assert_allclose(reference.out, expected.out, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(reference.final, expected.final, rtol=1e-12, atol=1e-14)
    assert inputs["q"].shape == kda_inputs.upstream(case.tokens, case.heads, batches=case.batches)["q"].shape
