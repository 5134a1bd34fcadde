from madspace.core._uses cimport Uses
from madspace.core.device cimport Device


# A page-locked allocation.
cdef class Block:
    cdef void* ptr
    cdef size_t nbytes           # a power of two
    cdef Device device
    cdef Uses uses               # what must be done before the next PinnedBuffer may have it


cdef Block take_block(size_t nbytes, Device device)          # idle, or new
cdef int put_block(Block block, Uses uses) noexcept          # for destructors, too: nothing waits
cdef int unlock_idle() except -1                             # back to the system; may wait for the device
cdef bint all_done(Uses uses) except -1
