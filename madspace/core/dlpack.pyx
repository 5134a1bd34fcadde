"""DLPack in both directions: the C exchange tables, capsules, and the way from any array to a Tensor."""
cimport cython
from cpython.exc cimport PyErr_Occurred
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from cpython.ref cimport PyObject
from cuda.bindings.cydriver cimport CUdeviceptr, CUstream
from libc.stdint cimport int32_t, uintptr_t

from madspace.core cimport _driver
from madspace.core._dlpack_abi cimport (
    DEVICE_CPU, DEVICE_CUDA, DEVICE_MANAGED, DEVICE_PINNED, DLPACK_MAJOR, DLPACK_MINOR, DLTensor, ExchangeTable,
    FLAG_READ_ONLY, ManagedTensor,
)
from madspace.core._dtypes cimport CODE_COMPLEX, CODE_FLOAT, is_known
from madspace.core._foreign cimport Foreign, adopt_capsule, adopt_managed, foreign_view
from madspace.core._interfaces cimport import_cuda_interface, import_host_array, interface_device
from madspace.core._managed cimport managed_owner, new_managed
from madspace.core._uses cimport PER_THREAD, lasting
from madspace.core.current cimport chosen_stream, pick_stream
from madspace.core.device cimport get_device
from madspace.core.event cimport order
from madspace.core.stream cimport Stream, foreign_stream
from madspace.core.tensor cimport Tensor, make_tensor

import sys
import weakref

import numpy as np

from madspace.errors import DeviceMismatchError, DTypeError


cdef tuple _max_version = (DLPACK_MAJOR, DLPACK_MINOR)
cdef type _ndarray = np.ndarray
# Owner of the streams that exchange tables tell: frameworks never destroy those.
cdef str _framework = "the framework"


@cython.final
cdef class Facts:
    pass


cdef dict _facts = {}                   # {address of a type: Facts}
cdef void* _last_type = NULL            # what was asked for last, which is mostly what is asked for next
cdef Facts _last_facts = None
cdef Stream _last_stream = None         # what told_stream() returned last


cdef const ExchangeTable* exchange_table(type t) except? NULL:
    return facts_of(t).table


cdef Facts facts_of(type t):
    global _last_type, _last_facts
    cdef Facts facts
    if <void*>t != _last_type:
        facts = _facts.get(<uintptr_t><void*>t)
        _last_facts = new_facts(t) if facts is None else facts
        _last_type = <void*>t
    return _last_facts


cdef Facts new_facts(type t):
    cdef uintptr_t address = <uintptr_t><void*>t
    cdef Facts facts = Facts.__new__(Facts)
    facts.table = <const ExchangeTable*><uintptr_t>find_table(t)
    # A table that lends does not tell what is read-only, but nothing of torch's is.
    facts.writable = comes_from(t, "torch")
    if facts.table is NULL and comes_from(t, "cupy"):
        facts.cupy_stream = getattr(getattr(sys.modules.get("cupy"), "cuda", None), "get_current_stream", None)
    facts.reference = weakref.ref(t, lambda _: forget(address))
    _facts[address] = facts
    return facts


cdef bint comes_from(type t, str package):
    """Tell whether a class, or one that it stands on, is of a package."""
    return any([str(getattr(base, "__module__", "")).partition(".")[0] == package for base in t.__mro__])


cdef object current_keeper(Facts facts, int device_id):
    return None if facts.cupy_stream is None else facts.cupy_stream(device_id)


cdef CUstream current_handle(Facts facts, int device_id, object keeper) except? NULL:
    cdef void* told = NULL
    if keeper is not None:
        told = <void*><uintptr_t>keeper.ptr
    elif facts.table is NULL or facts.table.current_stream is NULL:
        return NULL
    elif facts.table.current_stream(DEVICE_CUDA, device_id, &told) != 0:
        reraise("array")
    # The legacy default stream may be told as 0.
    return <CUstream>told if told is not NULL else <CUstream><uintptr_t>1


