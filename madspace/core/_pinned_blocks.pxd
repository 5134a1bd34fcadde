from madspace.core.device cimport Device


# A page-locked allocation.
cdef class Block:
    cdef void* ptr
    cdef size_t nbytes           # a power of two
    cdef Device device
    cdef dict uses               # {key: Use}: what must be done before the next PinnedBuffer may have it


cdef Block take_block(size_t nbytes, Device device)          # idle, or new
cdef int put_block(Block block, dict uses) noexcept          # for destructors, too: nothing waits
cdef int unlock_idle() except -1                             # back to the system; may wait for the device
cdef bint all_done(dict uses) except -1
