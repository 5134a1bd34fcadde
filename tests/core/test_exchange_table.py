"""The C exchange table, called as a C library calls it: Tensor's own, and that of torch where it is installed."""

import ctypes
import gc
import sys
import weakref
from ctypes import POINTER, byref, c_void_p

import numpy as np
import pytest
from dlpack_structs import (
    SET_ERROR,
    DLDataType,
    DLDevice,
    DLTensor,
    Versioned,
    capsule_name,
    delete,
    read,
    table_of,
    take,
)

from madspace.core.creation import asarray, zeros
from madspace.core.stream import Stream
from madspace.core.tensor import Tensor

TABLE = table_of(Tensor)


def from_object(array):
    out = POINTER(Versioned)()
    assert TABLE.from_object(array, byref(out)) == 0
    return out.contents


def prototype(shape, dtype=(2, 64, 1), device=(1, 0)):
    lengths = (ctypes.c_int64 * len(shape))(*shape)
    tensor = DLTensor(None, DLDevice(*device), len(shape), DLDataType(*dtype), lengths, None, 0)
    tensor.kept = lengths
    return tensor


def allocate(shape, **keywords):
    errors = []
    set_error = SET_ERROR(lambda context, kind, message: errors.append((context, kind, message)))
    out = POINTER(Versioned)()
    code = TABLE.allocate(byref(prototype(shape, **keywords)), byref(out), 7, set_error)
    assert code == (-1 if errors else 0)
    return errors[0] if errors else out.contents


def test_the_table():
    assert capsule_name(Tensor.__dlpack_c_exchange_api__) == b"dlpack_exchange_api"
    assert zeros(3).__dlpack_c_exchange_api__ is Tensor.__dlpack_c_exchange_api__
    assert (TABLE.major, TABLE.minor, TABLE.prev_api) == (1, 3, None)
    for entry in ("allocate", "from_object", "to_object", "borrow", "current_stream"):
        assert ctypes.cast(getattr(TABLE, entry), c_void_p).value


def test_from_object_owns():
    tensor = asarray(np.arange(6.0).reshape(2, 3))
    alive = weakref.ref(tensor)
    managed = from_object(tensor)
    assert (managed.major, managed.minor, managed.flags) == (1, 3, 0)
    assert managed.tensor.data == tensor.ptr
    del tensor
    gc.collect()
    assert alive() is not None
    assert read(managed.tensor).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    delete(managed)
    assert alive() is None


def test_from_object_keeps_read_only():
    array = np.zeros(3)
    array.flags.writeable = False
    managed = from_object(asarray(array))
    assert managed.flags == 1
    delete(managed)


@pytest.mark.parametrize("entry", ["from_object", "borrow"])
def test_other_objects_and_reversed_views_are_refused(entry):
    out = POINTER(Versioned)() if entry == "from_object" else DLTensor()
    with pytest.raises(TypeError):
        getattr(TABLE, entry)(np.zeros(3), byref(out))
    with pytest.raises(BufferError, match="expected no negative stride"):
        getattr(TABLE, entry)(asarray(np.zeros(3)[::-1]), byref(out))


def test_borrow_costs_no_reference():
    tensor = asarray(np.arange(6.0).reshape(2, 3)[:, ::2])
    before = sys.getrefcount(tensor)
    view = DLTensor()
    assert TABLE.borrow(tensor, byref(view)) == 0
    assert sys.getrefcount(tensor) == before
    assert view.data == tensor.ptr
    assert (view.shape[:2], view.strides[:2]) == ([2, 2], [3, 2])


def test_own_tensors_come_home():
    tensor = zeros(3)
    before = sys.getrefcount(tensor)
    assert take(TABLE, from_object(tensor)) is tensor
    assert sys.getrefcount(tensor) == before


def test_what_to_object_refuses_stays_with_the_caller():
    tensor = zeros(3)
    alive = weakref.ref(tensor)
    managed = from_object(tensor)
    del tensor
    deleter, managed.deleter = managed.deleter, None  # no longer known as our own
    managed.major = 2
    with pytest.raises(BufferError, match=r"expected 1\.x, got 2\.3"):
        take(TABLE, managed)
    assert alive() is not None
    managed.deleter = deleter
    delete(managed)
    assert alive() is None


@pytest.mark.parametrize("device_id", [None, 0], ids=["cpu", "cuda"])
def test_allocate(device, device_id):
    managed = allocate((2, 3), dtype=(2, 32, 1), device=(1, 0) if device_id is None else (2, 0))
    tensor = managed.tensor
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes, tensor.ndim) == (2, 32, 1, 2)
    assert (tensor.shape[:2], tensor.strides[:2]) == ([2, 3], [3, 1])
    assert tensor.data % 64 == 0
    made = take(TABLE, managed)
    assert made.shape == (2, 3)
    assert made.dtype == np.float32
    assert made.device_id == device_id


@pytest.mark.parametrize(
    ("keywords", "kind"),
    [
        ({"shape": (2**62,)}, b"ShapeError"),
        ({"shape": (2**58,)}, b"MemoryError"),
        ({"shape": (3,), "dtype": (2, 64, 4)}, b"BufferError"),
        ({"shape": (3,), "dtype": (3, 64, 1)}, b"BufferError"),
        ({"shape": (3,), "device": (7, 0)}, b"BufferError"),
    ],
    ids=["overflow", "memory", "lanes", "type", "device"],
)
def test_allocate_tells_its_errors(keywords, kind):
    context, told, message = allocate(**keywords)
    assert context == 7
    assert told == kind
    assert message


def test_current_stream(device):
    out = c_void_p(5)
    assert TABLE.current_stream(1, 0, byref(out)) == 0
    assert out.value is None
    assert TABLE.current_stream(2, 0, byref(out)) == 0
    assert out.value == device.default_stream.handle
    with pytest.raises(ValueError, match="device_type: expected 1"):
        TABLE.current_stream(9, 0, byref(out))


def test_device_tensors_go_through(device):
    tensor = asarray(np.arange(3.0), device)
    managed = from_object(tensor)
    assert (managed.tensor.device.type, managed.tensor.device.id) == (2, 0)
    assert take(TABLE, managed) is tensor


def test_device_tensors_are_in_order_with_the_current_stream(fake, device):
    late, own = Stream(device), device.default_stream
    tensor = zeros(3, device=device, stream=late)
    fake.clear_log()
    managed = from_object(tensor)
    assert [call.args["stream"] for call in fake.log("cuStreamWaitEvent")] == [own.handle]
    fake.clear_log()
    delete(managed)
    assert [call.args["stream"] for call in fake.log("cuEventRecord")] == [own.handle]
    fake.clear_log()
    view = DLTensor()
    assert TABLE.borrow(tensor, byref(view)) == 0
    assert own.handle in [call.args["stream"] for call in fake.log("cuStreamWaitEvent")]
