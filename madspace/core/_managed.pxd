from libc.stdint cimport uint64_t

from madspace.core._dlpack_abi cimport DLTensor, ManagedTensor
from madspace.core.stream cimport Stream


# False while the interpreter shuts down and afterwards, when its lock must not be waited for.
cdef bint python_alive() noexcept nogil

# Export. `view` is copied, shape and strides included; `owner` is kept until the deleter runs. With a consumer stream
# the deleter also notes that stream's use of `memory` (a Buffer or a Foreign), so that its free waits for it.
cdef ManagedTensor* new_managed(const DLTensor* view, object owner, uint64_t flags,
                                object memory, Stream consumer) except NULL
cdef object new_capsule(const DLTensor* view, object owner, uint64_t flags, bint versioned,
                        object memory, Stream consumer)
cdef object managed_owner(ManagedTensor* managed)     # owner of a managed tensor made here, else None
