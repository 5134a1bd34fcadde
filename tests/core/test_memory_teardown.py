"""Exits and forks with what counts, logs, pins and serves memory: silent, and without a driver call too many."""

import pytest
from exit_scripts import FORK, START

pytestmark = pytest.mark.fake

STATES = {
    "pinned memory in use": """
from madspace import PinnedBuffer
stream, buffer = Stream(), device.pool.allocate(5000)
pinned, closed, viewed = PinnedBuffer(5000), PinnedBuffer(5000), PinnedBuffer(5000).numpy()
fake.defer(stream)
for one in (pinned, closed):
    one.copy_to(buffer, stream=stream)
closed.close()
""",
    "another allocator": """
from cuda.bindings import driver
from raw_driver import checked
madspace.set_allocator(0, lambda n, d, s: int(checked(driver.cuMemAllocAsync(n, s))),
                       lambda p, n, d, s: checked(driver.cuMemFreeAsync(p, s)))
buffers = [device.pool.allocate(100) for _ in range(3)]
buffers.pop()
""",
    "an open scope": """
scope = madspace.statistics("x").__enter__()
buffer = device.pool.allocate(100)
""",
    "a daemon thread in a scope": """
def work():
    try:
        with madspace.statistics("thread"):
            while True:
                device.pool.allocate(64).close()
    except DriverError:
        pass
threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
""",
}


@pytest.mark.parametrize("logged", [False, True], ids=["", "logged"])
@pytest.mark.parametrize("state", STATES)
def test_exit_is_silent(run_python, tmp_path, state, logged):
    environment = {"MADSPACE_ALLOC_LOG": str(tmp_path / "log.csv")} if logged else {}
    done = run_python(START + STATES[state], env=environment, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert done.faults == []


@pytest.mark.needs("fork")
def test_a_forked_child_gets_fork_errors(run_python):
    done = run_python(
        START
        + STATES["pinned memory in use"]
        + FORK
        + """
def child():
    global pinned
    for use in (lambda: PinnedBuffer(8), lambda: pinned.copy_to(buffer), pinned.synchronize, pinned.query,
                madspace.memory_stats, lambda: MemoryPool(limit=8), lambda: madspace.set_allocator(1, print, print)):
        try:
            use()
            print("no error from", use)
        except ForkError as error:
            print("fork" in str(error), end=" ")
    pinned.close()
    del pinned
print(in_child(child))
""",
        timeout=20,
    )
    assert done.stdout == "True " * 7 + "0\n", done.stdout + done.stderr
    assert (done.stderr, done.faults) == ("", [])


def test_what_a_cycle_holds_goes_back_to_its_allocator(run_python):
    done = run_python(
        START
        + """
from cuda.bindings import driver
from raw_driver import checked
class Other:
    def allocate(self, n, d, s):
        return int(checked(driver.cuMemAllocAsync(n, s)))
    def free(self, p, n, d, s):
        sys.freed += 1
        checked(driver.cuMemFreeAsync(p, s))
def install():
    other = Other()
    madspace.set_allocator(0, other.allocate, other.free)
    other.cycle = [device.pool.allocate(100) for _ in range(3)]
    madspace.set_allocator(0, None)
sys.freed = 0
install()
gc.collect()
print(sys.freed, fake.counts()["device_memory"])
""",
        timeout=20,
    )
    assert (done.stdout, done.stderr, done.faults) == ("3 0\n", "", [])


def test_what_a_destructor_cannot_raise_is_printed(run_python):
    done = run_python(START + "b = device.pool.allocate(8); fake.fail('cuMemFreeAsync'); del b", timeout=20)
    assert "MadspaceWarning: while an object was destroyed: cuMemFreeAsync: CUDA_ERROR_UNKNOWN" in done.stderr
    assert done.returncode == 0
