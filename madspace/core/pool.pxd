from cuda.bindings.cydriver cimport CUmemoryPool, CUmemPool_attribute

from madspace.core._tally cimport Tally
from madspace.core.device cimport Device


cdef class MemoryPool:
    cdef readonly Device device
    cdef CUmemoryPool handle_
    cdef Tally tally_                # what is in buffers, and the limit
    cdef object allocator_           # Allocator that serves in its place, None for none: only of a device's own pool
    cdef bint lent_                  # whether there is one, for who has no GIL
    cdef bint closed_
    cdef int check_open(self) except -1
    cdef object statistic(self, CUmemPool_attribute which)
    cdef object __weakref__


cdef MemoryPool own_pool(Device device)

# Buffers whose free met a capture of their stream wait here: a capture takes only frees of its own allocations.
cdef int defer_free(object buffer) except -1
cdef int free_deferred() except -1
