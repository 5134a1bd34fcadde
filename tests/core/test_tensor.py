"""Tensor: what it says of itself, and what NumPy makes of it."""

import copy
import gc
import pickle
import sys
import weakref

import numpy as np
import pytest
from dlpack_structs import table_of, view_of

from madspace.core.creation import asarray, empty, zeros
from madspace.core.tensor import Tensor
from madspace.errors import DeviceMismatchError, DTypeError, ShapeError


def test_description_of_a_host_tensor():
    array = np.arange(24, dtype="f4").reshape(2, 3, 4)
    tensor = asarray(array)
    assert tensor.shape == (2, 3, 4)
    assert tensor.strides == (12, 4, 1)
    assert (tensor.ndim, tensor.size, tensor.itemsize, tensor.nbytes) == (3, 24, 4, 96)
    assert tensor.dtype == np.dtype("f4")
    assert tensor.device == "cpu"
    assert tensor.device_id is None
    assert tensor.stream is None
    assert tensor.ptr == array.__array_interface__["data"][0]
    assert not tensor.readonly
    assert tensor.is_contiguous
    assert len(tensor) == 2
    assert repr(tensor) == f"<Tensor shape=(2, 3, 4) dtype=float32 device=cpu ptr={tensor.ptr:#x}>"


def test_description_of_a_device_tensor(device):
    tensor = empty((2, 3), "i4", device=device)
    assert tensor.device is device
    assert tensor.device_id == 0
    assert tensor.stream == device.default_stream
    assert tensor.ptr != 0
    assert "device=cuda:0" in repr(tensor)


@pytest.mark.parametrize(
    ("index", "contiguous"),
    [
        (np.s_[:], True),
        (np.s_[1:], True),
        (np.s_[:, 1:], False),
        (np.s_[::2], False),
        (np.s_[:1, ::2], False),
        (np.s_[:1, :1], True),
        (np.s_[::-1], False),
        (np.s_[:0, ::2], True),
        (np.s_[2, 3], True),
    ],
)
def test_contiguity(index, contiguous):
    view = np.zeros((4, 6))[index]
    assert asarray(view).is_contiguous is contiguous


def test_the_class_is_not_called():
    with pytest.raises(TypeError, match="made by asarray"):
        Tensor()


def test_no_dimensions_no_length():
    with pytest.raises(TypeError, match="no len"):
        len(zeros(()))


@pytest.mark.parametrize("action", [copy.copy, copy.deepcopy, pickle.dumps])
def test_no_copies_by_pickle(action):
    with pytest.raises(TypeError, match=r"use numpy\(\)"):
        action(zeros(3))


def test_numpy_is_a_view_that_keeps_the_tensor():
    tensor = zeros((3, 4))
    alive = weakref.ref(tensor)
    view = tensor.numpy()
    view[1, 2] = 5.0
    assert tensor.numpy()[1, 2] == 5.0
    del tensor
    gc.collect()
    assert alive() is not None
    del view
    assert alive() is None


def test_the_source_is_kept_and_let_go():
    array = np.arange(100.0)
    before = sys.getrefcount(array)
    for _ in range(100):
        tensor = asarray(array[::-2])
        view = tensor.numpy()
        assert np.shares_memory(view, array)
        np.from_dlpack(asarray(array[::2]))
    del tensor
    assert sys.getrefcount(array) == before + 1
    del view
    assert sys.getrefcount(array) == before


def test_read_only_sources():
    array = np.arange(3.0)
    array.flags.writeable = False
    tensor = asarray(array)
    assert tensor.readonly
    assert not tensor.numpy().flags.writeable
    with pytest.raises(ValueError, match="self: expected a tensor that may be written"):
        tensor.copy_from(np.zeros(3))


def test_conversion_by_numpy():
    tensor = asarray(np.arange(3.0))
    assert np.asarray(tensor).tolist() == [0.0, 1.0, 2.0]
    assert np.shares_memory(np.asarray(tensor), tensor.numpy())
    assert not np.shares_memory(np.array(tensor), tensor.numpy())
    assert np.asarray(tensor, dtype="i4").dtype == np.int32
    with pytest.raises(ValueError, match="copy: expected None or True"):
        tensor.__array__("i4", copy=False)


def test_no_implicit_conversion_from_a_device(device):
    with pytest.raises(TypeError, match=r"call numpy\(\)"):
        np.asarray(zeros(3, device=device))


