"""Python values as kernel parameters, checked against the sizes that the kernel declares."""
import ctypes

from libc.stdint cimport uint64_t, uintptr_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from madspace.core.device cimport Device, get_device
from madspace.core.memory cimport Buffer
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport Tensor

import numpy as np

from madspace.errors import DeviceMismatchError, ShapeError

cdef enum:
    DEVICE_CUDA = 2     # DLPack's code

cdef tuple CTYPES = (ctypes._SimpleCData, ctypes.Structure, ctypes.Union, ctypes.Array, ctypes._Pointer)


cdef class Arguments:
    cdef int lay_out(self, tuple args, const vector[size_t]& sizes, str kernel, Device device) except -1:
        cdef size_t i
        cdef size_t n = len(args)
        if n != sizes.size():
            raise ShapeError(f"args: kernel {kernel} takes {sizes.size()} parameters, got {n}")
        self.words.resize(n)
        self.pointers.resize(n)
        for i in range(n):
            self.pointers[i] = &self.words[i]
            self.convert(args[i], sizes[i], i, device)
        return 0

    cdef int convert(self, object arg, size_t size, size_t index, Device device) except -1:
        cdef double as_double
        cdef float as_float
        cdef uint64_t address
        if isinstance(arg, (Buffer, Tensor)):
            address = address_of(arg, index, device)
            expect_size(size, sizeof(address), index, arg)
            self.words[index] = address
            if self.memory is None:
                self.memory = []
            self.memory.append(arg)
        elif isinstance(arg, np.generic):
            self.keep(arg.tobytes(), size, index, arg)
        elif isinstance(arg, CTYPES):
            self.keep(memoryview(arg).tobytes(), size, index, arg)
        elif isinstance(arg, float):
            if size == sizeof(float):
                as_float = arg
                memcpy(&self.words[index], &as_float, sizeof(float))
            else:
                expect_size(size, sizeof(double), index, arg)
                as_double = arg
                memcpy(&self.words[index], &as_double, sizeof(double))
        elif isinstance(arg, int):
            self.words[index] = word_of(arg, size, index)
        else:
            raise TypeError(
                f"args[{index}]: expected an int, a float, a NumPy scalar, a ctypes object, a Tensor or a Buffer, "
                f"got {type(arg).__name__}")
        return 0

    cdef int keep(self, bytes value, size_t size, size_t index, object arg) except -1:
        expect_size(size, len(value), index, arg)
        if self.kept is None:
            self.kept = []
        self.kept.append(value)
        self.pointers[index] = <void*><char*>value
        return 0

    cdef int before(self, Stream stream) except -1:
        if self.memory is not None:
            for arg in self.memory:
                if isinstance(arg, Buffer):
                    (<Buffer>arg).before(stream, True)
                else:
                    (<Tensor>arg).before(stream, not (<Tensor>arg).readonly_)
        return 0

    cdef int after(self, Stream stream) except -1:
        if self.memory is not None:
            for arg in self.memory:
                if isinstance(arg, Buffer):
                    (<Buffer>arg).after(stream, True)
                else:
                    (<Tensor>arg).after(stream, not (<Tensor>arg).readonly_)
        return 0


cdef int expect_size(size_t size, size_t got, size_t index, object arg) except -1:
    if size != got:
        raise TypeError(
            f"args[{index}]: expected {size} bytes, the kernel's parameter, got {type(arg).__name__} of {got}")
    return 0


cdef uint64_t word_of(object arg, size_t size, size_t index) except? 0xFFFFFFFFFFFFFFFF:
    # Signed or unsigned is not known here: the union of both ranges is taken.
    if size > 8:
        raise TypeError(f"args[{index}]: expected {size} bytes, the kernel's parameter, got an int")
    cdef object bits = 8 * size         # a Python number: the shifts must not be those of C
    if not -(1 << (bits - 1)) <= arg < (1 << bits):
        raise OverflowError(f"args[{index}]: expected an int of {size} bytes, got {arg}")
    return <uint64_t>(arg & 0xFFFFFFFFFFFFFFFF)


cdef uint64_t address_of(object arg, size_t index, Device device) except? 0xFFFFFFFFFFFFFFFF:
    cdef Buffer buffer
    cdef Tensor tensor
    if isinstance(arg, Buffer):
        buffer = arg
        buffer.check_open()
        if buffer.pool.device is not device:
            raise DeviceMismatchError(
                f"args[{index}]: expected memory of device {device.id}, the stream's, got {buffer!r}")
        return buffer.ptr_
    tensor = arg
    if tensor.device_type_ != DEVICE_CUDA or tensor.device_id_ != device.id:
        raise DeviceMismatchError(f"args[{index}]: expected memory of device {device.id}, the stream's, got {tensor!r}")
    return <uint64_t><uintptr_t>tensor.data_


cdef Device device_of_arguments(tuple args):
    for arg in args:
        if isinstance(arg, Buffer):
            return (<Buffer>arg).pool.device
        if isinstance(arg, Tensor) and (<Tensor>arg).device_type_ == DEVICE_CUDA:
            return get_device((<Tensor>arg).device_id_)
    return None
