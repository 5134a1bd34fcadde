"""DLPack in both directions: the C exchange tables, capsules, and the way from any array to a Tensor."""
from cpython.ref cimport PyObject
from cuda.bindings.cydriver cimport CUdeviceptr, CUstream
from libc.stdint cimport int32_t, uintptr_t

from madspace.core cimport _driver
from madspace.core._dlpack_abi cimport (
    DEVICE_CPU, DEVICE_CUDA, DEVICE_MANAGED, DEVICE_PINNED, DLPACK_MAJOR, DLPACK_MINOR, DLTensor, ExchangeTable,
    FLAG_READ_ONLY, ManagedTensor,
)
from madspace.core._dtypes cimport is_known
from madspace.core._facts cimport Facts, exchange_table, facts_of, reraise, told_stream
from madspace.core._foreign cimport Foreign, adopt_capsule, adopt_managed, foreign_view
from madspace.core._interfaces cimport import_cuda_interface, import_host_array, interface_device
from madspace.core._managed cimport lend, managed_owner, new_managed
from madspace.core._uses cimport PER_THREAD, lasting
from madspace.core.current cimport chosen_stream, pick_stream
from madspace.core.device cimport get_device
from madspace.core.event cimport order
from madspace.core.memory cimport Buffer
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport Tensor, make_tensor

import numpy as np

from madspace.errors import DeviceMismatchError, DTypeError


cdef tuple _max_version = (DLPACK_MAJOR, DLPACK_MINOR)
cdef type _ndarray = np.ndarray


cdef Tensor import_array(object array, Stream stream, str name):
    cdef const ExchangeTable* table
    cdef type kind = type(array)
    if kind is Tensor:
        return import_own(<Tensor>array, stream, name)
    table = exchange_table(kind)
    if table is not NULL and table.from_object is not NULL:
        return import_by_table(table, array, stream, name)
    if kind is not _ndarray and not hasattr(kind, "__dlpack__"):
        return import_by_interface(array, stream, name)
    return import_by_capsule(array, stream, name)


cdef Tensor import_own(Tensor tensor, Stream stream, str name):
    if stream is not None and tensor.device_type_ == DEVICE_CUDA:
        check_device(tensor.device_id_, stream, name)
        tensor.before(stream, False)
    return tensor


cdef Tensor import_by_table(const ExchangeTable* table, object array, Stream stream, str name):
    cdef ManagedTensor* managed = NULL
    cdef Stream told
    cdef Foreign foreign
    cdef DLTensor view
    if table.from_object(<PyObject*>array, &managed) != 0:
        reraise(name)
    foreign = adopt_managed(managed)
    seen(&view, foreign_view(foreign))
    refuse_lazy(array, &view, name)
    if view.device.device_type == DEVICE_CUDA and table.current_stream is not NULL:
        told = told_stream(facts_of(type(array)), view.device.device_id)
        if stream is None:
            stream = chosen_stream(told.device)
        foreign.producer = told.handle_
        if stream is None:
            foreign.bind(told)
        else:
            take_over(foreign, &view, stream, name)
        foreign.follow(foreign.producer, stream)
        if <uintptr_t>foreign.producer == PER_THREAD:       # another one, in another thread
            foreign.producer = NULL
    return wrap(foreign, &view, stream, name)


cdef int seen(DLTensor* view, const DLTensor* told) except -1:
    """What a producer tells, with its memory as that of the host or of a CUDA device where it is one of them."""
    view[0] = told[0]
    if told.device.device_type == DEVICE_PINNED:
        view.device.device_type, view.device.device_id = DEVICE_CPU, 0      # the host reads it like any other memory
    elif told.device.device_type == DEVICE_MANAGED:
        view.device.device_type, view.device.device_id = DEVICE_CUDA, device_of(told.data)
    return 0


cdef int device_of(void* address) except -1:
    """Device of an address that may be on any, 0 for NULL."""
    cdef int ordinal = 0
    if address is not NULL:
        _driver.init()
        with nogil:
            _driver.pointer_get_device(&ordinal, <CUdeviceptr>address)
    return ordinal


