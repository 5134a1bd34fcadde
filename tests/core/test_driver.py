"""The checked driver calls: which exception a code becomes, how the start of the driver fails, what stays as it was."""

import pytest
from raw_driver import current_context

from madspace.errors import CaptureError, DriverError, KernelFaultError, OutOfMemoryError


@pytest.mark.parametrize(
    ("code", "kind", "name"),
    [
        (1, DriverError, "CUDA_ERROR_INVALID_VALUE"),
        (2, OutOfMemoryError, "CUDA_ERROR_OUT_OF_MEMORY"),
        (700, KernelFaultError, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        (900, CaptureError, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
        (500, DriverError, "CUDA_ERROR_NOT_FOUND"),
    ],
)
def test_a_code_becomes_its_exception(fake, device, code, kind, name):
    with fake.failing("cuCtxSynchronize", code=code), pytest.raises(kind, match=f"cuCtxSynchronize: {name}") as caught:
        device.synchronize()
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.name, caught.value.call) == (code, name, "cuCtxSynchronize")


def test_a_code_that_nobody_knows_is_told_as_a_number(fake, device):
    with fake.failing("cuCtxSynchronize", code=4711), pytest.raises(DriverError, match="4711"):
        device.synchronize()


def test_a_sticky_error_stays_and_is_told_each_time(fake, device, stream):
    fake.sticky(700)
    for _ in range(2):
        with pytest.raises(KernelFaultError, match="a kernel that ran earlier"):
            stream.synchronize()
    fake.sticky(0)
    stream.synchronize()


@pytest.mark.fake
def test_each_failure_leaves_the_context_stack_alone(fake, device):
    depth, context = fake.context_depth(), current_context()
    failed = []
    for name, error in fake.each_failure(device.synchronize):
        failed.append(name)
        assert isinstance(error, DriverError)
        assert fake.context_depth() == depth, name
    assert "cuCtxSynchronize" in failed
    assert current_context() == context


START = """
import fake_driver, os
fake = fake_driver.Fake(os.environ["MADSPACE_DRIVER_LIBRARY"])
from madspace.core.device import Device, device_count
from madspace import errors
"""


@pytest.mark.fake
@pytest.mark.parametrize("call", ["cuInit", "cuDriverGetVersion"])
def test_a_start_that_failed_can_be_tried_again(run_python, call):
    done = run_python(
        START
        + f"""
fake.fail({call!r}, 1, 999)
try:
    Device(0)
except errors.DriverError as error:
    print(error.code, error.call)
print(Device(0), Device(1))
"""
    )
    assert done.stdout == f"999 {call}\nDevice(0) Device(1)\n", done.stderr
    assert done.faults == []


@pytest.mark.fake
def test_no_device_is_a_count_of_zero_and_an_error_that_says_so(run_python):
    done = run_python(
        START
        + """
fake.set_device_count(0)
print(device_count())
try:
    Device(0)
except errors.DriverError as error:
    print(error.name, "CUDA_VISIBLE_DEVICES" in str(error))
"""
    )
    assert done.stdout == "0\nCUDA_ERROR_NO_DEVICE True\n", done.stderr


@pytest.mark.fake
@pytest.mark.parametrize("call", ["cuDeviceGet", "cuDevicePrimaryCtxRetain"])
def test_a_device_that_failed_can_be_tried_again(run_python, call):
    done = run_python(
        START
        + f"""
fake.fail({call!r}, 1, 999)
try:
    Device(0)
except errors.DriverError as error:
    print(error.code)
print(Device(0), fake.counts()["context"])
"""
    )
    assert done.stdout == "999\nDevice(0) 1\n", done.stderr


@pytest.mark.fake
def test_many_threads_start_the_driver_once(run_python):
    done = run_python(
        START
        + """
import threading
barrier = threading.Barrier(8)
seen = []
def work():
    barrier.wait()
    seen.append(Device(0))
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(set(map(id, seen))), fake.names().count("cuInit"), fake.names().count("cuDevicePrimaryCtxRetain"))
"""
    )
    assert done.stdout == "1 1 1\n", done.stderr


@pytest.mark.fake
@pytest.mark.parametrize("setting", ["0", "1"])
def test_no_call_uses_the_ambiguous_stream_handle_0(run_python, setting):
    done = run_python(
        START
        + """
from madspace.core.stream import Stream
legacy = Stream.from_handle(0)
legacy.synchronize(); legacy.record().synchronize(); Stream().wait(legacy)
print(fake.counts()["null_stream"], legacy.handle)
""",
        env={"CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM": setting},
    )
    assert done.stdout == "0 1\n", done.stderr
