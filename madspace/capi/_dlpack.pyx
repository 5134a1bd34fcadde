"""DLPack in and out of the C API."""
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free

from madspace.capi cimport (
    MS_DEVICE_CPU, MS_DEVICE_CUDA, MS_ERROR_ARGUMENT, MS_ERROR_DTYPE, MS_ERROR_MEMORY, MS_ERROR_SHAPE,
    MS_ERROR_UNSUPPORTED, DLManagedTensorVersioned, ms_api, ms_device, ms_dlpack_view, ms_stream,
)
from madspace.capi._devices cimport find_place, is_cpu
from madspace.capi._status cimport (
    Object, Section, caught, enter, failure, leave, refused, sections, write_failure,
)
from madspace.capi._streams cimport stream_object
from madspace.core._dlpack_abi cimport DEVICE_CUDA, DLPACK_MAJOR, DLPACK_MINOR, FLAG_READ_ONLY, ManagedTensor
from madspace.core._dtypes cimport is_known
from madspace.core._layout cimport compact_strides, product_overflows
from madspace.core.dlpack cimport adopt_tensor, export_managed, import_array
from madspace.core.tensor cimport MAX_NDIM, Tensor

from madspace.errors import DeviceMismatchError


# A managed tensor over a caller's memory; shape and strides follow.
cdef struct Wrapped:
    ManagedTensor managed
    void* owner
    void (*release)(void*) noexcept nogil
    int64_t shape[MAX_NDIM]
    int64_t strides[MAX_NDIM]


cdef int add_dlpack(ms_api* table) noexcept:
    table.dlpack_from_object = from_object
    table.dlpack_to_object = to_object
    table.dlpack_wrap = wrap
    table.dlpack_describe = describe
    table.dlpack_release = end
    return 0


cdef void delete_wrapped(ManagedTensor* managed) noexcept nogil:
    cdef Wrapped* wrapped
    if managed == NULL:
        return
    wrapped = <Wrapped*>managed.context
    if wrapped.release != NULL:
        wrapped.release(wrapped.owner)
    free(wrapped)


cdef int check_view(const ms_dlpack_view* view) noexcept nogil:
    cdef int i
    cdef int64_t count = 1
    if view.device_kind != MS_DEVICE_CUDA and (view.device_kind != MS_DEVICE_CPU or view.device_id != 0) or \
            view.device_id < 0:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "view: expected MS_DEVICE_CPU (1) and 0, or MS_DEVICE_CUDA "
                             "(2) and a number, got %d and %d", view.device_kind, view.device_id)
    if not (0 <= view.code <= 255 and 0 <= view.bits <= 255 and is_known(<uint8_t>view.code, <uint8_t>view.bits)):
        return write_failure(failure(), MS_ERROR_DTYPE, "view: expected a known element type, got DLPack type code %d "
                             "with %d bits", view.code, view.bits)
    if not 0 <= view.ndim <= MAX_NDIM or (view.ndim > 0 and view.shape == NULL):
        return write_failure(failure(), MS_ERROR_SHAPE, "view: expected 0 to %d dimensions and their lengths, got %d",
                             <int>MAX_NDIM, view.ndim)
    for i in range(view.ndim):
        if view.shape[i] < 0 or product_overflows(count, view.shape[i] if view.shape[i] > 0 else 1, &count) or \
                count > (1LL << 58):
            return write_failure(failure(), MS_ERROR_SHAPE, "view: expected lengths of 0 and more that 64 bits can "
                                 "count, got %lld", <long long>view.shape[i])
        if view.strides != NULL and view.strides[i] < 0:
            return write_failure(failure(), MS_ERROR_SHAPE, "view: expected strides of 0 and more, got %lld",
                                 <long long>view.strides[i])
    for i in range(view.ndim):
        if view.shape[i] == 0:
            return 0
    if view.data == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "view: expected an address, got NULL")
    return 0


# ---- the functions of the table ----

cdef int from_object(PyObject* array, ms_device device, ms_stream stream,
                     DLManagedTensorVersioned** managed) noexcept nogil:
    cdef Section section
    cdef Object* on
    cdef Object* where = find_place(device, stream, &on)
    if where == NULL:
        return failure().status
    if array == NULL or managed == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "array, managed: expected addresses, got NULL")
    if not enter(sections, &section):
        return refused()
    return leave(sections, &section, py_from_object(array, where, on, managed))


