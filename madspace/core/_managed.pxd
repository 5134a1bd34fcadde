from cpython.ref cimport PyObject
from libc.stdint cimport uint64_t
from libcpp.atomic cimport atomic

from madspace.core._dlpack_abi cimport DLTensor, ManagedTensor
from madspace.core.stream cimport Stream


# False while the interpreter shuts down and afterwards, when its lock must not be waited for.
cdef bint python_alive() noexcept nogil

# Export. `view` is copied, shape and strides included; `owner` is kept until the deleter runs.
cdef ManagedTensor* new_managed(const DLTensor* view, object owner, uint64_t flags) except NULL
# Several of one owner, which is let go of with the last of them: only that deleter needs the GIL. Each of the n has to
# be made, and be deleted, or be dropped.
cdef struct Parts:
    atomic[int] left
    PyObject* owner

cdef Parts* new_parts(object owner, int n) except NULL
cdef ManagedTensor* managed_part(Parts* parts, int i, const DLTensor* view, uint64_t flags) noexcept
cdef void drop_parts(Parts* parts, int n) noexcept nogil

cdef object new_capsule(const DLTensor* view, object owner, uint64_t flags, bint versioned)

# An owner for what is exported to a consumer's stream, one or several parts of the same memory (a Buffer or a Foreign):
# when all of it is deleted, that stream's use is noted, so that the free waits for it.
cdef object lend(object source, object memory, Stream consumer, bint writable)

# Tensor or Buffer behind a managed tensor that was made here, else None.
cdef object managed_owner(ManagedTensor* managed)
