"""The allocation log: MADSPACE_ALLOC_LOG=file.csv."""

import csv
import os

import pytest

HEADER = ["thread", "time", "action", "device", "pointer", "size", "stream"]
SCRIPT = """
import os, sys, threading
import madspace
from madspace import Device, MemoryPool, Stream
device, stream = Device(0), Stream()
"""


@pytest.fixture
def log(tmp_path):
    """Return the path of a log that is not there yet."""
    return tmp_path / "log.csv"


@pytest.fixture
def run(run_python, real_gpu, log):
    """Return a function that runs a script with the log on, silently."""

    def run(script, **more):
        environment = {"MADSPACE_ALLOC_LOG": str(log)} | more.pop("env", {})
        done = run_python(SCRIPT + script, driver="real" if real_gpu else "fake", env=environment, **more)
        assert (done.returncode, done.stderr, done.faults) == (0, "", [])
        return done.stdout.split()

    return run


def read(path):
    """Return the events as dicts with numbers, after a check of their form."""
    with open(path, newline="") as file:
        header, *rows = csv.reader(file)
    assert header == HEADER
    events = [dict(zip(HEADER, row, strict=True)) for row in rows]
    for event in events:
        for name in ("thread", "device", "pointer", "size", "stream"):
            event[name] = int(event[name], 0)
        event["time"] = float(event["time"])
    assert [event["time"] for event in events] == sorted(event["time"] for event in events)
    return events


def test_every_event_has_a_line(run, log):
    thread, ptr, handle, default = map(
        int,
        run("""
buffer = device.pool.allocate(1000, stream=stream)
other = MemoryPool().allocate(24)
print(threading.get_native_id(), buffer.ptr, stream.handle, device.default_stream.handle)
buffer.fill(1, stream=device.default_stream)        # the free waits for it
buffer.close()
device.pool.allocate(0).close()                     # needs no memory
del other
"""),
    )
    first, second, third, fourth = read(log)
    assert first | {"time": 0} == dict(zip(HEADER, (thread, 0, "allocate", 0, ptr, 1000, handle), strict=True))
    assert (second["action"], second["size"], second["stream"]) == ("allocate", 24, default)
    assert third | {"time": 0} == first | {"time": 0, "action": "free"}
    assert (fourth["action"], fourth["pointer"]) == ("free", second["pointer"])


def test_a_refused_allocation_is_a_failure(run, log):
    run("""
pool = MemoryPool(limit=10)
try:
    pool.allocate(11)
except madspace.OutOfMemoryError:
    pool.allocate(10).close()
""")
    assert [(event["action"], event["pointer"] == 0, event["size"]) for event in read(log)] == [
        ("failure", True, 11),
        ("allocate", False, 10),
        ("free", False, 10),
    ]


def test_it_may_be_replayed(run, log, device):
    run("""
streams = [Stream() for _ in range(4)]
def work(i):
    kept = []
    for n in range(3000):
        kept.append(device.pool.allocate(1 + n % 7 * 300, stream=streams[(i + n) % 4]))
        if n % 3:
            kept.pop(n % len(kept))
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
""")
    events = read(log)
    assert sum(event["action"] == "allocate" for event in events) == 12000
    assert len({event["thread"] for event in events}) == 4
    live, peak = {}, 0
    for event in events:
        if event["action"] == "allocate":
            assert event["pointer"] not in live
            live[event["pointer"]] = device.pool.allocate(event["size"])
            peak = max(peak, len(live))
        else:
            assert live.pop(event["pointer"]).nbytes == event["size"]
    assert live == {}
    assert peak > 500


def test_a_free_that_is_put_off_has_one_line(run, log):
    run("""
from raw_driver import capturing
buffer = device.pool.allocate(8, stream=stream)
with capturing(stream):
    buffer.close()
device.pool.allocate(16).close()
""")
    assert [(event["action"], event["size"]) for event in read(log)] == [
        ("allocate", 8),
        ("free", 8),
        ("allocate", 16),
        ("free", 16),
    ]


def test_an_old_file_is_replaced(run, log):
    log.write_text("x" * 10000)
    run("device.pool.allocate(1).close()")
    assert len(read(log)) == 2


def test_two_processes_have_a_file_each(run, log):
    (child,) = run("""
import subprocess
if len(sys.argv) == 1:
    buffer = device.pool.allocate(1000)
    code = "import os, madspace; madspace.Device(0).pool.allocate(7).close(); print(os.getpid())"
    print(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    buffer.close()
""")
    assert [event["size"] for event in read(log)] == [1000, 1000]
    assert [event["size"] for event in read(log.with_name(f"log.{child}.csv"))] == [7, 7]


@pytest.mark.needs("fork")
def test_a_forked_child_leaves_the_file_alone(run, log):
    run("""
buffer = device.pool.allocate(1000)
if os.fork() == 0:
    del buffer
    sys.exit(0)
os.wait()
buffer.close()
""")
    assert [event["action"] for event in read(log)] == ["allocate", "free"]


@pytest.mark.fake
@pytest.mark.needs("fork")
def test_a_child_forked_in_the_midst_of_a_line_ends(run_python, tmp_path):
    os.mkfifo(tmp_path / "log")  # whose opening waits for a reader
    done = run_python(
        """
import os, threading, time
import madspace
pool = madspace.Device(0).pool
thread = threading.Thread(target=pool.allocate, args=(8,))
thread.start()
time.sleep(0.2)
child = os.fork()
if child == 0:
    raise SystemExit(7)     # through the exit hooks
print(os.waitpid(child, 0)[1] >> 8)
reader = os.open(os.environ["MADSPACE_ALLOC_LOG"], os.O_RDONLY | os.O_NONBLOCK)
thread.join()
""",
        env={"MADSPACE_ALLOC_LOG": str(tmp_path / "log")},
        args=("-W", "ignore"),
        timeout=20,
    )
    assert done.stdout == "7\n", done.stderr


def test_nothing_happens_without_an_allocation(run, log):
    run("")
    assert not log.exists()


def test_the_folder_of_the_import_counts(run, log, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    run(
        f"os.chdir({str(tmp_path / 'elsewhere')!r}); device.pool.allocate(1).close()",
        env={"MADSPACE_ALLOC_LOG": os.path.relpath(log)},
    )
    assert len(read(log)) == 2


def test_a_file_that_cannot_be_written_is_a_warning(run_python, real_gpu, tmp_path):
    done = run_python(
        SCRIPT + "device.pool.allocate(1).close(); device.pool.allocate(1).close()",
        driver="real" if real_gpu else "fake",
        env={"MADSPACE_ALLOC_LOG": str(tmp_path / "missing" / "log.csv")},
        args=("-W", "default"),
    )
    assert done.returncode == 0
    assert done.stderr.count("MADSPACE_ALLOC_LOG: the allocation log ends here: No such file or directory") == 1
