from libc.stdint cimport uint64_t

from madspace.core._dlpack_abi cimport DLTensor, ManagedTensor
from madspace.core.stream cimport Stream


# False while the interpreter shuts down and afterwards, when its lock must not be waited for.
cdef bint python_alive() noexcept nogil

# Export. `view` is copied, shape and strides included; `owner` is kept until the deleter runs.
cdef ManagedTensor* new_managed(const DLTensor* view, object owner, uint64_t flags) except NULL
cdef object new_capsule(const DLTensor* view, object owner, uint64_t flags, bint versioned)

# An owner for what is exported to a consumer's stream, one or several parts of the same memory (a Buffer or a Foreign):
# when all of it is deleted, that stream's use is noted, so that the free waits for it.
cdef object lend(object source, object memory, Stream consumer, bint writable)

# Tensor or Buffer behind a managed tensor that was made here, else None.
cdef object managed_owner(ManagedTensor* managed)
