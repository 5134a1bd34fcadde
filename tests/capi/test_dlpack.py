"""DLPack in and out of the C API."""

import ctypes
import gc
import weakref

import numpy as np
import pytest
from capi_table import HEADER, fill, refused, structure_of

import madspace

View = structure_of(HEADER.read_text(), "ms_dlpack_view")
ROOM = ctypes.byref(ctypes.c_void_p())
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def view_of(api, managed):
    """Return the view of a managed tensor, its shape and its strides."""
    view = View()
    api.dlpack_describe(managed, ctypes.byref(view))
    extents = [(ctypes.c_int64 * view.ndim).from_address(x)[:] if view.ndim else [] for x in (view.shape, view.strides)]
    return view, *extents


def described(data, shape, code=2, bits=64, kind=1, device_id=0, strides=None, readonly=0):
    """Return a view, with its extents alive."""
    lengths = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    steps = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
    view = View(data, kind, device_id, code, bits, len(shape), readonly, ctypes.addressof(lengths))
    if steps is not None:
        view.strides = ctypes.addressof(steps)
    view.kept = lengths, steps
    return view


def test_arrays_come_in(api, cpu):
    x = np.arange(24.0).reshape(4, 6)[1:, ::2]
    managed = api.make("dlpack_from_object", x, cpu, None)
    view, shape, strides = view_of(api, managed)
    assert (view.data, view.device_kind, view.device_id) == (x.ctypes.data, 1, 0)
    assert (view.code, view.bits, view.readonly) == (2, 64, 0)
    assert (shape, strides) == ([3, 3], [6, 2])
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is not None
    api.dlpack_release(managed)
    gc.collect()
    assert alive() is None


def test_arrays_of_a_device_come_in_ordered(api, gpu, queue, device, stream, delay, words, fill_kernel):
    tensor = madspace.zeros(1024, "uint32", device=device, stream=stream)
    delay(stream)
    tensor.fill(7, stream=stream)
    managed = api.make("dlpack_from_object", tensor, gpu, queue)
    view, shape, _ = view_of(api, managed)
    assert (view.data, view.device_kind, shape) == (tensor.ptr, 2, [1024])
    assert words(view.data)[0] == 7
    fill(api, fill_kernel, queue, view.data, 8)
    api.dlpack_release(managed)
    assert tensor.numpy()[0] == 8  # behind what the queue had


def test_arrays_elsewhere(api, cpu, gpu, queue, device):
    refused("MS_ERROR_DEVICE", api.dlpack_from_object, np.zeros(3), gpu, queue, ROOM)
    refused("MS_ERROR_DEVICE", api.dlpack_from_object, madspace.zeros(3, device=device), cpu, None, ROOM)
    refused("MS_ERROR_ARGUMENT", api.dlpack_from_object, "text", cpu, None, ROOM)


@pytest.mark.parametrize("strides", [None, [1, 2]])
def test_memory_goes_out(api, strides):
    numbers = np.arange(6.0)
    released = []
    callback = RELEASE(released.append)
    view = described(numbers.ctypes.data, [2, 3], strides=strides)
    managed = ctypes.c_void_p()
    api.dlpack_wrap(ctypes.byref(view), 77, ctypes.cast(callback, ctypes.c_void_p), ctypes.byref(managed))
    tensor = api.object("dlpack_to_object", managed)
    assert isinstance(tensor, madspace.Tensor)
    expected = numbers.reshape(2, 3) if strides is None else numbers.reshape(3, 2).T
    np.testing.assert_array_equal(tensor.numpy(), expected)
    array = np.from_dlpack(tensor)
    del tensor
    gc.collect()
    assert released == []
    del array
    gc.collect()
    assert released == [77]


def test_memory_of_a_device_goes_out(api, gpu, queue, fill_kernel):
    address = api.make("alloc", gpu, 4096, queue)
    fill(api, fill_kernel, queue, address, 3)
    api.stream_wait(api.make("device_stream", gpu), queue)
    view = described(address, [1024], code=1, bits=32, kind=2)
    managed = ctypes.c_void_p()
    api.dlpack_wrap(ctypes.byref(view), None, None, ctypes.byref(managed))
    tensor = api.object("dlpack_to_object", managed)
    assert tensor.ptr == address
    assert set(tensor.numpy()) == {3}
    del tensor
    gc.collect()
    api.free(gpu, address, queue)


def test_it_comes_home(api, cpu):
    tensor = madspace.asarray(np.arange(3.0))
    assert api.object("dlpack_to_object", api.make("dlpack_from_object", tensor, cpu, None)) is tensor


def test_readonly_and_empty(api):
    numbers = np.arange(3.0)
    managed = ctypes.c_void_p()
    api.dlpack_wrap(ctypes.byref(described(numbers.ctypes.data, [3], readonly=1)), None, None, ctypes.byref(managed))
    assert view_of(api, managed)[0].readonly == 1
    assert api.object("dlpack_to_object", managed).readonly
    api.dlpack_wrap(ctypes.byref(described(None, [0, 3])), None, None, ctypes.byref(managed))
    assert api.object("dlpack_to_object", managed).shape == (0, 3)
    api.dlpack_wrap(ctypes.byref(described(numbers.ctypes.data, [])), None, None, ctypes.byref(managed))
    api.dlpack_release(managed)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"code": 9, "bits": 3}, "MS_ERROR_DTYPE"),
        ({"code": -1}, "MS_ERROR_DTYPE"),
        ({"bits": 300}, "MS_ERROR_DTYPE"),
        ({"kind": 3}, "MS_ERROR_ARGUMENT"),
        ({"device_id": 1}, "MS_ERROR_ARGUMENT"),
        ({"kind": 2, "device_id": -1}, "MS_ERROR_ARGUMENT"),
        ({"data": None}, "MS_ERROR_ARGUMENT"),
        ({"shape": [1] * 9}, "MS_ERROR_SHAPE"),
        ({"shape": [-1]}, "MS_ERROR_SHAPE"),
        ({"shape": [1 << 40, 1 << 40]}, "MS_ERROR_SHAPE"),
        ({"strides": [-1]}, "MS_ERROR_SHAPE"),
    ],
)
def test_views_are_checked(api, changes, name):
    numbers = np.zeros(3)
    view = described(**{"data": numbers.ctypes.data, "shape": [3]} | changes)
    refused(name, api.dlpack_wrap, ctypes.byref(view), None, None, ROOM)


def test_newer_versions_are_only_given_back(api):
    numbers = np.zeros(3)
    managed = ctypes.c_void_p()
    api.dlpack_wrap(ctypes.byref(described(numbers.ctypes.data, [3])), None, None, ctypes.byref(managed))
    version = ctypes.c_uint32.from_address(managed.value)
    version.value = 2
    refused("MS_ERROR_UNSUPPORTED", api.dlpack_describe, managed, ctypes.byref(View()))
    refused("MS_ERROR_ARGUMENT", api.dlpack_to_object, managed, ctypes.byref(ctypes.py_object()))
    version.value = 1
    api.dlpack_release(managed)
