"""Arrays of other packages that are used while their caller holds them: nobody has to own them meanwhile."""

from cpython.exc cimport PyErr_Clear
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uintptr_t

from madspace.core._dlpack_abi cimport DEVICE_CPU, DEVICE_CUDA, DLTensor
from madspace.core._dtypes cimport dtype_codes, is_known
from madspace.core._layout cimport compact_strides
from madspace.core._operand cimport Operand
from madspace.core._recording cimport n_recordings
from madspace.core.dlpack cimport Facts, is_lazy
from madspace.core.tensor cimport MAX_NDIM


cdef object _dtype = None           # what CuPy told last, and what that is in DLPack's numbers
cdef uint8_t _code, _bits


cdef bint borrow(object array, Facts facts, bint write, Operand* operand) except -1:
    if n_recordings != 0:
        return False
    if facts.cupy_stream is not None:
        return borrow_from_cupy(array, operand)
    if facts.table is NULL or facts.table.borrow is NULL or (write and not facts.writable):
        return False
    return borrow_by_table(array, facts, operand)


cdef bint borrow_by_table(object array, Facts facts, Operand* operand) except -1:
    cdef DLTensor view
    cdef int64_t count = 1
    cdef int i
    if facts.table.borrow(<PyObject*>array, &view) != 0:
        PyErr_Clear()               # taking it over tells what is wrong
        return False
    if (view.device.device_type != DEVICE_CPU and
            (view.device.device_type != DEVICE_CUDA or facts.table.current_stream is NULL)):
        return False
    if (view.dtype.lanes != 1 or not is_known(view.dtype.code, view.dtype.bits) or not 0 <= view.ndim <= MAX_NDIM
            or (view.ndim > 0 and view.shape is NULL) or is_lazy(array, &view)):
        return False
    operand.device_type = view.device.device_type
    operand.device_id = view.device.device_id if view.device.device_type == DEVICE_CUDA else 0
    operand.code, operand.bits = view.dtype.code, view.dtype.bits
    operand.readonly = False        # not known where nothing is written
    operand.ndim = view.ndim
    for i in range(view.ndim):
        operand.shape[i] = view.shape[i]
        count *= view.shape[i]
    if view.data is NULL and count != 0:
        return False
    operand.data = NULL
    if count != 0:
        operand.data = <char*>view.data + view.byte_offset
    if view.strides is NULL or count == 0:
        compact_strides(operand.ndim, operand.shape, operand.strides)
    else:
        for i in range(view.ndim):
            operand.strides[i] = view.strides[i]
    return True


cdef bint borrow_from_cupy(object array, Operand* operand) except -1:
    global _dtype, _code, _bits
    cdef uint8_t code, bits
    cdef tuple shape = array.shape, strides = array.strides
    cdef int64_t count = 1, size
    cdef int i
    memory, dtype = array.data, array.dtype
    if dtype is _dtype:
        code, bits = _code, _bits
    else:
        dtype_codes(dtype, "dtype", &code, &bits)
        _dtype, _code, _bits = dtype, code, bits    # together: neither a failure nor another thread comes in between
    if len(shape) > MAX_NDIM:
        return False
    operand.device_type, operand.device_id = DEVICE_CUDA, memory.device_id
    operand.code, operand.bits = code, bits
    operand.readonly = False
    operand.ndim = <int>len(shape)
    size = bits // 8
    for i in range(operand.ndim):
        operand.shape[i] = shape[i]
        operand.strides[i] = <int64_t>strides[i] // size
        if <int64_t>strides[i] % size != 0:
            return False
        count *= operand.shape[i]
    operand.data = <char*><uintptr_t>memory.ptr
    if count == 0:
        operand.data = NULL
        compact_strides(operand.ndim, operand.shape, operand.strides)
    return True
