"""Arrays of other packages that are used while their caller holds them: nobody has to own them meanwhile."""

from cpython.exc cimport PyErr_Clear
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t

from madspace.core._dlpack_abi cimport DEVICE_CPU, DEVICE_CUDA, DLTensor
from madspace.core._dtypes cimport is_known
from madspace.core._facts cimport Facts
from madspace.core._layout cimport compact_strides
from madspace.core._operand cimport Operand
from madspace.core._recording cimport n_recordings
from madspace.core.dlpack cimport is_lazy, may_be_lazy
from madspace.core.tensor cimport MAX_NDIM


cdef bint borrow(object array, Facts facts, bint write, Operand* operand) except -1:
    if n_recordings != 0:
        return False
    if facts.cupy is not None:
        return facts.cupy.describe(array, operand)
    if facts.table is NULL or facts.table.borrow is NULL or (write and not facts.writable):
        return False
    return borrow_by_table(array, facts, operand)


cdef bint shows(object array, Facts facts, bint write, DLTensor* view) except -1:
    if n_recordings != 0 or facts.table is NULL or facts.table.borrow is NULL or (write and not facts.writable):
        return False
    if facts.table.borrow(<PyObject*>array, view) != 0:
        PyErr_Clear()
        return False
    return (view.shape is not NULL and view.strides is not NULL and view.dtype.lanes == 1
            and facts.table.current_stream is not NULL and not may_be_lazy(view))


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
            or (view.ndim > 0 and view.shape is NULL) or (may_be_lazy(&view) and is_lazy(array, &view))):
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
