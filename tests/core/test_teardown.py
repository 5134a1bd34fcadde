"""Leaving is silent: exits in various states, forks, threads, and no driver call that is not allowed any more."""

import pytest
from exit_scripts import FORK, OBJECTS, START, STATES

pytestmark = pytest.mark.fake


@pytest.mark.parametrize("state", STATES)
def test_exit_is_silent(run_python, state):
    done = run_python(START + STATES[state], timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert done.faults == []


@pytest.mark.parametrize(("leave", "code"), [("sys.exit(3)", 3), ("raise SystemExit", 0), ("os._exit(4)", 4)])
def test_leaving_by_other_ways_is_silent(run_python, leave, code):
    done = run_python(START + OBJECTS + leave, timeout=20)
    assert (done.returncode, done.stderr) == (code, "")
    assert done.faults == []


def test_an_exception_shows_itself_alone(run_python):
    done = run_python(START + OBJECTS + "raise LookupError('mine')", timeout=20)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "LookupError: mine"
    assert done.faults == []


def test_the_import_registers_nothing_that_calls(run_python):
    done = run_python("import madspace", timeout=20)
    assert (done.returncode, done.stderr, done.report) == (0, "", [])


def test_calls_in_late_exit_hooks_are_refused_without_a_driver_call(run_python):
    done = run_python(
        "import atexit\n@atexit.register\ndef late():\n"
        + """
    for use in (stream.synchronize, event.query, pool.trim, lambda: pool.allocate(8), Stream, buffers[0].copy_to_host):
        try:
            use()
        except DriverError as error:
            print(error.code)
    buffers[0].close(); stream.close(); event.close()
"""
        + START
        + OBJECTS,
        timeout=20,
    )
    assert done.stdout == "4\n" * 6, done.stdout + done.stderr
    assert done.stderr == ""
    assert done.faults == []


@pytest.mark.needs("fork")
def test_a_forked_child_gets_fork_errors(run_python):
    done = run_python(
        START
        + OBJECTS
        + FORK
        + """
def child():
    for use in (stream.synchronize, event.query, lambda: pool.allocate(8), Stream, lambda: Device(1), Event,
                lambda: stream.record(event), lambda: buffers[0].fill(1), lambda: buffers[0].copy_to_host(),
                device.synchronize, lambda: device.name, madspace.device_count):
        try:
            use()
            print("no error from", use)
        except ForkError as error:
            print("fork" in str(error), end=" ")
    print(madspace.is_available())
print(in_child(child))
stream.synchronize()
""",
        timeout=20,
    )
    assert done.stdout == "True " * 12 + "False\n0\n", done.stdout + done.stderr
    assert done.stderr == ""
    assert done.faults == []


@pytest.mark.needs("fork")
@pytest.mark.parametrize(
    ("call", "use"),
    [
        ("cuStreamCreateWithPriority", "device.default_stream"),
        ("cuMemPoolCreate", "device.pool"),
        ("cuInit", "Device(0)"),
        ("cuDevicePrimaryCtxRetain", "Device(1)"),
    ],
)
def test_a_fork_in_the_midst_of_a_first_use(run_python, call, use):
    done = run_python(
        f"""
import os, signal
import fake_driver, madspace
from madspace import Device, ForkError
fake = fake_driver.load()
if {call!r} != "cuInit":
    device = Device(0)

def fork(held):
    pid = os.fork()
    if pid:
        status.append(os.waitpid(pid, 0)[1])
        return
    signal.alarm(5)         # a deadlock ends there
    try:
        {use}
    except ForkError:
        os._exit(0)
    os._exit(1)

status = []
with fake.calling({call!r}, fork):
    {use}
print(status)
""",
        timeout=30,
    )
    assert (done.stdout, done.stderr) == ("[0]\n", "")


@pytest.mark.needs("fork")
def test_a_forked_child_drops_things_silently(run_python):
    done = run_python(
        START
        + OBJECTS
        + FORK
        + """
def child():
    global stream, event, pool, workspace
    buffers.clear()
    stream = event = pool = workspace = None
    gc.collect()
print(in_child(child))
print(fake.counts()["device_memory"])
""",
        timeout=20,
    )
    assert (done.stdout, done.stderr) == ("0\n3\n", "")
    assert done.faults == []


@pytest.mark.needs("fork")
def test_a_fork_before_the_driver_starts_leaves_both_free(run_python):
    done = run_python(
        """
import os, sys
import madspace
print(madspace.is_available(), flush=True)
pid = os.fork()
madspace.Stream().synchronize()
os.write(1, b"fine\\n")
if pid:
    print(os.waitpid(pid, 0)[1])
""",
        timeout=20,
    )
    assert done.stdout == "True\nfine\nfine\n0\n", done.stderr
    assert done.faults == []


@pytest.mark.needs("fork")
def test_multiprocessing_by_fork(run_python):
    done = run_python(
        START
        + """
import multiprocessing
def work(_):
    try:
        Device(0).synchronize()
    except ForkError:
        return "refused"
with multiprocessing.get_context("fork").Pool(2) as workers:
    print(workers.map(work, range(4)))
""",
        timeout=30,
    )
    assert done.stdout == "['refused', 'refused', 'refused', 'refused']\n", done.stderr
    assert done.faults == []


def test_things_cross_threads(run_python):
    done = run_python(
        START
        + """
def work(out):
    stream = Stream()
    out.append(device.pool.allocate(1000, stream=stream))
    stream.close()
for _ in range(20):
    out = []
    threads = [threading.Thread(target=work, args=(out,)) for _ in range(4)]
    [t.start() for t in threads]; [t.join() for t in threads]
    for buffer in out:
        buffer.fill(1)
    out.clear()
del buffer
device.synchronize()
counts = fake.counts()
print(counts["device_memory"], counts["stream"], fake.faults())
""",
        timeout=60,
    )
    assert done.stdout == "0 1 []\n" or done.stdout == "0 0 []\n", done.stdout + done.stderr
    assert done.stderr == ""


def test_nothing_is_called_where_the_driver_ends_in_the_midst_of_a_call(run_python):
    done = run_python(
        """
import fake_driver, madspace
from madspace.core import _teardown
fake = fake_driver.load()
pool = madspace.Device(0).pool
def end(held):
    _teardown._close_gate()
    fake.deinitialise()
with fake.calling("cuMemPoolGetAttribute", end):
    pool.used_bytes
"""
    )
    # That call had passed the gate; the one that would put the capture mode back must not.
    assert [fault.split()[-1] for fault in done.faults] == ["cuMemPoolGetAttribute"]


@pytest.mark.needs("fork")
def test_a_forked_child_waits_for_no_workspace(run_python):
    done = run_python(
        START
        + OBJECTS
        + FORK
        + """
held, done = threading.Event(), threading.Event()
def hold():
    workspace.before(other)
    held.set()
    done.wait()
    workspace.after(other)
thread = threading.Thread(target=hold)
thread.start()
held.wait()
def child():
    try:
        workspace.before(stream)
    except ForkError:
        print("ForkError")
print(in_child(child))
done.set()
thread.join()
""",
        timeout=20,
    )
    assert (done.stdout, done.stderr) == ("ForkError\n0\n", "")
