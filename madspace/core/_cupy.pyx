"""CuPy's arrays, read by their attributes."""
cimport cython

from cuda.bindings.cydriver cimport CUstream
from libc.stdint cimport int64_t, uintptr_t

from madspace.core._dlpack_abi cimport DEVICE_CUDA
from madspace.core._dtypes cimport dtype_codes
from madspace.core._layout cimport compact_strides
from madspace.core._operand cimport Operand
from madspace.core.device cimport Device
from madspace.core.stream cimport Stream, told_by_handle
from madspace.core.tensor cimport MAX_NDIM

import inspect
import sys
import types

from madspace.errors import DTypeError


cdef extern from "Python.h":
    ctypedef struct PyGetSetDef:
        Getter get
        void* closure

    ctypedef struct PyGetSetDescrObject:
        PyGetSetDef* d_getset


@cython.final
cdef class Attribute:
    cdef object of(self, object instance):
        return getattr(instance, self.name) if self.get == NULL else self.get(instance, self.closure)


cdef Attribute attribute_of(type kind, str name):
    cdef Attribute attribute = Attribute.__new__(Attribute)
    descriptor = inspect.getattr_static(kind, name, None)
    attribute.name = name
    if isinstance(descriptor, types.GetSetDescriptorType):
        attribute.get = (<PyGetSetDescrObject*><void*>descriptor).d_getset.get
        attribute.closure = (<PyGetSetDescrObject*><void*>descriptor).d_getset.closure
    return attribute


@cython.final
cdef class CupyArrays:
    cdef Stream current_stream(self, Device device):
        told = self.get_current_stream(device.id)
        # CuPy destroys a stream with its object, so what belongs to the stream keeps that; but one that another library
        # made, whose class destroys nothing, may end at any time.
        owner = told if hasattr(type(told), "__del__") else None
        return told_by_handle(device, <CUstream><uintptr_t>told.ptr, owner)

    cdef bint describe(self, object array, Operand* operand) except -1:
        cdef tuple shape = self.shape.of(array), strides = self.strides.of(array)
        cdef int64_t count = 1, size, stride
        cdef Attribute ptr, device_id
        cdef unsigned char code, bits
        cdef int i
        memory, dtype = self.data.of(array), self.dtype.of(array)
        if type(memory) is not self.memory_type:
            self.ptr, self.device_id = attribute_of(type(memory), "ptr"), attribute_of(type(memory), "device_id")
            self.memory_type = type(memory)
        ptr, device_id = self.ptr, self.device_id       # what is asked for may lead to another array, and back here
        if dtype is not self.last_dtype:
            try:
                dtype_codes(dtype, "dtype", &code, &bits)
            except DTypeError:
                return False                # taking it over names the argument
            self.last_dtype, self.code, self.bits = dtype, code, bits
        else:
            code, bits = self.code, self.bits
        if len(shape) > MAX_NDIM:
            return False
        operand.device_type, operand.device_id = DEVICE_CUDA, device_id.of(memory)
        operand.code, operand.bits = code, bits
        operand.readonly = False
        operand.ndim = <int>len(shape)
        size = bits // 8
        for i in range(operand.ndim):
            stride = strides[i]
            if stride % size != 0:
                return False
            operand.shape[i], operand.strides[i] = shape[i], stride // size
            count *= operand.shape[i]
        operand.data = <char*><uintptr_t>ptr.of(memory)
        if count == 0:
            operand.data = NULL
            compact_strides(operand.ndim, operand.shape, operand.strides)
        return True


cdef CupyArrays cupy_arrays(type kind):
    cdef CupyArrays arrays
    get_current_stream = getattr(getattr(sys.modules.get("cupy"), "cuda", None), "get_current_stream", None)
    if get_current_stream is None:
        return None
    arrays = CupyArrays.__new__(CupyArrays)
    arrays.get_current_stream = get_current_stream
    arrays.shape, arrays.strides = attribute_of(kind, "shape"), attribute_of(kind, "strides")
    arrays.data, arrays.dtype = attribute_of(kind, "data"), attribute_of(kind, "dtype")
    return arrays
