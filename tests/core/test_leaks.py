"""The report of what was left at exit: MADSPACE_LEAK_CHECK=1."""

import pytest

# The lines count from the first one of the script.
SCRIPT = """import atexit, sys; from pathlib import Path
import madspace
from madspace import Buffer, Device, Event, Graph, MemoryPool, Module, PinnedBuffer, Stream, capture
device = Device(0)
image = Path(sys.argv[1]).read_bytes()
"""
EMPTY = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry empty() { ret; }
"""


@pytest.fixture
def run(run_python, real_gpu, tmp_path):
    """Return a function that runs a script and gives the lines on stderr."""

    def run(script, value="1", **more):
        (tmp_path / "empty.ptx").write_bytes(EMPTY)
        path = str(tmp_path / "script.py")
        image = str(tmp_path / "empty.ptx")
        code = f"import sys; sys.argv[1:] = [{image!r}]; exec(compile({SCRIPT + script!r}, {path!r}, 'exec'))"
        environment = {} if value is None else {"MADSPACE_LEAK_CHECK": value}
        done = run_python(code, driver="real" if real_gpu else "fake", env=environment, **more)
        assert (done.returncode, done.stdout, done.faults) == (0, "", [])
        return done.stderr.replace(str(tmp_path), "").splitlines()

    return run


def test_leftovers_are_told_with_their_lines(run):
    lines = run("""kept = [
    device.pool.allocate(1000),
    Stream(),
    Event(),
    MemoryPool(),
    PinnedBuffer(500),
    Module(image),
    Graph(),
]
def three():
    return [device.pool.allocate(24)
            for _ in range(3)]
kept += three()
""")
    assert lines == [
        "madspace: 10 left at exit (MADSPACE_LEAK_CHECK):",
        "  1 Buffer, 1000 bytes, from /script.py:7",
        "  1 Stream, from /script.py:8",
        "  1 Event, from /script.py:9",
        "  1 MemoryPool, from /script.py:10",
        "  1 PinnedBuffer, 500 bytes, from /script.py:11",
        "  1 Module, from /script.py:12",
        "  1 Graph, from /script.py:13",
        "  3 Buffer, 72 bytes, from /script.py:16",
    ]


def test_graphs_are_told_with_their_lines(run):
    lines = run("""with Stream() as stream:
    with capture(stream) as graph:
        pass
    executable = graph.instantiate()
whole = Graph()
(body,) = whole.add_if(whole.add_condition(0)).bodies
""")
    assert sorted(lines[1:]) == [
        "  1 Graph, from /script.py:10",
        "  1 Graph, from /script.py:7",
        "  1 GraphExec, from /script.py:9",
    ]


def test_memory_of_tensors_is_told_with_the_callers_line(run):
    assert run("kept = madspace.zeros(3, device=device)\n")[1:] == ["  1 Buffer, 24 bytes, from /script.py:6"]


@pytest.mark.parametrize("end", ["close", "drop", "cycle", "late hook"])
def test_what_is_closed_or_gone_is_not(run, end):
    ends = {
        "close": "[thing.close() for thing in things]; kept = things",
        "drop": "things.clear()",
        "cycle": "things.append(things); del things",
        "late hook": "kept = things; atexit.register(lambda: [thing.close() for thing in things])",
    }
    assert (
        run(f"""
things = [device.pool.allocate(8), Stream(), Event(), MemoryPool(), PinnedBuffer(8), Module(image)]
device.default_stream, device.pool
things[0].fill(1, stream=things[1])
{ends[end]}
""")
        == []
    )


def test_a_buffer_that_waits_for_a_capture_to_end_is_not(run):
    assert (
        run("""
from cuda.bindings import driver
from raw_driver import checked, current
with Stream() as stream, device.pool.allocate(8, stream=stream) as buffer:
    with current(0):
        checked(driver.cuStreamBeginCapture(stream.handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
""")
        == []
    )


@pytest.mark.parametrize("value", [None, "", "0", "false", "OFF"])
def test_off_means_silence(run, value):
    assert run("kept = device.pool.allocate(8)\n", value) == []


def test_an_unknown_value_warns_and_is_off(run):
    lines = run("kept = device.pool.allocate(8)\n", "maybe", args=("-W", "default"))
    assert "MadspaceWarning: MADSPACE_LEAK_CHECK: expected 1 or 0, got 'maybe'; it is ignored" in "\n".join(lines)
    assert "left at exit" not in "\n".join(lines)
