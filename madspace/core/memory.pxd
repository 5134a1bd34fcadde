from cuda.bindings.cydriver cimport CUdeviceptr, CUresult

from madspace.core._uses cimport Uses, Work
from madspace.core.allocator cimport Allocator
from madspace.core.device cimport Device
from madspace.core.pool cimport MemoryPool, own_pool
from madspace.core.stream cimport Stream


cdef class Buffer:
    cdef CUdeviceptr ptr_
    cdef readonly size_t nbytes
    cdef readonly MemoryPool pool
    cdef Allocator allocator_        # who made it, and frees it; None: the pool itself
    cdef readonly Stream stream      # allocated on it; the free is queued on it
    cdef Stream writer_              # stream of the last write
    cdef Uses uses_                  # by other streams; None while there are none
    cdef bint closed_
    cdef object __weakref__
    # Bracket device work on `stream` that reads (write=False) or writes this buffer. before() makes `stream` wait, on
    # the device, for what it must; after() notes the use, so that later writers and the free wait for it. Both cost a
    # pointer comparison while everything happens on the buffer's own stream.
    # In a capture neither queues anything that reaches outside of it: what happened before is ordered by who captures.
    # before_in() and after_in(): the same for one of several buffers of that work.
    cdef int before(self, Stream stream, bint write) except -1
    cdef int after(self, Stream stream, bint write) except -1
    cdef int before_in(self, Work work, bint write) except -1
    cdef int after_in(self, Work work, bint write) except -1
    cdef int check_open(self) except -1
    cdef int join(self, Work work, bint write) except -1
    cdef int forget(self, dict uses) except -1
    cdef int before_elsewhere(self, Work work, bint write) except -1
    cdef int note_use(self, Work work, bint write) except -1
    cdef int after_elsewhere(self, Work work, bint write) except -1
    cdef CUresult free(self) noexcept


cdef Buffer allocate(Device device, size_t nbytes, Stream stream)   # from own_pool; nbytes 0 gives ptr 0
cdef Buffer allocate_from(MemoryPool pool, size_t nbytes, Stream stream)
