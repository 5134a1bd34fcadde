"""Code that comes back to the package in the midst of a call of the same thread: what the garbage collector runs."""

import pytest

pytestmark = pytest.mark.fake

# The collector runs at each allocation of a container, in Python 3.11 also in the midst of compiled code. The hook does
# something at the n-th of them.
SCRIPT = """
import gc
import madspace
from madspace import Device, statistics, zeros
USES = {
    "device": lambda: Device(1),
    "stream": lambda: Device(0).default_stream,
    "pool": lambda: Device(0).pool,
    "tensor": lambda: zeros(3, device=0),
    "kernels": madspace.preload,
}
left = [int(N)]
def hook(phase, info):
    if phase == "start":
        left[0] -= 1
        if left[0] == 0:
            try:
                USES[INNER]()
            except madspace.DriverError as error:       # the driver is just being started
                assert error.name == "CUDA_ERROR_NOT_INITIALIZED"
gc.callbacks.append(hook)
gc.set_threshold(1)
USES[OUTER]()
gc.callbacks.clear()
gc.set_threshold(700)
device = Device(0)
assert Device(0) is device and device.pool is device.pool and device.default_stream is device.default_stream
assert zeros(3, device=0).numpy().sum() == 0
"""


@pytest.mark.parametrize(
    ("outer", "inner"),
    [("device", "tensor"), ("stream", "tensor"), ("pool", "tensor"), ("kernels", "kernels"), ("tensor", "device")],
)
def test_first_uses_within_first_uses(run_python, outer, inner):
    for n in range(1, 6):
        code = SCRIPT.replace("OUTER", repr(outer)).replace("INNER", repr(inner)).replace("int(N)", str(n))
        done = run_python(code, timeout=20)
        assert (done.returncode, done.stderr, done.faults) == (0, "", []), n


SCOPES = """
import gc
from madspace import statistics
left, n_inner = [0], [0]
def hook(phase, info):
    left[0] -= 1
    if left[0] == 0:
        statistics.records()
        with statistics(name):
            n_inner[0] += 1
gc.callbacks.append(hook)
gc.set_threshold(1)
for n in range(400):
    left[0], name = n % 8 + 1, str(n)       # a name of its own, so that records are made and none is recycled
    with statistics(name):
        pass
gc.callbacks.clear()
n_scopes = sum(record.n_scopes for record in statistics.records().values())
assert n_scopes == 400 + n_inner[0], (n_scopes, n_inner)
"""


def test_scopes_within_the_ends_of_scopes(run_python):
    done = run_python(SCOPES, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")