cdef int py_from_object(PyObject* array, Object* device, Object* stream,
                        DLManagedTensorVersioned** managed) noexcept with gil:
    cdef Tensor tensor
    try:
        tensor = import_array(<object>array, stream_object(stream), "array")
        if (tensor.device_type_ == DEVICE_CUDA) == is_cpu(device) or (
                not is_cpu(device) and tensor.device_id_ != device.device):
            wanted = "the CPU" if is_cpu(device) else f"cuda:{device.device}"
            raise DeviceMismatchError(f"array: expected memory of {wanted}, got memory of {tensor.device}")
        managed[0] = <DLManagedTensorVersioned*>export_managed(tensor, stream_object(stream))
        return 0
    except BaseException as error:
        return caught(error)


cdef int to_object(DLManagedTensorVersioned* managed, PyObject** tensor) noexcept nogil:
    cdef Section section
    if managed == NULL or tensor == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "managed, tensor: expected addresses, got NULL")
    return leave(sections, &section, py_to_object(managed, tensor)) if enter(sections, &section) else refused()


cdef int py_to_object(DLManagedTensorVersioned* managed, PyObject** out) noexcept with gil:
    try:
        tensor = adopt_tensor(<ManagedTensor*>managed, "managed")
        Py_INCREF(tensor)
        out[0] = <PyObject*>tensor
        return 0
    except BaseException as error:
        return caught(error)


cdef int wrap(const ms_dlpack_view* view, void* owner, void (*release)(void*) noexcept nogil,
              DLManagedTensorVersioned** managed) noexcept nogil:
    cdef Wrapped* made
    cdef ManagedTensor* to
    cdef int i, code
    if view == NULL or managed == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "view, managed: expected addresses, got NULL")
    code = check_view(view)
    if code != 0:
        return code
    made = <Wrapped*>calloc(1, sizeof(Wrapped))
    if made == NULL:
        return write_failure(failure(), MS_ERROR_MEMORY, "no host memory left for a DLPack structure")
    made.owner, made.release = owner, release
    for i in range(view.ndim):
        made.shape[i] = view.shape[i]
    compact_strides(view.ndim, made.shape, made.strides)
    if view.strides != NULL:
        for i in range(view.ndim):
            made.strides[i] = view.strides[i]
    to = &made.managed
    to.major, to.minor = DLPACK_MAJOR, DLPACK_MINOR
    to.context, to.deleter = made, delete_wrapped
    to.flags = FLAG_READ_ONLY if view.readonly else 0
    to.tensor.data = view.data
    to.tensor.device.device_type, to.tensor.device.device_id = view.device_kind, view.device_id
    to.tensor.ndim = view.ndim
    to.tensor.dtype.code, to.tensor.dtype.bits, to.tensor.dtype.lanes = <uint8_t>view.code, <uint8_t>view.bits, 1
    to.tensor.shape, to.tensor.strides = made.shape, made.strides
    managed[0] = <DLManagedTensorVersioned*>to
    return 0


cdef int describe(const DLManagedTensorVersioned* managed, ms_dlpack_view* view) noexcept nogil:
    cdef const ManagedTensor* given = <const ManagedTensor*>managed
    if managed == NULL or view == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "managed, view: expected addresses, got NULL")
    if given.major != DLPACK_MAJOR:
        return write_failure(failure(), MS_ERROR_UNSUPPORTED, "managed: expected DLPack version %d.x, got %u.%u",
                             <int>DLPACK_MAJOR, given.major, given.minor)
    if given.tensor.dtype.lanes != 1:
        return write_failure(failure(), MS_ERROR_DTYPE, "managed: expected a type of one lane, got %u",
                             <unsigned int>given.tensor.dtype.lanes)
    view.data = NULL if given.tensor.data == NULL else <char*>given.tensor.data + given.tensor.byte_offset
    view.device_kind, view.device_id = given.tensor.device.device_type, given.tensor.device.device_id
    view.code, view.bits = given.tensor.dtype.code, given.tensor.dtype.bits
    view.ndim = given.tensor.ndim
    view.readonly = (given.flags & FLAG_READ_ONLY) != 0
    view.shape, view.strides = given.tensor.shape, given.tensor.strides
    return 0


cdef int end(DLManagedTensorVersioned* managed) noexcept nogil:
    cdef ManagedTensor* given = <ManagedTensor*>managed
    if given != NULL and given.deleter != NULL:
        given.deleter(given)
    return 0
