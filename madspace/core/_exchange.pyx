"""The C exchange table of Tensor: what lets another extension take tensors in and give them out without Python calls.

Importing this module puts the table on the type.
"""
from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t

from madspace.core._attach cimport attach
from madspace.core._dlpack_abi cimport (
    DEVICE_CPU, DEVICE_CUDA, DLPACK_MAJOR, DLPACK_MINOR, DLTensor, ExchangeTable, ManagedTensor,
)
from madspace.core._dtypes cimport is_known
from madspace.core._managed cimport python_alive
from madspace.core.current cimport pick_stream
from madspace.core.device cimport Device, get_device
from madspace.core.dlpack cimport adopt_tensor, export_managed
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport Tensor, empty_device, empty_host


cdef extern from "Python.h":
    void PyErr_SetObject(object kind, object value)


ctypedef void (*SetError)(void*, const char*, const char*) noexcept nogil

cdef ExchangeTable table


cdef int fail(object error) noexcept:
    """Leave `error` pending for a C caller."""
    PyErr_SetObject(type(error), error)
    return -1


cdef int allocate_tensor(DLTensor* prototype, ManagedTensor** out, void* context, SetError set_error) noexcept nogil:
    if not python_alive():
        set_error(context, b"RuntimeError", b"the Python interpreter is gone")
        return -1
    with gil:
        try:
            out[0] = export_managed(empty_like(prototype))
            return 0
        except Exception as error:
            kind = type(error).__name__.encode()
            message = str(error).encode()
            set_error(context, <const char*>kind, <const char*>message)
            return -1


cdef Tensor empty_like(const DLTensor* prototype):
    cdef Device device
    if prototype.dtype.lanes != 1 or not is_known(prototype.dtype.code, prototype.dtype.bits):
        raise BufferError(f"prototype: expected a known type of one lane, got DLPack type code {prototype.dtype.code} "
                          f"with {prototype.dtype.bits} bits and {prototype.dtype.lanes} lanes")
    if prototype.device.device_type == DEVICE_CPU:
        return empty_host(prototype.dtype.code, prototype.dtype.bits, prototype.ndim, prototype.shape)
    if prototype.device.device_type != DEVICE_CUDA:
        raise BufferError("prototype: expected device type 1 (host) or 2 (CUDA), "
                          f"got {prototype.device.device_type}")
    device = get_device(prototype.device.device_id)
    return empty_device(device, pick_stream(None, device), prototype.dtype.code, prototype.dtype.bits, prototype.ndim,
                        prototype.shape)


cdef Stream current_of(Tensor tensor):
    """The stream that current_stream() tells for the tensor, on which it will be used; None on the host."""
    return pick_stream(None, get_device(tensor.device_id_)) if tensor.device_type_ == DEVICE_CUDA else None


cdef int tensor_from_object(void* obj, ManagedTensor** out) noexcept:
    try:
        out[0] = export_managed(<Tensor?><object>obj, current_of(<Tensor><object>obj))
        return 0
    except Exception as error:
        return fail(error)


cdef int tensor_to_object(ManagedTensor* managed, void** out) noexcept:
    # Where it fails the managed tensor is left alone: callers delete what was not taken over, as for torch's table.
    cdef Tensor tensor
    try:
        tensor = adopt_tensor(managed, "tensor")
        Py_INCREF(tensor)
        out[0] = <void*>tensor
        return 0
    except Exception as error:
        return fail(error)


cdef int borrow_tensor(void* obj, DLTensor* out) noexcept:
    cdef Tensor tensor
    try:
        tensor = <Tensor?><object>obj
        tensor.describe(out)
        if tensor.device_type_ == DEVICE_CUDA:
            tensor.before(current_of(tensor), not tensor.readonly_)
        return 0
    except Exception as error:
        return fail(error)


cdef int current_stream(int32_t device_type, int32_t device_id, void** out) noexcept:
    cdef Stream stream
    out[0] = NULL
    if device_type == DEVICE_CPU:
        return 0
    try:
        if device_type != DEVICE_CUDA:
            raise ValueError(f"device_type: expected 1 (host) or 2 (CUDA), got {device_type}")
        stream = pick_stream(None, get_device(device_id))
        out[0] = <void*>stream.handle_
        return 0
    except Exception as error:
        return fail(error)


table.major = DLPACK_MAJOR
table.minor = DLPACK_MINOR
table.prev_api = NULL
table.allocate = allocate_tensor
table.from_object = tensor_from_object
table.to_object = tensor_to_object
table.borrow = borrow_tensor
table.current_stream = current_stream

# The class body cannot hold it: its functions need the class.
attach(Tensor, "__dlpack_c_exchange_api__", PyCapsule_New(&table, "dlpack_exchange_api", NULL))
