"""asarray, empty and zeros."""

import array as array_module
import ctypes
import gc

import numpy as np
import pytest
from raw_driver import current_context

from madspace.core.creation import asarray, empty, zeros
from madspace.core.stream import Stream
from madspace.errors import DeviceMismatchError, DriverError, DTypeError, OutOfMemoryError, ShapeError


@pytest.mark.parametrize("shape", [(), 5, (3,), [2, 3], (0, 4), np.array([2, 2]), (1,) * 8], ids=str)
@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_zeros(device, shape, where):
    tensor = zeros(shape, "f4", device=where)
    expected = np.zeros(shape, "f4")
    assert tensor.shape == expected.shape
    assert tensor.is_contiguous
    assert not tensor.readonly
    np.testing.assert_array_equal(tensor.numpy(), expected)


def test_host_memory_is_aligned_to_64_bytes():
    kept = [empty(n, "u1") for n in range(1, 200, 7)]
    assert all(tensor.ptr % 64 == 0 for tensor in kept)


def test_defaults():
    assert empty(3).dtype == np.float64
    assert empty(3).device == "cpu"


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1,) * 9, "shape: expected at most 8 lengths, got 9"),
        ((2, -1), "shape: expected lengths from 0"),
        ((2.0,), "shape: expected an int or a sequence of ints"),
        ("ab", "shape: expected an int or a sequence of ints"),
        ((2**32, 2**31), r"that make fewer than 2\*\*63 bytes"),
        (2**63, "shape: expected lengths from 0"),
    ],
    ids=["rank", "negative", "float", "text", "bytes", "length"],
)
def test_bad_shapes(shape, message):
    for make in (empty, zeros):
        with pytest.raises(ShapeError, match=message):
            make(shape)


@pytest.mark.parametrize("dtype", ["O", "S3", "M8[s]", ">f8", "f4,f4", "no such type", np.longdouble])
def test_bad_dtypes(dtype):
    with pytest.raises(DTypeError, match="dtype: expected"):
        empty(3, dtype)


@pytest.mark.parametrize("where", ["gpu", "cuda:x", "CPU", "", 1.5, b"cpu"], ids=str)
def test_bad_devices(where):
    for action in (lambda: empty(3, device=where), lambda: asarray(np.zeros(3), where)):
        with pytest.raises((ValueError, TypeError), match=r"^device: expected"):
            action()


def test_more_memory_than_there_is():
    with pytest.raises(MemoryError, match=f"{2**62}"):
        empty(2**62, "u1")


def test_more_device_memory_than_there_is(device):
    with pytest.raises(OutOfMemoryError):
        empty(2**50, "u1", device=device)


def test_the_stream_of_new_device_memory(device):
    stream = Stream(device)
    assert zeros(3, device=device, stream=stream).stream == stream
    assert empty(3, device=device, stream=stream.handle).stream == device.default_stream  # a handle may die
    assert empty(3, device=device).stream == device.default_stream


def test_host_arrays_are_shared():
    array = np.arange(6.0).reshape(2, 3)[:, ::-1]
    for tensor in (asarray(array), asarray(array, "cpu"), asarray(array, copy=False), asarray(array, dtype="f8")):
        assert np.shares_memory(tensor.numpy(), array)
        assert tensor.shape == (2, 3)


def test_a_copy_on_request():
    array = np.arange(6.0)
    tensor = asarray(array, copy=True)
    assert not np.shares_memory(tensor.numpy(), array)
    assert tensor.numpy().tolist() == array.tolist()


def test_a_conversion_on_the_host():
    tensor = asarray(np.arange(3), dtype="f4")
    assert tensor.dtype == np.float32
    assert tensor.numpy().tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(ValueError, match="copy: expected None or True"):
        asarray(np.arange(3), dtype="f4", copy=False)


@pytest.mark.parametrize(
    ("source", "dtype", "value"),
    [
        ([1, 2], "i8", [1, 2]),
        ([[1.5], [2.5]], "f8", [[1.5], [2.5]]),
        ((True, False), "?", [True, False]),
        (2.5, "f8", 2.5),
        (1 + 2j, "c16", 1 + 2j),
        (np.float32(2.0), "f4", 2.0),
        (array_module.array("i", [1, 2]), "i4", [1, 2]),
        (b"\x01\x02", "u1", [1, 2]),
        (memoryview(bytearray(b"\x01\x02"))[::-1], "u1", [2, 1]),
        ((ctypes.c_double * 2)(1.0, 2.0), "f8", [1.0, 2.0]),
    ],
    ids=["list", "nested", "tuple", "float", "complex", "scalar", "array", "bytes", "memoryview", "ctypes"],
)
def test_other_sources(source, dtype, value):
    tensor = asarray(source)
    assert tensor.dtype == np.dtype(dtype)
    assert tensor.numpy().tolist() == value


def test_buffers_are_shared():
    source = array_module.array("d", [1.0, 2.0])
    tensor = asarray(source)
    source[0] = 7.0
    assert tensor.numpy()[0] == 7.0
    with pytest.raises(BufferError):
        source.append(1.0)
    assert asarray(b"abc").readonly


