"""Python values as kernel parameters: every kind arrives as the bytes that it stands for, or is refused by name."""

import ctypes
import enum
import math
import struct

import numpy as np
import pytest
from ptx_kernels import echo, image, many, register_twins

from madspace.core.creation import asarray, zeros
from madspace.core.module import Module
from madspace.errors import ClosedError, DeviceMismatchError, ShapeError

SIZES = (1, 2, 4, 8, 16, 24, 1000)
COUNTS = (0, 1, 2, 16, 64)
RECORD = np.dtype([("a", np.int32), ("b", np.float64), ("c", np.uint8)], align=True)


class Point(ctypes.Structure):
    """A structure of 24 bytes, with padding."""

    _fields_ = (("x", ctypes.c_double), ("y", ctypes.c_float), ("n", ctypes.c_int64))


class Choice(ctypes.Union):
    """A union of 8 bytes."""

    _fields_ = (("i", ctypes.c_int32), ("x", ctypes.c_double))


class Colour(enum.IntEnum):
    """A number with a name."""

    RED = 7


class Foreign:
    """An array of another library over a Tensor, by one protocol."""

    def __init__(self, tensor):
        self.tensor = tensor

    @property
    def __cuda_array_interface__(self):
        return self.tensor.__cuda_array_interface__


@pytest.fixture
def kernels(device, real_gpu):
    """Return the module of kernels that give back what they were given."""
    if not real_gpu:
        register_twins(SIZES, COUNTS)
    return Module(image(*map(echo, SIZES), *map(many, COUNTS)))


@pytest.fixture
def send(device, stream, kernels):
    """Return ``send(value, size)``: the bytes that arrived on the device."""

    def run(value, size):
        out = device.pool.allocate(size, stream=stream)
        kernels[f"echo_{size}"].launch(1, 1, out, value, stream=stream)
        return bytes(out.copy_to_host())

    return run


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, "<b"),
        (-1, "<b"),
        (200, "<B"),
        (True, "<?"),
        (False, "<?"),
        (-(2**15), "<h"),
        (2**16 - 1, "<H"),
        (-(2**31), "<i"),
        (2**32 - 1, "<I"),
        (-(2**63), "<q"),
        (2**63 - 1, "<q"),
        (2**64 - 1, "<Q"),
        (True, "<i"),
        (0.1, "<f"),
        (0.1, "<d"),
        (math.inf, "<f"),
        (-math.inf, "<d"),
        (1e-300, "<f"),
        (Colour.RED, "<i"),
    ],
    ids=repr,
)
def test_python_numbers(send, value, expected):
    assert send(value, struct.calcsize(expected)) == struct.pack(expected, value)


def test_nan_stays_nan(send):
    assert math.isnan(struct.unpack("<f", send(math.nan, 4))[0])
    assert math.isnan(struct.unpack("<d", send(math.nan, 8))[0])


@pytest.mark.parametrize(("size", "form"), [(8, "<ff"), (16, "<dd")])
def test_complex_numbers(send, size, form):
    assert send(1.5 - 2.5j, size) == struct.pack(form, 1.5, -2.5)


@pytest.mark.parametrize("code", "?bBhHiIqQefdFD")
def test_numpy_scalars(send, code):
    value = np.dtype(code).type(1)
    assert send(value, value.nbytes) == value.tobytes()


@pytest.mark.needs("ml_dtypes")
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_scalars_of_ml_dtypes(send, name):
    import ml_dtypes

    value = getattr(ml_dtypes, name)(1.5)
    assert send(value, value.nbytes) == value.tobytes()