cdef bint is_lazy(object array, const DLTensor* view) except -1:
    if type(array) is _ndarray:
        return False
    for question in ("is_conj", "is_neg"):
        ask_it = getattr(array, question, None)
        if ask_it is not None and ask_it():
            return True
    return False


cdef int refuse_lazy(object array, const DLTensor* view, str name) except -1:
    if may_be_lazy(view) and is_lazy(array, view):
        raise BufferError(f"{name}: expected elements as they are in memory, got a view that is conjugated or negated "
                          "when it is read: call resolve_conj() and resolve_neg()")
    return 0


cdef Tensor import_by_capsule(object array, Stream stream, str name):
    cdef Foreign foreign
    cdef DLTensor view
    cdef int device_type = DEVICE_CPU
    cdef int device_id = 0
    cdef bint told = True
    handle = None
    if type(array) is not _ndarray:
        device_type, device_id = array.__dlpack_device__()
    if device_type == DEVICE_CUDA:
        if stream is None:
            stream = pick_stream(None, get_device(device_id))
        check_device(device_id, stream, name)
        stream = lasting(stream)        # as bind() does: the producer must be told what it is used on
        handle = <uintptr_t>stream.handle_
    elif device_type == DEVICE_MANAGED:
        handle = 1          # of which device it is, and so which stream reads it, tells the address alone
    try:
        foreign = adopt_capsule(ask(array, handle, &told))
    except BufferError as error:
        # DLPack has no word for some arrays of the host: NumPy's bfloat16, say, which its dtype tells.
        if isinstance(array, np.ndarray):
            return import_host_array(array, name)
        raise BufferError(f"{name}: {error}") from error
    seen(&view, foreign_view(foreign))
    refuse_lazy(array, &view, name)
    if device_type == DEVICE_MANAGED:
        if stream is not None:
            check_device(view.device.device_id, stream, name)
        stream = lasting(pick_stream(stream, get_device(view.device.device_id)))
        told = False
    if handle is not None and not told:
        # A producer that was told no stream has put its work before the legacy default stream.
        foreign.producer = <CUstream><uintptr_t>1
        order(stream.device, foreign.producer, stream.handle_)
    return wrap(foreign, &view, stream, name)


cdef object ask(object array, object stream, bint* told):
    """Call __dlpack__ with as many keywords as the type is known to take."""
    cdef Facts facts = facts_of(type(array))
    cdef int level = facts.level
    export = array.__dlpack__
    told[0] = level < 2
    if level == 0:
        try:
            if stream is None:
                return export(max_version=_max_version)
            return export(stream=stream, max_version=_max_version)
        except TypeError:
            pass
    if level < 2 and stream is not None:
        try:
            capsule = export(stream=stream)
            facts.level = 1
            return capsule
        except TypeError:
            pass
    told[0] = False
    capsule = export()
    facts.level = 1 if stream is None else 2
    return capsule


cdef Tensor import_by_interface(object array, Stream stream, str name):
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        return import_cuda_interface(array, interface, stream, name)
    if hasattr(array, "__array_interface__"):
        return import_host_array(np.asarray(array), name)
    try:
        view = memoryview(array)
    except TypeError:
        raise TypeError(f"{name}: expected an array (DLPack, __cuda_array_interface__, __array_interface__ or a "
                        f"buffer), got {type(array).__name__}") from None
    return import_host_array(np.asarray(view), name)


cdef int check_device(int device_id, Stream stream, str name) except -1:
    if stream.device.id != device_id:
        raise DeviceMismatchError(f"{name}: expected memory of cuda:{stream.device.id}, the stream's device, "
                                  f"got memory of cuda:{device_id}")
    return 0


cdef int take_over(Foreign foreign, const DLTensor* view, Stream stream, str name) except -1:
    """Settle on which stream foreign device memory is used."""
    if stream is not None:
        check_device(view.device.device_id, stream, name)
        return foreign.bind(stream)
    return foreign.bind(pick_stream(None, get_device(view.device.device_id)))


