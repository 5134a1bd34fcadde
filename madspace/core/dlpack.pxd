from madspace.core._dlpack_abi cimport DLDataType, DLDevice, DLTensor, ExchangeTable, ManagedTensor
from madspace.core._dtypes cimport CODE_COMPLEX, CODE_FLOAT
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport Tensor


# Whether elements are not as they are in memory: torch's views that are conjugated or negated when they are read. It
# marks them without touching the elements, and does not say so in DLPack: it has to be asked where that may be, which
# is for complex types, and for their imaginary parts, whose neighbours are an even number of elements apart.
cdef inline bint may_be_lazy(const DLTensor* view) noexcept:
    cdef int i
    if view.dtype.code == CODE_COMPLEX:
        return True
    if view.dtype.code != CODE_FLOAT or view.shape is NULL or view.strides is NULL:
        return view.dtype.code == CODE_FLOAT and view.ndim == 0
    for i in range(view.ndim):
        if view.shape[i] > 1 and view.strides[i] % 2 != 0:
            return False
    return True

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