def test_structures(send):
    point = Point(1.5, 2.5, -3)
    assert send(point, 24)[:12] == bytes(point)[:12]
    assert send(point, 24)[16:] == bytes(point)[16:]
    record = np.array((1, 2.5, 3), RECORD)[()]
    arrived = np.frombuffer(send(record, 24), RECORD)[0]
    assert (arrived["a"], arrived["b"], arrived["c"]) == (1, 2.5, 3)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (ctypes.c_int8(-1), 1),
        (ctypes.c_uint16(3), 2),
        (ctypes.c_int32(-5), 4),
        (ctypes.c_double(0.1), 8),
        (ctypes.c_bool(True), 1),
        (ctypes.c_void_p(0x1234), 8),
        (Choice(x=2.0), 8),
        ((ctypes.c_float * 4)(1, 2, 3, 4), 16),
        ((ctypes.c_uint8 * 1000)(*[i % 251 for i in range(1000)]), 1000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_ctypes_objects(send, value, size):
    assert send(value, size) == bytes(value)


@pytest.mark.parametrize("n", COUNTS)
def test_any_number_of_arguments_arrives_in_order(device, stream, kernels, n):
    out = device.pool.allocate(8 * 64, stream=stream)
    out.fill(0)
    values = [2**40 + i for i in range(n - 1)]
    kernels[f"many_{n}"].launch(1, 1, *[out][:n], *values, stream=stream)
    assert np.frombuffer(out.copy_to_host(), np.uint64)[: max(n - 1, 0)].tolist() == values


@pytest.mark.parametrize(("n", "given"), [(0, 1), (1, 0), (2, 1), (16, 17), (64, 0), (64, 65)])
def test_the_number_of_arguments_is_checked(stream, kernels, n, given):
    with pytest.raises(ShapeError, match=f"args: kernel many_{n} takes {n} parameters, got {given}"):
        kernels[f"many_{n}"].launch(1, 1, *[0] * given, stream=stream)


@pytest.mark.parametrize(
    ("value", "size", "error"),
    [
        (256, 1, OverflowError),
        (-129, 1, OverflowError),
        (2**16, 2, OverflowError),
        (2**32, 4, OverflowError),
        (-(2**31) - 1, 4, OverflowError),
        (2**64, 8, OverflowError),
        (-(2**63) - 1, 8, OverflowError),
        (2**200, 4, OverflowError),
        (1, 16, TypeError),
        (1, 24, TypeError),
        (1e39, 4, OverflowError),
        (-1e39, 4, OverflowError),
        (1.0, 2, TypeError),
        (1.0, 1, TypeError),
        (1.0, 16, TypeError),
        (1j, 4, TypeError),
        (1e300j, 8, OverflowError),
        (np.float32(1), 8, TypeError),
        (np.float64(1), 4, TypeError),
        (np.int64(1), 4, TypeError),
        (np.float16(1), 4, TypeError),
        (ctypes.c_int(1), 8, TypeError),
        (Point(), 16, TypeError),
        ("1", 4, TypeError),
        (b"1234", 4, TypeError),
        (None, 8, TypeError),
        ([1], 8, TypeError),
        (np.str_("a"), 4, TypeError),
        (np.bytes_(b"abcd"), 4, TypeError),
        (np.datetime64(1, "s"), 8, TypeError),
        (object(), 8, TypeError),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value).partition(" at ")[0][:24]),
)
def test_what_does_not_fit_is_named(fake, stream, words, kernels, value, size, error):
    fake.clear_log()
    with pytest.raises(error, match=r"args\[1\]: expected"):
        kernels[f"echo_{size}"].launch(1, 1, words, value, stream=stream)
    assert "cuLaunchKernel" not in fake.names()


@pytest.mark.parametrize("dtype", [[("a", ">i4"), ("b", "<i4")], [("a", object)]], ids=["byte order", "objects"])
def test_structures_that_no_kernel_can_read_are_refused(stream, words, kernels, dtype):
    with pytest.raises(TypeError, match=r"args\[1\]: expected"):
        kernels["echo_8"].launch(1, 1, words, np.zeros(1, dtype)[0], stream=stream)


def test_memory_gives_its_address(send, device, stream):
    buffer = device.pool.allocate(64, stream=stream)
    tensor = zeros((4,), dtype=np.float64, device=device)
    assert send(buffer, 8) == struct.pack("<Q", buffer.ptr)
    assert send(tensor, 8) == struct.pack("<Q", tensor.__cuda_array_interface__["data"][0])
    assert send(device.pool.allocate(0, stream=stream), 8) == bytes(8)


def test_arrays_of_other_libraries_give_theirs(device, stream, module):
    tensor = zeros((1024,), dtype=np.uint32, device=device)
    module["ms_test_fill"].launch(1, 256, Foreign(tensor), 3, 1024, stream=stream)
    stream.synchronize()
    assert (tensor.numpy() == 3).all()


@pytest.mark.needs("torch")
@pytest.mark.gpu
def test_torch_tensors_are_arguments(module, stream):
    import torch

    tensor = torch.zeros(1024, dtype=torch.int32, device="cuda")
    module["ms_test_fill"].launch(1, 256, tensor, 3, 1024, stream=stream)
    stream.synchronize()
    assert bool((tensor == 3).all())


def test_memory_needs_a_parameter_of_eight_bytes(stream, words, kernels):
    with pytest.raises(TypeError, match=r"args\[1\]: expected 4 bytes, the kernel's parameter, got Buffer of 8"):
        kernels["echo_4"].launch(1, 1, words, words, stream=stream)


@pytest.mark.parametrize("make", [lambda: np.zeros(3), lambda: asarray(np.zeros(3))], ids=["numpy", "tensor"])
def test_host_memory_is_refused(stream, words, kernels, make):
    with pytest.raises(DeviceMismatchError, match=r"args\[1\]: expected memory of device 0"):
        kernels["echo_8"].launch(1, 1, words, make(), stream=stream)


def test_closed_memory_is_refused(device, stream, words, kernels):
    buffer = device.pool.allocate(8, stream=stream)
    buffer.close()
    with pytest.raises(ClosedError, match="buffer"):
        kernels["echo_8"].launch(1, 1, words, buffer, stream=stream)
