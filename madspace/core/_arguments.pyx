"""Python values as kernel parameters, checked against the sizes that the kernel declares."""
import ctypes

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from libc.math cimport isinf
from libc.stdint cimport uint64_t, uintptr_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from madspace.core._dlpack_abi cimport DEVICE_CUDA
from madspace.core._uses cimport Work, work_on
from madspace.core.device cimport Device, get_device
from madspace.core.dlpack cimport array_device, framework_stream, import_array
from madspace.core.memory cimport Buffer
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport Tensor

import numpy as np

from madspace.errors import DeviceMismatchError, ShapeError


cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1
    unsigned long long PyLong_AsUnsignedLongLong(object number) except? <unsigned long long>-1
    PyObject** PySequence_Fast_ITEMS(object sequence)
    Py_ssize_t PySequence_Fast_GET_SIZE(object sequence)


cdef tuple CTYPES = (ctypes._SimpleCData, ctypes.Structure, ctypes.Union, ctypes.Array, ctypes._Pointer)
cdef type Scalar = np.generic
# Numbers, structures, and the types of ml_dtypes, whose kind is that of structures; no text, no dates, no objects.
cdef str SCALAR_KINDS = "biufcV"
# NumPy's own numbers: always in native byte order, and quicker by the buffer protocol, which ml_dtypes' types lack.
cdef set NUMBERS = {np.dtype(code).type for code in "?bBhHiIlLqQefdFD"}


cdef size_t words_of(size_t nbytes) noexcept nogil:
    return (nbytes + sizeof(uint64_t) - 1) // sizeof(uint64_t)


cdef object lay_out(tuple args, const vector[size_t]& sizes, str kernel, Stream stream, uint64_t* words, void** params,
                    Py_ssize_t* n_memory):
    cdef Py_ssize_t i
    cdef Py_ssize_t n = len(args)
    cdef object taken = args
    cdef object memory
    if <size_t>n != sizes.size():
        raise ShapeError(f"args: kernel {kernel} takes {sizes.size()} parameters, got {n}")
    n_memory[0] = 0
    for i in range(n):
        params[i] = words
        memory = write_argument(words, args[i], sizes[i], i, stream)
        words += words_of(sizes[i])
        if memory is not None:
            n_memory[0] += 1
            if memory is not args[i]:
                if taken is args:
                    taken = list(args)
                (<list>taken)[i] = memory
    return taken


cdef object write_argument(void* place, object arg, size_t size, Py_ssize_t index, Stream stream):
    cdef double number
    if PyLong_CheckExact(arg):
        write_int(place, arg, size, index)
    elif type(arg) is Buffer or type(arg) is Tensor:
        return write_address(place, arg, size, index, stream.device)
    elif PyFloat_CheckExact(arg):
        number = PyFloat_AS_DOUBLE(arg)
        write_reals(place, &number, 1, size, index, arg)
    else:
        return write_other(place, arg, size, index, stream)
    return None


cdef object write_other(void* place, object arg, size_t size, Py_ssize_t index, Stream stream):
    cdef double numbers[2]
    # First what looks like an int, a float or a complex but says which one: numpy.float64 is a float as well.
    if isinstance(arg, Scalar):
        write_scalar(place, arg, size, index)
    elif isinstance(arg, CTYPES):
        write_bytes(place, arg, size, index)
    elif isinstance(arg, int):
        write_int(place, int(arg), size, index)
    elif isinstance(arg, (float, complex)):
        numbers[0], numbers[1] = arg.real, arg.imag
        write_reals(place, numbers, 2 if isinstance(arg, complex) else 1, size, index, arg)
    elif isinstance(arg, (Buffer, Tensor)):
        return write_address(place, arg, size, index, stream.device)
    elif is_foreign(arg):
        return write_address(place, import_array(arg, stream, f"args[{index}]"), size, index, stream.device)
    else:
        raise TypeError(
            f"args[{index}]: expected an int, a float, a complex, a NumPy scalar, a ctypes object, a Buffer, a Tensor "
            f"or an array on the device, got {type(arg).__name__}")
    return None


cdef int write_int(void* place, object arg, size_t size, Py_ssize_t index) except -1:
    # Signed or unsigned is not known here: the union of both ranges is taken.
    cdef int overflow
    cdef uint64_t word
    cdef long long number
    if size != 8 and size != 4 and size != 2 and size != 1:
        raise TypeError(
            f"args[{index}]: expected {size} bytes, the kernel's parameter, got an int, which has 1, 2, 4 or 8")
    number = PyLong_AsLongLongAndOverflow(arg, &overflow)
    if size == 8:
        if overflow < 0 or (overflow > 0 and arg > 0xFFFFFFFFFFFFFFFF):
            raise OverflowError(f"args[{index}]: expected an int of 8 bytes, got {arg}")
        word = PyLong_AsUnsignedLongLong(arg) if overflow > 0 else <uint64_t>number
    else:
        if overflow != 0 or number >= (1LL << (8 * size)) or number < -(1LL << (8 * size - 1)):
            raise OverflowError(f"args[{index}]: expected an int of {size} bytes, got {arg}")
        word = <uint64_t>number
    memcpy(place, &word, size)          # its low bytes: CUDA hosts are little-endian
    return 0


