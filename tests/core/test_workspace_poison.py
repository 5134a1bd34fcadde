"""MADSPACE_POISON: workspaces are NaN wherever nothing was written, in processes of their own since it is read once."""

import pytest

START = """
import warnings
import numpy as np
import scratch_op
from madspace.core.creation import zeros
from madspace.core.device import Device
from madspace.core.stream import Stream
from madspace.core.workspace import Workspace, WorkspaceLayout, take_workspace

N = scratch_op.N
"""
ON_DEVICE = (
    START
    + """
device, stream = Device(0), Stream(Device(0))

def used(workspace):
    workspace.before(stream)
    now = scratch_op.content(workspace.ptr)
    workspace.after(stream)
    return int(now)

owned = Workspace(N, device)
print(scratch_op.content(owned.ptr), end=" ")
scratch_op.run(owned, 1, stream)
print(scratch_op.content(owned.ptr), end=" ")
grown = Workspace(8, device)
grown.require(N)
print(scratch_op.content(grown.ptr), end=" ")
array = zeros(N, "u1", device=device)
wrapped = Workspace.wrap(array)
print(scratch_op.content(wrapped.ptr), used(wrapped), end=" ")
plain = zeros(N, "u1", device=device)
print(used(take_workspace(plain, stream=stream)))
"""
)
ON_HOST = (
    START
    + """
array = np.zeros(N, np.uint8)
for workspace in (Workspace(N, "cpu"), Workspace.wrap(array), take_workspace(array)):
    workspace.before(None)
    view = workspace.tensor().numpy()
    print(*np.unique(view), end=" ")
    view[:] = 1
    workspace.after(None)
    print(*np.unique(view), end=" ")
"""
)


@pytest.mark.parametrize("value", ["1", "true", "ON"])
def test_poison_on_a_device(run_python, real_gpu, value):
    done = run_python(ON_DEVICE, driver="real" if real_gpu else "fake", env={"MADSPACE_POISON": value})
    assert (done.stderr, done.stdout) == ("", "255 255 255 0 255 255\n")
    assert done.faults == []


@pytest.mark.parametrize("value", ["", "0", "false", "off"])
def test_no_poison_on_a_device(run_python, real_gpu, value):
    script = (
        START
        + """
stream, workspace = Stream(Device(0)), Workspace(N, Device(0))
scratch_op.run(workspace, 1, stream)
print(scratch_op.content(workspace.ptr))
"""
    )
    done = run_python(script, driver="real" if real_gpu else "fake", env={"MADSPACE_POISON": value})
    assert (done.stderr, done.stdout) == ("", "1\n")


def test_poison_on_the_host(run_python):
    done = run_python(ON_HOST, driver=None, env={"MADSPACE_POISON": "1"})
    assert (done.stderr, done.stdout) == ("", "255 255 255 255 255 255 ")


def test_poison_is_queued_in_order(run_python):
    """Fresh memory of the fake driver is NaN anyway: what counts is that a fill was queued, once for each occasion."""
    script = (
        START
        + """
import fake_driver
fake, stream = fake_driver.load(), Stream(Device(0))
workspace = Workspace(N, stream=stream)
print(len(fake.log("cuMemsetD8Async")), end=" ")
workspace.require(2 * N)
print(len(fake.log("cuMemsetD8Async")), end=" ")    # the old memory as well, before its free
print([name for name in fake.names() if name in ("cuMemsetD8Async", "cuMemFreeAsync")][-2:], end=" ")
fake.clear_log()
fake.defer(stream)
workspace.before(stream)
workspace.after(stream)
workspace.close()
print([name for name in fake.names() if name in ("cuMemsetD8Async", "cuMemFreeAsync")], fake.pending(stream))
"""
    )
    done = run_python(script, env={"MADSPACE_POISON": "1"})
    assert done.stderr == ""
    fill, free = "cuMemsetD8Async", "cuMemFreeAsync"
    assert done.stdout == f"1 3 {[fill, free]} {[fill, fill, free]} 3\n"
    assert done.faults == []


def test_poison_in_a_capture(run_python, real_gpu):
    script = (
        START
        + """
from raw_driver import capturing
stream, workspace = Stream(Device(0)), Workspace(N, Device(0))
plain = zeros(N, "u1", device=Device(0))
with capturing(stream):
    scratch_op.run(workspace, 1, stream)
    scratch_op.run(plain, 1, stream)
"""
    )
    done = run_python(script, driver="real" if real_gpu else "fake", env={"MADSPACE_POISON": "1"})
    assert (done.returncode, done.stdout, done.stderr, done.faults) == (0, "", "", [])


def test_what_is_no_switch_warns_once(run_python):
    script = (
        START
        + """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    workspaces = [Workspace(N, "cpu") for _ in range(3)]
print(len(caught), caught[0].category.__name__, caught[0].message)
"""
    )
    done = run_python(script, driver=None, env={"MADSPACE_POISON": "perhaps"})
    assert done.stdout.startswith("1 MadspaceWarning MADSPACE_POISON: expected 1 or 0, got 'perhaps'")