@pytest.mark.parametrize("index", [np.s_[:], np.s_[:, ::2], np.s_[::-1, 1:3], np.s_[1, 2], np.s_[:0]])
def test_numpy_from_a_device(device, index):
    host = np.arange(24.0).reshape(4, 6)[index]
    tensor = asarray(host, device)
    array = tensor.numpy()
    assert array.tolist() == host.tolist()
    assert array.flags.writeable


def test_numpy_waits_for_the_last_write(device, stream, delay):
    tensor = zeros(1000, device=device)
    delay(stream)
    tensor.copy_from(asarray(np.full(1000, 3.0), device), stream=stream)
    assert (tensor.numpy() == 3.0).all()


@pytest.mark.parametrize("index", [np.s_[:], np.s_[::-1], np.s_[:, ::-2]])
def test_copy_from_between_host_arrays(index):
    target = np.zeros((4, 6))
    source = np.arange(24.0).reshape(4, 6)
    tensor = asarray(target[index])
    assert tensor.copy_from(source[index]) is tensor
    assert (target[index] == source[index]).all()


def test_copy_from_overlapping_memory():
    array = np.arange(6.0)
    asarray(array[1:]).copy_from(array[:-1])
    assert array.tolist() == [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("source_device", ["cpu", "cuda"])
@pytest.mark.parametrize("target_device", ["cpu", "cuda"])
def test_copy_from_between_devices(device, source_device, target_device):
    source = asarray(np.arange(6.0).reshape(2, 3), source_device)
    target = zeros((2, 3), device=target_device).copy_from(source)
    assert target.numpy().tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_copy_from_takes_any_host_strides_to_a_device(device):
    source = np.arange(24.0).reshape(4, 6)[::-1, ::2]
    assert zeros((4, 3), device=device).copy_from(source).numpy().tolist() == source.tolist()


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (np.zeros((3, 2)), ShapeError, r"array: expected shape \(2, 3\), got \(3, 2\)"),
        (np.zeros(3), ShapeError, r"array: expected shape \(2, 3\), got \(3,\)"),
        (np.zeros((2, 3), "f4"), DTypeError, "array: expected dtype float64, got float32"),
        (None, TypeError, "array: expected an array"),
    ],
    ids=["shape", "rank", "dtype", "no-array"],
)
@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_copy_from_refuses(device, where, source, error, message):
    with pytest.raises(error, match=message):
        zeros((2, 3), device=where).copy_from(source)


def test_copy_from_on_a_device_wants_contiguous_tensors(device):
    wide = asarray(np.zeros((4, 6)), device)
    half = view_of(table_of(Tensor), wide, shape=(4, 3), strides=(6, 2))
    with pytest.raises(ShapeError, match="array: expected a contiguous tensor"):
        zeros((4, 3), device=device).copy_from(half)
    with pytest.raises(ShapeError, match="self: expected a contiguous tensor"):
        half.copy_from(np.zeros((4, 3)))
    assert half.numpy().shape == (4, 3)


@pytest.mark.multi_gpu
def test_copy_from_another_device(device, other_device):
    with pytest.raises(DeviceMismatchError, match="cuda:1"):
        zeros(3, device=device).copy_from(zeros(3, device=other_device))


def test_cuda_array_interface(device):
    tensor = zeros((2, 3), "f4", device=device)
    interface = tensor.__cuda_array_interface__
    assert interface == {
        "shape": (2, 3),
        "strides": None,
        "typestr": "<f4",
        "data": (tensor.ptr, False),
        "version": 3,
        "stream": device.default_stream.handle,
    }


def test_cuda_array_interface_without_elements(device):
    interface = zeros((0, 3), device=device).__cuda_array_interface__
    assert interface["data"] == (0, False)
    assert interface["shape"] == (0, 3)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "f2", "c8", "c16"])
def test_cuda_array_interface_types(device, dtype):
    assert zeros(3, dtype, device=device).__cuda_array_interface__["typestr"] == np.dtype(dtype).str


@pytest.mark.needs("ml_dtypes")
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn"])
def test_no_cuda_array_interface_for_small_floats(device, name):
    import ml_dtypes

    tensor = zeros(3, getattr(ml_dtypes, name), device=device)
    assert not hasattr(tensor, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match=f"no word for {name}"):
        tensor.__cuda_array_interface__  # noqa: B018


def test_no_cuda_array_interface_on_the_host():
    assert not hasattr(zeros(3), "__cuda_array_interface__")