cdef int write_reals(void* place, const double* numbers, size_t n, size_t size, Py_ssize_t index,
                     object arg) except -1:
    cdef float narrow[2]
    cdef size_t i
    if size == n * sizeof(double):
        memcpy(place, numbers, size)
        return 0
    if size != n * sizeof(float):
        raise TypeError(
            f"args[{index}]: expected {size} bytes, the kernel's parameter, got a {type(arg).__name__}, which has "
            f"{n * sizeof(float)} or {n * sizeof(double)}; numpy.float16 and ml_dtypes.bfloat16 have 2")
    for i in range(n):
        narrow[i] = <float>numbers[i]
        if isinf(narrow[i]) and not isinf(numbers[i]):
            raise OverflowError(f"args[{index}]: expected a {type(arg).__name__} of {size} bytes, got {arg}")
    memcpy(place, narrow, size)
    return 0


cdef int write_scalar(void* place, object arg, size_t size, Py_ssize_t index) except -1:
    cdef bytes value
    if type(arg) in NUMBERS:
        return write_bytes(place, arg, size, index)
    check_scalar(arg.dtype, index)
    value = arg.tobytes()
    expect_size(size, len(value), index, arg)
    memcpy(place, <const char*>value, size)
    return 0


cdef int check_scalar(object dtype, Py_ssize_t index) except -1:
    if dtype.kind not in SCALAR_KINDS or dtype.hasobject:
        raise TypeError(f"args[{index}]: expected a number or a structure of numbers, got a NumPy scalar of {dtype}")
    if not all(field[0].isnative for field in (dtype.fields or {"": (dtype,)}).values()):
        raise TypeError(f"args[{index}]: expected native byte order, got a NumPy scalar of {dtype}")
    return 0


cdef int write_bytes(void* place, object arg, size_t size, Py_ssize_t index) except -1:
    cdef Py_buffer view
    PyObject_GetBuffer(arg, &view, PyBUF_SIMPLE)
    try:
        expect_size(size, view.len, index, arg)
        memcpy(place, view.buf, size)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int expect_size(size_t size, size_t got, Py_ssize_t index, object arg) except -1:
    if size != got:
        raise TypeError(
            f"args[{index}]: expected {size} bytes, the kernel's parameter, got {type(arg).__name__} of {got}")
    return 0


cdef object write_address(void* place, object arg, size_t size, Py_ssize_t index, Device device):
    cdef Buffer buffer
    cdef Tensor tensor
    cdef uint64_t address
    cdef bint here
    if isinstance(arg, Buffer):
        buffer = <Buffer>arg
        if buffer.closed_:
            buffer.check_open()
        here = buffer.stream.device is device
        address = buffer.ptr_
    else:
        tensor = <Tensor>arg
        if tensor.buffer_ is not None and tensor.buffer_.closed_:
            tensor.buffer_.check_open()
        here = tensor.device_type_ == DEVICE_CUDA and tensor.device_id_ == device.id
        address = <uint64_t><uintptr_t>tensor.data_
    if not here:
        raise DeviceMismatchError(f"args[{index}]: expected memory of device {device.id}, the stream's, got {arg!r}")
    if size != sizeof(address):
        expect_size(size, sizeof(address), index, arg)
    memcpy(place, &address, sizeof(address))
    return arg


cdef int order_before(object args, Stream stream) except -1:
    cdef Py_ssize_t i
    cdef PyObject** items = PySequence_Fast_ITEMS(args)
    cdef Work work = work_on(stream)
    for i in range(PySequence_Fast_GET_SIZE(args)):
        arg = <object>items[i]
        if isinstance(arg, Buffer):
            (<Buffer>arg).before_in(work, True)
        elif isinstance(arg, Tensor):
            (<Tensor>arg).before_in(work, not (<Tensor>arg).readonly_)
    return 0


cdef int order_after(object args, Stream stream) except -1:
    cdef Py_ssize_t i
    cdef PyObject** items = PySequence_Fast_ITEMS(args)
    cdef Work work = work_on(stream)
    error = None
    for i in range(PySequence_Fast_GET_SIZE(args)):
        arg = <object>items[i]
        try:
            if isinstance(arg, Buffer):
                (<Buffer>arg).after_in(work, True)
            elif isinstance(arg, Tensor):
                (<Tensor>arg).after_in(work, not (<Tensor>arg).readonly_)
        except Exception as failure:        # the others are used all the same
            error = error or failure
    if error is not None:
        raise error
    return 0


cdef Device device_of_arguments(tuple args):
    for arg in args:
        if isinstance(arg, Buffer):
            return (<Buffer>arg).stream.device
        if isinstance(arg, Tensor) and (<Tensor>arg).device_type_ == DEVICE_CUDA:
            return get_device((<Tensor>arg).device_id_)
        if is_foreign(arg) and array_device(arg) >= 0:
            return get_device(array_device(arg))
    return None


cdef Stream framework_of_arguments(tuple args):
    for arg in args:
        if isinstance(arg, Buffer) or (isinstance(arg, Tensor) and (<Tensor>arg).device_type_ == DEVICE_CUDA):
            return None
        if is_foreign(arg) and array_device(arg) >= 0:
            return framework_stream(arg)
    return None


cdef bint is_foreign(object arg):
    if isinstance(arg, (int, float, complex, Scalar, CTYPES, Buffer, Tensor)):
        return False
    return (hasattr(type(arg), "__dlpack__") or hasattr(type(arg), "__dlpack_c_exchange_api__")
            or hasattr(arg, "__cuda_array_interface__"))
