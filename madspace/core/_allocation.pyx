"""Where the memory of buffers comes from, where it goes, and who is told."""
from libc.stdint cimport uintptr_t

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUcontext, CUdeviceptr, CUresult, CUstream, CUstreamCaptureMode

from madspace.core cimport _driver as drv
from madspace.core._alloc_log cimport ALLOCATE, FAILURE, FREE, Action, log_event
from madspace.core._foreign cimport release_finished
from madspace.core._recording cimport Recording, recording_of, side_stream
from madspace.core._uses cimport Uses, wait_behind
from madspace.core._watch cimport LOG, STATISTICS, watchers
from madspace.core.allocator cimport Allocator
from madspace.core.pool cimport MemoryPool, free_deferred
from madspace.core.statistics cimport count_allocation, count_free
from madspace.core.stream cimport Stream


cdef CUdeviceptr take_memory(MemoryPool pool, Allocator allocator, size_t nbytes, Stream stream) except 0:
    cdef CUdeviceptr ptr = 0
    free_deferred()
    stream.hold()
    try:
        if not pool.tally_.reserve(nbytes):
            raise beyond_limit(pool, nbytes)
        try:
            ptr = ask(pool, allocator, nbytes, stream)
        except BaseException:
            pool.tally_.cancel(nbytes)
            raise
    except BaseException:
        stream.drop()
        if watchers() & LOG:
            log_event(FAILURE, pool.device.id, 0, nbytes, <uintptr_t>stream.handle_)
        raise
    pool.tally_.note_peaks()
    if watchers():
        tell(True, pool, ptr, nbytes, stream)
    return ptr


cdef CUdeviceptr ask(MemoryPool pool, Allocator allocator, size_t nbytes, Stream stream) except 0:
    cdef CUstream handle = stream.handle_
    cdef CUdeviceptr ptr = 0
    cdef CUstreamCaptureMode mode
    cdef int capturing
    cdef CUresult code = cydriver.CUDA_SUCCESS
    with nogil:
        capturing = drv.stream_is_capturing(handle)
        if not capturing and allocator is None:
            drv.mem_alloc_from_pool_async(&ptr, nbytes, pool.handle_, handle, &code)
    if capturing:
        handle = beside(stream)
        if allocator is None:
            with nogil:
                drv.mem_alloc_from_pool_async(&ptr, nbytes, pool.handle_, handle, &code)
        else:
            # Whatever it does to get memory is no part of the capture.
            mode = drv.relax()
            try:
                return allocator.take(nbytes, pool.device.id, handle)
            finally:
                drv.restore(mode)
    if allocator is not None:
        return allocator.take(nbytes, pool.device.id, handle)
    if code == cydriver.CUDA_ERROR_OUT_OF_MEMORY:
        free_deferred()
        release_finished()
        with nogil:
            drv.mem_pool_trim_to(pool.handle_, 0)
            drv.mem_alloc_from_pool_async(&ptr, nbytes, pool.handle_, handle, &code)
        if code == cydriver.CUDA_ERROR_OUT_OF_MEMORY:
            # Driver 580 keeps what it gathered on the way, which may be all there is on the device.
            with nogil:
                drv.mem_pool_trim_to(pool.handle_, 0)
    if code != cydriver.CUDA_SUCCESS:
        raise drv.error_of(code, "cuMemAllocFromPoolAsync", account(pool, nbytes, code))
    return ptr


cdef CUstream beside(Stream stream) except NULL:
    """Where memory is taken in a capture of ours: on another stream, once and for all launches of the graph."""
    # A memory node would tie the graph to one executable, and leave its results unmapped until the first launch.
    cdef Recording recording = recording_of(stream)
    if recording is None:
        raise drv.error_of(
            cydriver.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuMemAllocFromPoolAsync",
            "the stream is being captured: pass out= (and workspace=) so that nothing is allocated")
    return side_stream(recording).handle_


cdef object beyond_limit(MemoryPool pool, size_t nbytes):
    return drv.error_of(
        cydriver.CUDA_ERROR_OUT_OF_MEMORY, "MemoryPool.allocate",
        f"nbytes: expected no more than the pool's limit leaves, got {nbytes} bytes on device {pool.device.id} with "
        f"{pool.tally_.used_bytes()} bytes in use and a limit of {pool.tally_.limit.load()}")


cdef str account(MemoryPool pool, size_t nbytes, CUresult code):
    """What an allocation asked for and what there was."""
    cdef size_t free, total
    asked = f"asked for {nbytes} bytes on device {pool.device.id}"
    if code != cydriver.CUDA_ERROR_OUT_OF_MEMORY:
        return asked
    with nogil:
        drv.mem_get_info(&free, &total)
    return (
        f"{asked}; the pool has {pool.used_bytes} bytes in use and {pool.reserved_bytes} reserved, "
        f"the device has {free} of {total} bytes free"
    )


cdef void tell(bint allocated, MemoryPool pool, CUdeviceptr ptr, size_t nbytes, Stream stream) noexcept:
    cdef int listening = watchers()
    cdef Action action = ALLOCATE if allocated else FREE
    if listening & LOG:
        log_event(action, pool.device.id, ptr, nbytes, <uintptr_t>stream.handle_)
    if listening & STATISTICS:
        if allocated:
            count_allocation(nbytes)
        else:
            count_free(nbytes)


cdef CUresult give_memory(MemoryPool pool, Allocator allocator, CUdeviceptr ptr, size_t nbytes, Stream stream,
                          Uses uses, bint* captured) noexcept:
    cdef CUcontext context = stream.device.context_
    cdef CUstream handle = stream.handle_
    cdef CUresult code
    if uses is None and allocator is None and not watchers():
        with nogil:
            code = drv.quiet_mem_free_async(context, ptr, handle, captured)
    else:
        code = wait_behind(uses, context, handle, captured)
        # Where a wait failed the memory is lost, rather than reused under a reader.
        if code == cydriver.CUDA_SUCCESS and not captured[0]:
            # Told before it happens, since another thread may have the same address right afterwards.
            tell(False, pool, ptr, nbytes, stream)
            code = hand_over(allocator, pool.device.id, context, ptr, nbytes, handle, captured)
    if not captured[0]:
        pool.tally_.release(nbytes)
        stream.drop()
    return code


cdef CUresult hand_over(Allocator allocator, int device_id, CUcontext context, CUdeviceptr ptr, size_t nbytes,
                        CUstream handle, bint* captured) noexcept:
    cdef bint pushed
    cdef CUresult code
    if allocator is None:
        with nogil:
            code = drv.quiet_mem_free_async(context, ptr, handle, captured)
        return code
    with nogil:
        code = drv.quiet_enter(context, &pushed)
    if code == cydriver.CUDA_SUCCESS:
        allocator.give_back(ptr, nbytes, device_id, handle)
        with nogil:
            drv.quiet_leave(pushed)
    return code
