"""Tensor.fill: exact for every type, in stream order, and nothing but whole elements."""

import numpy as np
import pytest
from dlpack_structs import table_of, view_of
from raw_driver import capturing, current_context

from madspace.core.creation import asarray, empty, zeros
from madspace.core.stream import Stream
from madspace.core.tensor import Tensor
from madspace.errors import ClosedError, DeviceMismatchError, DriverError, ShapeError

VALUES = {
    "?": [True, False],
    "i1": [-128, 0, 127],
    "u1": [255],
    "i2": [-2, 258, 257],
    "u2": [65535],
    "f2": [1.5, -0.0, float("nan"), float("inf")],
    "i4": [-2, 0x01020304, 0x01010101],
    "f4": [0.1, float("-inf"), 1e-45],
    "i8": [-2, 0x0102030405060708, 0x0000000100000001, -(2**63)],
    "u8": [2**64 - 1, 1],
    "f8": [0.1, -0.0, 5e-324, float("nan")],
    "c8": [1 + 2j, 1 + 1j, 0],
    "c16": [0.1 + 0.2j, 0.1 + 0.1j, 0, complex(-0.0, float("inf"))],
}
CASES = [pytest.param(dtype, value, id=f"{dtype}-{value}") for dtype, values in VALUES.items() for value in values]
# Below, at and above the length from which a fill of words is continued by copies, and what is no power of two.
LENGTHS = [1, 3, 4096, 4097, 20001]


@pytest.mark.parametrize("where", ["cpu", "cuda"])
@pytest.mark.parametrize(("dtype", "value"), CASES)
def test_every_bit_of_every_element(device, where, dtype, value):
    for n in LENGTHS:
        tensor = empty(n, dtype, device=where)
        assert tensor.fill(value) is tensor
        expected = np.full(n, value, dtype)
        assert tensor.numpy().tobytes() == expected.tobytes(), n


@pytest.mark.needs("ml_dtypes")
@pytest.mark.parametrize("where", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn"])
def test_small_floats(device, where, name):
    import ml_dtypes

    dtype = getattr(ml_dtypes, name)
    assert empty(5, dtype, device=where).fill(1.5).numpy().tobytes() == np.full(5, 1.5, dtype).tobytes()


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_only_the_view_is_filled(device, where):
    tensor = zeros((4, 6), device=where)
    tensor[1:3].fill(0.1)
    expected = np.zeros((4, 6))
    expected[1:3] = 0.1
    np.testing.assert_array_equal(tensor.numpy(), expected)


def test_host_views_of_any_strides():
    array = np.zeros((4, 6))
    asarray(array)[::-2, 1::2].fill(3)
    expected = np.zeros((4, 6))
    expected[::-2, 1::2] = 3
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_without_elements(device, where):
    assert zeros((0, 3), device=where).fill(1).shape == (0, 3)
    assert zeros((), device=where).fill(2.5).numpy() == 2.5


@pytest.mark.parametrize("where", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("dtype", "value", "error"),
    [
        ("i1", 128, OverflowError),
        ("u4", -1, OverflowError),
        ("i4", 1.5, ValueError),
        ("i4", float("nan"), ValueError),
        ("?", 2, ValueError),
        ("f8", 1j, TypeError),
        ("f8", "1.5", TypeError),
        ("f8", None, TypeError),
        ("f8", [1.0, 2.0], ValueError),
    ],
)
def test_values_that_the_type_cannot_hold(device, where, dtype, value, error):
    tensor = zeros(3, dtype, device=where)
    with pytest.raises(error, match=r"value: expected a number that \w+ can hold, got"):
        tensor.fill(value)
    assert not tensor.numpy().any()


def test_what_else_is_refused(device, stream):
    array = np.zeros(3)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="self: expected a tensor that may be written"):
        asarray(array).fill(1)
    wide = zeros((4, 6), device=device)
    half = view_of(table_of(Tensor), wide, shape=(4, 3), strides=(6, 2))
    with pytest.raises(ShapeError, match="self: expected a contiguous tensor on the device"):
        half.fill(1)
    stream.close()
    with pytest.raises(ClosedError):
        wide.fill(1.5, stream=stream)
    assert not wide.numpy().any()


@pytest.mark.multi_gpu
def test_a_stream_of_another_device(device, other_device):
    with pytest.raises(DeviceMismatchError):
        zeros(3, device=device).fill(1, stream=Stream(other_device))


@pytest.mark.parametrize("value", [7.0, 0.1], ids=["one call", "several"])
def test_a_late_fill_is_waited_for(device, delay, value):
    tensor = zeros(10_000, device=device)
    late = Stream(device)
    delay(late)
    tensor.fill(value, stream=late)
    np.testing.assert_array_equal(tensor.numpy(), np.full(10_000, value))


def test_a_fill_waits_for_a_late_reader(device, delay):
    tensor, late = asarray(np.arange(10_000.0), device), Stream(device)
    delay(late)
    copy = tensor.copy(stream=late)
    tensor.fill(0.1)
    np.testing.assert_array_equal(copy.numpy(), np.arange(10_000.0))


def test_a_fill_may_be_captured(device, stream):
    tensor = zeros(10_000, device=device, stream=stream)
    with capturing(stream):
        tensor.fill(0.1)
    assert not tensor.numpy().any()


def test_the_context_stays_as_it_was(device):
    tensor = zeros(10_000, device=device)
    before = current_context()
    tensor.fill(0.1)
    assert current_context() == before


def test_each_failure_is_told_and_the_memory_stays_with_its_stream(fake, device, stream):
    tensor = zeros(10_000, device=device)

    def action():
        tensor.fill(0.1, stream=stream)

    action()
    failed = set()
    for name, error in fake.each_failure(action):
        assert isinstance(error, DriverError), f"the failure of {name} was lost"
        failed.add(name)
    assert {"cuMemsetD2D32Async", "cuMemcpyDtoDAsync", "cuEventRecord"} <= failed
    action()
    np.testing.assert_array_equal(tensor.numpy(), np.full(10_000, 0.1))


def test_the_shortest_pattern_is_one_call(fake, device):
    for dtype, value, call in [
        ("f8", 0.0, "cuMemsetD8Async"),
        ("u2", 258, "cuMemsetD16Async"),
        ("f4", 0.1, "cuMemsetD32Async"),
        ("i8", 2**32 + 1, "cuMemsetD32Async"),
    ]:
        tensor = empty(10_000, dtype, device=device)
        fake.clear_log()
        tensor.fill(value)
        assert [name for name in fake.names() if "Mem" in name] == [call]