cdef Stream told_stream(Device device, CUstream handle, object keeper):
    global _last_stream
    cdef Stream stream = _last_stream
    if keeper is not None:
        # CuPy destroys a stream with its object, unless another library made it: then nobody here can keep it.
        return foreign_stream(device, handle, keeper if hasattr(type(keeper), "__del__") else None)
    if stream is None or stream.handle_ != handle or stream.device is not device or stream.closed_:
        stream = _last_stream = foreign_stream(device, handle, _framework)
    return stream


cdef object forget(uintptr_t address):
    global _last_type, _last_facts
    _facts.pop(address, None)
    if <uintptr_t>_last_type == address:
        _last_type, _last_facts = NULL, None


cdef object find_table(type t):
    cdef const ExchangeTable* table
    capsule = getattr(t, "__dlpack_c_exchange_api__", None)
    if capsule is None or not PyCapsule_IsValid(capsule, "dlpack_exchange_api"):
        return 0
    table = <const ExchangeTable*>PyCapsule_GetPointer(capsule, "dlpack_exchange_api")
    while table is not NULL and table.major > DLPACK_MAJOR:
        table = <const ExchangeTable*>table.prev_api
    if table is NULL or table.major != DLPACK_MAJOR:
        return 0
    return <uintptr_t>table


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
    cdef CUstream current
    cdef Foreign foreign
    cdef DLTensor view
    if table.from_object(<PyObject*>array, &managed) != 0:
        reraise(name)
    foreign = adopt_managed(managed)
    seen(&view, foreign_view(foreign))
    refuse_lazy(array, &view, name)
    if view.device.device_type == DEVICE_CUDA and table.current_stream is not NULL:
        current = current_handle(facts_of(type(array)), view.device.device_id, None)
        if stream is None:
            stream = chosen_stream(get_device(view.device.device_id))
        foreign.producer = current
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


cdef bint may_be_lazy(const DLTensor* view) noexcept:
    # torch marks a view as conjugated or negated without touching the elements, and does not say so in DLPack. It does
    # so to complex types, and to their imaginary parts, whose neighbours are an even number of elements apart: so most
    # arrays need not be asked.
    cdef int i
    if view.dtype.code == CODE_COMPLEX:
        return True
    if view.dtype.code != CODE_FLOAT or view.shape is NULL or view.strides is NULL:
        return view.dtype.code == CODE_FLOAT and view.ndim == 0
    for i in range(view.ndim):
        if view.shape[i] > 1 and view.strides[i] % 2 != 0:
            return False
    return True


cdef bint is_lazy(object array, const DLTensor* view) except -1:
    if not may_be_lazy(view) or type(array) is _ndarray:
        return False
    for question in ("is_conj", "is_neg"):
        ask_it = getattr(array, question, None)
        if ask_it is not None and ask_it():
            return True
    return False


cdef int refuse_lazy(object array, const DLTensor* view, str name) except -1:
    if is_lazy(array, view):
        raise BufferError(f"{name}: expected elements as they are in memory, got a view that is conjugated or negated "
                          "when it is read: call resolve_conj() and resolve_neg()")
    return 0


cdef int reraise(str name) except -1:
    if PyErr_Occurred() is NULL:
        raise BufferError(f"{name}: the exchange table of its type failed without an error")
    return -1


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
    if foreign.producer is not NULL:
        return foreign.bind(told_stream(get_device(view.device.device_id), foreign.producer, None))
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
    if facts.cupy_stream is None and (facts.table is NULL or facts.table.current_stream is NULL):
        return None
    device_id = array_device(array)
    if device_id < 0:
        return None
    keeper = current_keeper(facts, device_id)
    return told_stream(get_device(device_id), current_handle(facts, device_id, keeper), keeper)


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
        return wrap(foreign, &view, None, name)
    except BaseException:
        foreign.managed = NULL      # still the caller's
        raise


cdef ManagedTensor* export_managed(Tensor tensor, Stream consumer=None) except NULL:
    cdef DLTensor view
    cdef object memory = None
    tensor.describe(&view)
    if consumer is not None:
        tensor.before(consumer, not tensor.readonly_)
        memory = tensor.memory()
    return new_managed(&view, tensor, FLAG_READ_ONLY if tensor.readonly_ else 0, memory, consumer)
