"""DLPack's structures in ctypes, written from the specification and not from the package, and capsules made of them."""

import ctypes
from ctypes import (
    CFUNCTYPE,
    POINTER,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)

import numpy as np


class DLDevice(ctypes.Structure):
    _fields_ = (("type", c_int32), ("id", c_int32))


class DLDataType(ctypes.Structure):
    _fields_ = (("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16))


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device", DLDevice),
        ("ndim", c_int32),
        ("dtype", DLDataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


DELETER = CFUNCTYPE(None, c_void_p)


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", DLTensor),
    )


class Legacy(ctypes.Structure):
    _fields_ = (("tensor", DLTensor), ("context", c_void_p), ("deleter", c_void_p))


SET_ERROR = CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)


class Table(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("prev_api", c_void_p),
        ("allocate", CFUNCTYPE(c_int, POINTER(DLTensor), POINTER(POINTER(Versioned)), c_void_p, SET_ERROR)),
        # These need the GIL, and leave an exception behind: PYFUNCTYPE keeps the one and raises the other.
        ("from_object", ctypes.PYFUNCTYPE(c_int, ctypes.py_object, POINTER(POINTER(Versioned)))),
        ("to_object", ctypes.PYFUNCTYPE(c_int, POINTER(Versioned), POINTER(c_void_p))),
        ("borrow", ctypes.PYFUNCTYPE(c_int, ctypes.py_object, POINTER(DLTensor))),
        ("current_stream", ctypes.PYFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p))),
    )


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = (c_void_p, c_char_p, c_void_p)
capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype = c_void_p
capsule_pointer.argtypes = (ctypes.py_object, c_char_p)
capsule_name = ctypes.pythonapi.PyCapsule_GetName
capsule_name.restype = c_char_p
capsule_name.argtypes = (ctypes.py_object,)
rename_capsule = ctypes.pythonapi.PyCapsule_SetName
rename_capsule.argtypes = (ctypes.py_object, c_char_p)


def table_of(kind):
    """Return the exchange table of a type."""
    capsule = kind.__dlpack_c_exchange_api__
    return ctypes.cast(capsule_pointer(capsule, b"dlpack_exchange_api"), POINTER(Table)).contents


def managed_of(capsule):
    """Return the structure that a capsule holds; the capsule keeps it."""
    if capsule_name(capsule) == b"dltensor_versioned":
        return ctypes.cast(capsule_pointer(capsule, b"dltensor_versioned"), POINTER(Versioned)).contents
    return ctypes.cast(capsule_pointer(capsule, b"dltensor"), POINTER(Legacy)).contents


def delete(managed):
    """Call the deleter of a structure, without the GIL as a C consumer may."""
    DELETER(managed.deleter)(ctypes.addressof(managed))


class Producer:
    """An object with __dlpack__ over host bytes, in which every field can be set to what a test needs.

    ``deleted`` counts the calls of the deleter, ``keywords`` keeps what __dlpack__ was called with.
    """

    def __init__(self, array, *, versioned=True, flags=0, version=(1, 0), with_deleter=True, shape=None, strides=None):
        self.array = array
        self.deleted = 0
        self.keywords = []
        self.versioned = versioned
        shape = array.shape if shape is None else shape
        self._shape = (c_int64 * len(shape))(*shape)
        self._strides = None if strides is None else (c_int64 * len(strides))(*strides)
        self._deleter = DELETER(self._delete)
        self.struct = Versioned() if versioned else Legacy()
        self.struct.deleter = ctypes.cast(self._deleter, c_void_p) if with_deleter else None
        if versioned:
            self.struct.major, self.struct.minor = version
            self.struct.flags = flags
        tensor = self.tensor
        tensor.data = array.__array_interface__["data"][0]
        tensor.device = DLDevice(1, 0)
        tensor.ndim = len(shape)
        tensor.dtype = DLDataType({"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}[array.dtype.kind], 8 * array.itemsize, 1)
        tensor.shape = self._shape
        if strides is not None:
            tensor.strides = self._strides
        self.device = (1, 0)

    @property
    def tensor(self):
        """The DLTensor, to change before the export."""
        return self.struct.tensor

    def _delete(self, _):
        self.deleted += 1

    def capsule(self):
        """Return a capsule without a destructor: what is not consumed is not deleted."""
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return new_capsule(ctypes.addressof(self.struct), name, None)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        self.keywords.append(keywords)
        return self.capsule()


def read(tensor):
    """Copy what a DLTensor on the host describes into an array, following the specification to the letter."""
    shape = tensor.shape[: tensor.ndim]
    strides = tensor.strides[: tensor.ndim]
    kind = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}[tensor.dtype.code]
    dtype = np.dtype(f"{kind}{tensor.dtype.bits // 8}")
    if 0 in shape:
        return np.empty(shape, dtype)
    last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    block = (ctypes.c_char * ((last + 1) * dtype.itemsize)).from_address(tensor.data + tensor.byte_offset)
    flat = np.frombuffer(block, dtype)
    return np.lib.stride_tricks.as_strided(flat, shape, [step * dtype.itemsize for step in strides]).copy()


_kept = []  # structures without a deleter must outlive every tensor made of them


def view_of(table, array, *, shape, strides):
    """Return another view of an array's memory as an array of the table's type. The memory must outlive it."""
    borrowed = DLTensor()
    assert table.borrow(array, ctypes.byref(borrowed)) == 0
    made = Versioned(1, 3)
    made.tensor = borrowed
    made.tensor.ndim = len(shape)
    lengths, steps = (c_int64 * len(shape))(*shape), (c_int64 * len(strides))(*strides)
    made.tensor.shape, made.tensor.strides = lengths, steps
    _kept.append((made, lengths, steps))
    return take(table, made)


def take(table, managed):
    """Give a managed tensor to a table's type."""
    out = c_void_p()
    if table.to_object(ctypes.byref(managed), ctypes.byref(out)) != 0:
        raise AssertionError("to_object failed without an exception")
    taken = ctypes.cast(out, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(taken))  # the reference in `out` was ours
    return taken