cdef Tensor wrap(Foreign foreign, const DLTensor* view, Stream stream, str name):
    """Check what a producer handed over, and make a Tensor of it that owns it."""
    cdef Tensor own
    cdef int32_t device_type = view.device.device_type
    cdef bint readonly = False
    cdef char* data = <char*>view.data
    if foreign.managed is not NULL:
        readonly = (foreign.managed.flags & FLAG_READ_ONLY) != 0
    if device_type != DEVICE_CPU and device_type != DEVICE_CUDA:
        raise BufferError(f"{name}: expected memory of the host (1, 3) or of a CUDA device (2, 13), "
                          f"got DLPack device type {device_type}")
    if view.dtype.lanes != 1:
        raise DTypeError(f"{name}: expected elements of one lane, got {view.dtype.lanes} lanes")
    if not is_known(view.dtype.code, view.dtype.bits):
        raise DTypeError(f"{name}: expected a bool, int, uint, float, complex, bfloat16 or eight-bit float type, "
                         f"got DLPack type code {view.dtype.code} with {view.dtype.bits} bits")
    if device_type == DEVICE_CUDA and foreign.consumer is None:
        take_over(foreign, view, stream, name)
    if view.ndim > 0 and view.shape is NULL:
        raise BufferError(f"{name}: expected a shape of {view.ndim} lengths, got NULL")
    if data is not NULL:
        data += view.byte_offset
    own = make_tensor(None, foreign, data, device_type, view.device.device_id if device_type == DEVICE_CUDA else 0,
                      view.dtype.code, view.dtype.bits, view.ndim, view.shape, view.strides, readonly)
    if data is NULL and own.count() > 0:
        raise BufferError(f"{name}: expected an address, got NULL for shape {own.shape}")
    return own


cdef Stream framework_stream(object array):
    cdef Facts facts
    cdef int device_id
    if type(array) is Tensor:
        return None
    facts = facts_of(type(array))
    if facts.cupy is None and (facts.table is NULL or facts.table.current_stream is NULL):
        return None
    device_id = array_device(array)
    return None if device_id < 0 else told_stream(facts, device_id)


cdef int array_device(object array) except? -2:
    cdef const ExchangeTable* table
    cdef DLTensor view
    if type(array) is Tensor:
        return (<Tensor>array).device_id_ if (<Tensor>array).device_type_ == DEVICE_CUDA else -1
    table = exchange_table(type(array))
    if table is not NULL and table.borrow is not NULL:
        if table.borrow(<PyObject*>array, &view) != 0:
            reraise("array")
        seen(&view, &view)
        return view.device.device_id if view.device.device_type == DEVICE_CUDA else -1
    if hasattr(type(array), "__dlpack_device__"):
        device_type, device_id = array.__dlpack_device__()
        if device_type == DEVICE_MANAGED:
            return import_by_capsule(array, None, "array").device_id_
        return device_id if device_type == DEVICE_CUDA else -1
    interface = getattr(array, "__cuda_array_interface__", None)
    return -1 if interface is None else interface_device(interface)


cdef Tensor adopt_tensor(ManagedTensor* managed, str name):
    cdef DLTensor view
    cdef Foreign foreign = adopt_managed(managed)
    try:
        source = managed_owner(managed)
        if isinstance(source, Tensor):
            return source       # it comes home, and keeps its buffer and its streams
        seen(&view, foreign_view(foreign))
        if isinstance(source, Buffer):
            return make_tensor(source, None, view.data, DEVICE_CUDA, view.device.device_id, view.dtype.code,
                               view.dtype.bits, view.ndim, view.shape, view.strides, False)
        return wrap(foreign, &view, None, name)
    except BaseException:
        foreign.managed = NULL      # still the caller's
        raise


cdef ManagedTensor* export_managed(Tensor tensor, Stream consumer=None) except NULL:
    cdef DLTensor view
    cdef object owner = tensor
    tensor.describe(&view)
    if consumer is not None:
        tensor.before(consumer, not tensor.readonly_)
        owner = lend(tensor, tensor.memory(), consumer, not tensor.readonly_)
    return new_managed(&view, owner, FLAG_READ_ONLY if tensor.readonly_ else 0)