@pytest.mark.needs("ml_dtypes")
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_small_floats_of_numpy(device, name, where):
    import ml_dtypes

    array = np.arange(8).astype(getattr(ml_dtypes, name)).reshape(4, 2)[::-1]
    tensor = asarray(array, where)
    assert tensor.dtype == array.dtype
    np.testing.assert_array_equal(tensor.numpy(), array)
    assert asarray([1.0, 2.0], dtype=array.dtype).dtype == array.dtype


@pytest.mark.parametrize(
    "source",
    [np.zeros(3, ">f8"), np.zeros(3, "f4,f4"), np.array(["a"]), np.array([None]), np.zeros(3, np.longdouble), ["a"]],
    ids=["big-endian", "structured", "text", "objects", "long-double", "list-of-text"],
)
def test_types_that_are_refused(source):
    with pytest.raises(DTypeError, match=r"^array: expected"):
        asarray(source)


@pytest.mark.parametrize("source", [None, object(), {}, "text"], ids=["none", "object", "dict", "str"])
def test_what_is_no_array(source):
    with pytest.raises(TypeError, match=r"^array: expected an array"):
        asarray(source)


@pytest.mark.parametrize("name", ["gpu", "cpu:0", "cuda:x", ""])
def test_what_names_no_device(name):
    for call in (lambda: asarray(1.0, name), lambda: zeros(3, device=name)):
        with pytest.raises(ValueError, match=f"^device: expected 'cpu', 'cuda' or 'cuda:<number>', got '{name}'"):
            call()


def test_there_and_back(device):
    array = np.arange(24.0).reshape(4, 6)
    tensor = asarray(array, "cuda")
    assert tensor.device is device
    array[:] = 0.0  # the call has waited until this was allowed
    assert tensor.numpy().sum() == 276.0
    home = asarray(tensor, "cpu")
    assert home.device == "cpu"
    assert home.numpy().sum() == 276.0
    assert asarray(tensor) is tensor
    assert asarray(tensor, device) is tensor


def test_conversions_on_the_way_between_devices(device):
    assert asarray(np.arange(3), "cuda", dtype="f4").numpy().dtype == np.float32
    assert asarray(zeros(3, "i4", device=device), "cpu", dtype="f4").numpy().dtype == np.float32
    with pytest.raises(DTypeError, match="dtype: expected float64, the type of the array on the device, got float32"):
        asarray(zeros(3, device=device), dtype="f4")


@pytest.mark.parametrize(("source", "target"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_no_move_without_a_copy(device, source, target):
    with pytest.raises(ValueError, match="copy: expected None or True"):
        asarray(zeros(3, device=source), target, copy=False)


def test_a_copy_within_a_device(device):
    tensor = asarray(np.arange(6.0), "cuda")
    twin = asarray(tensor, copy=True)
    tensor.copy_from(np.zeros(6))
    assert twin.numpy().tolist() == list(range(6))


def test_asarray_on_a_stream(device, stream, delay):
    delay(stream)
    tensor = asarray(np.arange(3.0), device, stream=stream)
    assert tensor.stream == stream
    other = asarray(tensor, copy=True, stream=device.default_stream)
    assert other.stream == device.default_stream
    assert other.numpy().tolist() == [0.0, 1.0, 2.0]


@pytest.mark.multi_gpu
def test_two_devices(device, other_device):
    tensor = zeros(3, device="cuda:1")
    assert tensor.device is other_device
    with pytest.raises(DeviceMismatchError, match="device: expected cuda:1"):
        asarray(tensor, "cuda:0")
    with pytest.raises(DeviceMismatchError):
        asarray(tensor, stream=Stream(device))


def test_the_context_stays_as_it_was(device):
    before = current_context()
    asarray(asarray(np.zeros(3), device), copy=True).numpy()
    zeros(3, device=device).copy_from(np.ones(3))
    assert current_context() == before


@pytest.mark.parametrize("action", ["upload", "zeros", "copy", "refill", "download"])
def test_each_failure_leaves_nothing(fake, device, stream, action):
    tensor, other, kept = zeros(3, device=device), zeros(3, device=device), []
    actions = {
        "upload": lambda: kept.append(asarray(np.zeros(3), device, stream=stream)),
        "zeros": lambda: kept.append(zeros(3, device=device, stream=stream)),
        "copy": lambda: kept.append(asarray(tensor, copy=True, stream=stream)),
        "refill": lambda: tensor.copy_from(other, stream=stream),
        "download": tensor.numpy,
    }
    actions[action]()
    kept.clear()
    before = blocks(fake)
    for name, error in fake.each_failure(actions[action]):
        assert isinstance(error, DriverError), f"the failure of {name} was lost"
        del error
        kept.clear()
        if name == "cuCtxPopCurrent":  # the block was handed out by then
            before = blocks(fake)
        assert blocks(fake) == before, name


def blocks(fake):
    """Count the blocks of device memory."""
    gc.collect()
    return fake.counts()["device_memory"]


def test_large_host_memory_is_used_again():
    first = empty((100, 1000))
    ptr = first.ptr
    view = first.numpy()
    del first
    assert empty((100, 1000)).ptr != ptr, "a view keeps the memory"
    del view
    again = empty((100, 1000))
    assert again.ptr == ptr
    assert empty((100, 1000)).ptr != ptr
