"""The page-locked memory behind pinned buffers: kept between two of them, since giving it back waits for the device."""
cimport cython

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUcontext, CUresult

from madspace.core cimport _driver as drv
from madspace.core._uses cimport Use, Uses, is_done
from madspace.core.device cimport Device

cdef enum:
    SMALLEST = 4096     # a page: what is locked
    LOOKS = 16          # blocks that are looked at when one is needed, so that many on a busy stream cost little

# Blocks that were let go, by size. One entry at a time goes in and out: destructors may come here in the midst of it,
# and other threads.
cdef dict idle = {}
cdef list waiting = []      # of the same, but in use by the device when they were seen last


@cython.final
@cython.no_gc_clear         # the destructor needs the device
cdef class Block:
    def __dealloc__(self):
        cdef CUresult code
        cdef CUcontext context
        if self.ptr != NULL:
            context = self.device.context_
            with nogil:
                code = drv.quiet_mem_free_host(context, self.ptr)
            drv.report(code, "cuMemFreeHost")


cdef int put_block(Block block, Uses uses) noexcept:
    block.uses = uses
    try:
        waiting.append(block)
    except MemoryError:
        block.ptr = NULL        # rather lost than given back under the device's hands
    return 0


cdef bint all_done(Uses uses) except -1:
    cdef Use use
    for use in list(uses.by_stream.values()):
        if not is_done(use):
            return False
    return True


cdef int collect_finished(Py_ssize_t most) except -1:
    """Move what the device is done with, of so many of the oldest, to the idle blocks."""
    cdef Block block
    for _ in range(min(most, len(waiting))):
        try:
            block = waiting.pop(0)
        except IndexError:      # another thread was here
            break
        done = False
        try:
            done = all_done(block.uses)
        finally:
            if not done:
                waiting.append(block)
        if done:
            block.uses = None
            idle.setdefault(block.nbytes, []).append(block)
    return 0


cdef int unlock_idle() except -1:
    collect_finished(len(waiting))
    for size in list(idle):
        unlock_all(idle.get(size, []))
    return 0


cdef int unlock_all(list blocks) except -1:
    cdef Block block
    cdef CUresult code
    cdef int pushed
    while blocks:
        try:
            block = blocks.pop()
        except IndexError:      # another thread was here
            break
        pushed = -1
        code = cydriver.CUDA_ERROR_UNKNOWN
        try:
            pushed = block.device.push()
            with nogil:
                code = drv.quiet_mem_free_host(block.device.context_, block.ptr)
        finally:
            if code == cydriver.CUDA_SUCCESS:
                block.ptr = NULL
            else:
                blocks.append(block)
            if pushed != -1:
                block.device.pop(pushed)
        if code != cydriver.CUDA_SUCCESS:
            drv.raise_code(code, "cuMemFreeHost")
    return 0


cdef Block take_block(size_t nbytes, Device device):
    cdef size_t size = SMALLEST
    cdef Block block
    cdef CUresult code
    while size < nbytes and size < (<size_t>1 << 62):
        size *= 2
    collect_finished(LOOKS)
    try:
        return idle[size].pop()
    except (KeyError, IndexError):
        pass
    block = Block.__new__(Block)
    block.device = device
    block.nbytes = size
    code = lock_memory(block)
    if code == cydriver.CUDA_ERROR_OUT_OF_MEMORY:
        unlock_idle()
        code = lock_memory(block)
    if code != cydriver.CUDA_SUCCESS:
        raise drv.error_of(code, "cuMemHostAlloc", f"asked for {size} bytes of page-locked host memory")
    return block


cdef CUresult lock_memory(Block block) except *:
    cdef CUresult code
    cdef int pushed = block.device.push()
    try:
        with nogil:
            drv.mem_host_alloc(&block.ptr, block.nbytes, cydriver.CU_MEMHOSTALLOC_PORTABLE, &code)
        if code != cydriver.CUDA_SUCCESS:
            block.ptr = NULL
    finally:
        block.device.pop(pushed)
    return code
