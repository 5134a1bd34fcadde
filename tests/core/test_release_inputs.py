"""Inputs of other libraries that are held until their last use is over: when they are looked at, and release_inputs."""

import gc
import weakref

import pytest
from raw_driver import capturing

from madspace import TPropagatorMapping, asarray, release_inputs, zeros
from madspace.core.stream import Stream
from madspace.errors import KernelFaultError


class Lender:
    """An array of another library that speaks DLPack and does not tell its stream."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream, max_version):
        return self.tensor.__dlpack__(stream=-1, max_version=max_version)


@pytest.fixture(autouse=True)
def nothing_held(device):
    assert release_inputs(wait=True) == 0
    yield
    assert release_inputs(wait=True) == 0


def lend(device, stream, n=1):
    """Let n arrays be read late on a stream, let go of them, and return what tells how many are still lent."""
    target = zeros(1000, device=device, stream=stream)
    alive = []
    for _ in range(n):
        source = zeros(1000, device=device)
        alive.append(weakref.ref(source))
        target.copy_from(asarray(Lender(source), stream=stream), stream=stream)
    return lambda: gc.collect() >= 0 and sum(reference() is not None for reference in alive)


@pytest.mark.parametrize("of_mapping", [False, True], ids=["all", "mapping"])
def test_what_is_over_goes_back_without_waiting(device, stream, delay, of_mapping):
    release = TPropagatorMapping([0]).release_inputs if of_mapping else release_inputs
    delay(stream)
    n_lent = lend(device, stream, 3)
    assert (release(), n_lent()) == (3, 3)
    stream.synchronize()
    assert (release(), n_lent()) == (0, 0)


def test_waiting_for_all(device, stream, delay):
    delay(stream)
    n_lent = lend(device, stream, 3)
    assert (release_inputs(wait=True), n_lent()) == (0, 0)


def test_waiting_is_on_request_alone(fake, device, stream, delay):
    delay(stream)
    lend(device, stream)
    fake.clear_log()
    release_inputs()
    assert not [name for name in fake.names() if "Synchronize" in name]


@pytest.mark.multi_gpu
def test_one_device_alone(device, other_device, stream, delay):
    there = Stream(other_device)
    delay(there)
    delay(stream, ms=600)  # longer than the other one, which is waited for below
    lend(device, stream, 2)
    n_there = lend(other_device, there)
    assert release_inputs() == 3
    assert release_inputs(other_device) == release_inputs("cuda:1") == 1
    assert (release_inputs(1, wait=True), n_there()) == (0, 0)
    assert release_inputs() == 2
    stream.synchronize()


def test_calls_look_at_a_few(fake, device, stream, delay):
    delay(stream)
    n_lent = lend(device, stream, 10)
    fake.clear_log()
    asarray(Lender(zeros(3, device=device)))
    assert 1 <= len(fake.log("cuEventQuery")) <= 3  # what comes in among them
    stream.synchronize()
    for _ in range(5):
        asarray(Lender(zeros(3, device=device)))
    assert n_lent() == 0


def test_calls_ask_nothing_while_nothing_is_held(fake, device, stream):
    tensor = asarray(Lender(zeros(3, device=device)), stream=stream)
    target = zeros(3, device=device, stream=stream)
    fake.clear_log()
    target.copy_from(tensor, stream=stream)
    asarray(Lender(zeros(3, device=device)), stream=stream)
    assert len(fake.log("cuEventQuery")) <= 2  # of what was let go just now


@pytest.mark.parametrize("mode", [0, 1, 2], ids=["global", "thread_local", "relaxed"])
def test_a_captured_call_does_not_look(fake, device, stream, delay, mode):
    from cuda.bindings import driver

    delay(stream)
    n_lent = lend(device, stream)
    captured = Stream(device)
    kept = Lender(zeros(3, device=device))
    with capturing(captured, driver.CUstreamCaptureMode(mode)):
        fake.clear_log()
        tensor = asarray(kept, stream=captured)
        assert not fake.log("cuEventQuery")
        assert release_inputs() == 1  # which looks, and breaks no capture
        del tensor
    stream.synchronize()
    assert (release_inputs(), n_lent()) == (0, 0)


def test_a_crashed_kernel_is_told(fake, device, stream, delay):
    delay(stream)
    n_lent = lend(device, stream)
    with fake.failing("cuEventQuery", code=700), pytest.raises(KernelFaultError):
        release_inputs()
    assert n_lent() == 1
    stream.synchronize()
