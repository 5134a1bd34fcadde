"""Host memory on its way to a device through page-locked blocks: the source may change at once, and nobody waits."""
from cuda.bindings.cydriver cimport CUdeviceptr
from libc.string cimport memcpy

from madspace.core cimport _driver as drv
from madspace.core._pinned_blocks cimport Block, put_block, take_block
from madspace.core._uses cimport Uses, new_use
from madspace.core.stream cimport Stream

cdef enum:
    # Bytes of a block at most. The host fills the next one while the device reads this one, which is free again soon
    # unless the stream is busy with other work.
    PIECE = 1 << 24


cdef int upload(CUdeviceptr dst, const void* src, size_t nbytes, Stream stream) except -1:
    cdef size_t at = 0
    cdef size_t size
    cdef int pushed
    stream.check_open()
    pushed = stream.device.push()
    try:
        while at < nbytes:
            size = min(nbytes - at, <size_t>PIECE)
            upload_piece(dst + at, <const char*>src + at, size, stream)
            at += size
    finally:
        stream.device.pop(pushed)
    return 0


cdef int upload_piece(CUdeviceptr dst, const char* src, size_t nbytes, Stream stream) except -1:
    cdef Block block = take_block(nbytes, stream.device)
    cdef bint queued = False
    cdef Uses uses = Uses.__new__(Uses)
    try:
        with nogil:
            memcpy(block.ptr, src, nbytes)
            drv.memcpy_htod_async(dst, block.ptr, nbytes, stream.handle_)
        queued = True
        uses.by_stream[0] = new_use(None, stream)
    finally:
        if queued and not uses.by_stream:
            block.ptr = NULL        # rather lost than changed while the device reads it
        else:
            put_block(block, uses)
    return 0
