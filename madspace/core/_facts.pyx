"""What is known about the types of other packages' arrays, asked once, and the streams on which these work."""
cimport cython
from cpython.exc cimport PyErr_Occurred
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from cuda.bindings.cydriver cimport CUstream
from libc.stdint cimport uintptr_t

from madspace.core._cupy cimport cupy_arrays
from madspace.core._dlpack_abi cimport DEVICE_CUDA, DLPACK_MAJOR, ExchangeTable
from madspace.core.device cimport Device, get_device
from madspace.core.stream cimport Stream, told_by_handle

import sys
import weakref


# Owner of the streams that exchange tables tell: frameworks never destroy those.
cdef str _framework = "the framework"


@cython.final
cdef class Facts:
    pass


cdef dict _facts = {}                   # {address of a type: Facts}
cdef void* _last_type = NULL            # what was asked for last, which is mostly what is asked for next
cdef Facts _last_facts = None
cdef Stream _last_stream = None         # what an exchange table told last


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
    facts.writable = is_kind_of(t, "torch", "Tensor")
    if facts.table is NULL and is_kind_of(t, "cupy", "ndarray"):
        facts.cupy = cupy_arrays(t)
    facts.reference = weakref.ref(t, lambda _: forget(address))
    _facts[address] = facts
    return facts


cdef bint is_kind_of(type t, str package, str name) except -1:
    """Tell whether a type is one of a package, or made of it; what was never imported has no arrays."""
    kind = getattr(sys.modules.get(package), name, None)
    return isinstance(kind, type) and issubclass(t, kind)


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


cdef Stream told_stream(Facts facts, int device_id):
    global _last_stream
    cdef Stream stream = _last_stream
    cdef void* told = NULL
    cdef CUstream handle
    cdef Device device
    if facts.cupy is not None:
        return facts.cupy.current_stream(get_device(device_id))
    if facts.table is NULL or facts.table.current_stream is NULL:
        return None
    if facts.table.current_stream(DEVICE_CUDA, device_id, &told) != 0:
        reraise("array")
    # The legacy default stream may be told as 0.
    handle = <CUstream>told if told is not NULL else <CUstream><uintptr_t>1
    device = get_device(device_id)
    if stream is None or stream.handle_ != handle or stream.device is not device or stream.closed_:
        stream = told_by_handle(device, handle, _framework)
        _last_stream = None if stream.owned_ else stream        # ours may end before another one is told
    return stream


cdef int reraise(str name) except -1:
    if PyErr_Occurred() is NULL:
        raise BufferError(f"{name}: the exchange table of its type failed without an error")
    return -1
