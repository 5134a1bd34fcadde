from cuda.bindings.cydriver cimport CUstream

from madspace.core._dlpack_abi cimport DLDataType, DLDevice, DLTensor, ExchangeTable, ManagedTensor
from madspace.core.device cimport Device
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport Tensor


# What was found out about a type. It does not keep the type: the entry goes with it, before its address comes again.
cdef class Facts:
    cdef const ExchangeTable* table     # NULL where it has none, or an incompatible one
    cdef int level                      # how many keywords its __dlpack__ was found not to know
    cdef bint writable                  # all of its arrays can be written to
    cdef object cupy_stream             # cupy.cuda.get_current_stream for CuPy's arrays, else None
    cdef object reference

cdef Facts facts_of(type t)

# The exchange table of a type (a torch.Tensor's, say). Cached per type.
cdef const ExchangeTable* exchange_table(type t) except? NULL

# Handle of the stream on which the framework of a type works now on a device, never 0; NULL where it does not tell.
cdef CUstream current_handle(Facts facts, int device_id, object keeper) except? NULL
# CuPy's object for that stream, with which it ends: the `keeper` of these functions. None for tables, whose frameworks
# never destroy a stream.
cdef object current_keeper(Facts facts, int device_id)
# A Stream for such a handle.
cdef Stream told_stream(Device device, CUstream handle, object keeper)

# Whether elements may not be as they are in memory: torch's views that are conjugated or negated when they are read.
cdef bint is_lazy(object array, const DLTensor* view) except -1

# Any array by any protocol as a Tensor that keeps it alive. stream: the consumer's, None for host memory; a producer on
# another stream is waited for on the device. name: the argument, for messages.
# Device memory with stream None: the stream on which the owner's framework works now, where its table tells, else the
# device's own. An array that asks for gradients comes in without them where its framework's table lets it through.
cdef Tensor import_array(object array, Stream stream, str name)

# The stream on which the framework that owns `array` works now; None where it does not tell or lies on the host.
cdef Stream framework_stream(object array)

# Ordinal of the CUDA device that `array` lies on, -1 for the host and for what is no array.
cdef int array_device(object array) except? -2

# A Tensor that owns a managed tensor; where it raises, the managed tensor is still the caller's. Nothing is ordered.
cdef Tensor adopt_tensor(ManagedTensor* managed, str name)

# A new ManagedTensor over a Tensor (its deleter drops the reference); for to_object and capsules. For a consumer's
# stream: it waits for the last write now, and the deleter notes its use of device memory. None: nothing is ordered.
cdef ManagedTensor* export_managed(Tensor tensor, Stream consumer=*) except NULL
