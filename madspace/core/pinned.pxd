from madspace.core._pinned_blocks cimport Block
from madspace.core._uses cimport Uses
from madspace.core.device cimport Device
from madspace.core.memory cimport Buffer
from madspace.core.stream cimport Stream


cdef class PinnedBuffer:
    cdef Block block_            # None for no bytes, and after close()
    cdef readonly size_t nbytes
    cdef readonly Device device
    cdef Uses uses_
    cdef Stream writer_          # the stream of the last write, None where the host wrote last
    cdef int n_views_            # exported by the buffer protocol, and copies that are being queued
    cdef bint closed_
    cdef object __weakref__
    cdef int check_open(self) except -1
    cdef dict before(self, Stream stream, bint write)      # what after() takes as `waited`, or None there
    cdef int after(self, Stream stream, bint write, dict waited) except -1
    cdef int let_go(self) noexcept


# Bytes of one to bytes of the other, open and large enough both, as copy_to() and copy_from() do it.
cdef int copy_part(PinnedBuffer pinned, size_t at, Buffer buffer, size_t offset, size_t nbytes, Stream where,
                   bint to_device) except -1
