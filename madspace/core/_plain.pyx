"""Driver calls that return their code, for callers without an interpreter."""
from libc.stdint cimport uint64_t, uintptr_t

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport (
    CUcontext, CUdeviceptr, CUevent, CUfunction, CUgraphExec, CUlaunchAttribute, CUlaunchConfig, CUmemoryPool, CUresult,
    CUstream, CUstreamCaptureMode,
)

from madspace.core cimport _driver as drv
from madspace.core._shape cimport MAX_ATTRIBUTES, Shape, fill_config, is_plain
from madspace.core._teardown cimport is_closed
from madspace.core.device cimport Device

ctypedef CUresult (*text_fn)(CUresult, const char**) noexcept nogil
ctypedef CUresult (*wait_fn)(CUcontext) noexcept nogil
ctypedef CUresult (*stream_fn)(CUstream) noexcept nogil
ctypedef CUresult (*capturing_fn)(CUstream, cydriver.CUstreamCaptureStatus*) noexcept nogil
ctypedef CUresult (*capture_info_fn)(
    CUstream, cydriver.CUstreamCaptureStatus*, uint64_t*, cydriver.CUgraph*, const cydriver.CUgraphNode**,
    const cydriver.CUgraphEdgeData**, size_t*) noexcept nogil
ctypedef CUresult (*stream_event_fn)(CUstream, CUevent, unsigned int) noexcept nogil
ctypedef CUresult (*record_fn)(CUevent, CUstream) noexcept nogil
ctypedef CUresult (*event_fn)(CUevent) noexcept nogil
ctypedef CUresult (*elapsed_fn)(float*, CUevent, CUevent) noexcept nogil
ctypedef CUresult (*alloc_fn)(CUdeviceptr*, size_t, CUmemoryPool, CUstream) noexcept nogil
ctypedef CUresult (*copy_fn)(CUdeviceptr, CUdeviceptr, size_t, CUstream) noexcept nogil
ctypedef CUresult (*fill_fn)(CUdeviceptr, unsigned char, size_t, CUstream) noexcept nogil
ctypedef CUresult (*launch_fn)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                               unsigned int, unsigned int, CUstream, void**, void**) noexcept nogil
ctypedef CUresult (*launch_ex_fn)(const CUlaunchConfig*, CUfunction, void**, void**) noexcept nogil
ctypedef CUresult (*graph_fn)(CUgraphExec, CUstream) noexcept nogil

cdef text_fn raw_error_name, raw_error_string
cdef wait_fn raw_ctx_synchronize
cdef stream_fn raw_stream_synchronize, raw_stream_query
cdef capturing_fn raw_stream_is_capturing
cdef capture_info_fn raw_stream_get_capture_info
cdef stream_event_fn raw_stream_wait_event
cdef record_fn raw_event_record
cdef event_fn raw_event_query, raw_event_synchronize
cdef elapsed_fn raw_event_elapsed_time
cdef alloc_fn raw_mem_alloc_from_pool_async
cdef copy_fn raw_memcpy_async
cdef fill_fn raw_memset_d8_async
cdef launch_fn raw_launch_kernel
cdef launch_ex_fn raw_launch_kernel_ex
cdef graph_fn raw_graph_launch
cdef bint resolved = False


cdef int resolve_plain() except -1:
    # Twice at the same time does no harm: the answers are the same.
    global resolved
    if resolved:
        return 0
    drv.resolve("cuGetErrorName", <void**>&raw_error_name)
    drv.resolve("cuGetErrorString", <void**>&raw_error_string)
    drv.resolve("cuCtxSynchronize", <void**>&raw_ctx_synchronize)
    drv.resolve("cuStreamSynchronize", <void**>&raw_stream_synchronize)
    drv.resolve("cuStreamQuery", <void**>&raw_stream_query)
    drv.resolve("cuStreamIsCapturing", <void**>&raw_stream_is_capturing)
    drv.resolve("cuStreamGetCaptureInfo", <void**>&raw_stream_get_capture_info)
    drv.resolve("cuStreamWaitEvent", <void**>&raw_stream_wait_event)
    drv.resolve("cuEventRecord", <void**>&raw_event_record)
    drv.resolve("cuEventQuery", <void**>&raw_event_query)
    drv.resolve("cuEventSynchronize", <void**>&raw_event_synchronize)
    drv.resolve("cuEventElapsedTime", <void**>&raw_event_elapsed_time)
    drv.resolve("cuMemAllocFromPoolAsync", <void**>&raw_mem_alloc_from_pool_async)
    drv.resolve("cuMemcpyAsync", <void**>&raw_memcpy_async)
    drv.resolve("cuMemsetD8Async", <void**>&raw_memset_d8_async)
    drv.resolve("cuLaunchKernel", <void**>&raw_launch_kernel)
    drv.resolve("cuLaunchKernelEx", <void**>&raw_launch_kernel_ex)
    drv.resolve("cuGraphLaunch", <void**>&raw_graph_launch)
    resolved = True
    return 0


# ---- names ----

cdef const char* error_name(int code) noexcept nogil:
    cdef const char* text = NULL
    if not resolved or raw_error_name(<CUresult>code, &text) != cydriver.CUDA_SUCCESS or text == NULL:
        return "CUDA_ERROR_UNKNOWN_TO_THIS_DRIVER"
    return text


cdef const char* error_text(int code) noexcept nogil:
    cdef const char* text = NULL
    if not resolved or raw_error_string(<CUresult>code, &text) != cydriver.CUDA_SUCCESS or text == NULL:
        return "no description"
    return text


# ---- contexts, streams and events ----

cdef inline int enter(void* context, bint* pushed) noexcept nogil:
    return <int>drv.quiet_enter(<CUcontext>context, pushed)


cdef int context_synchronize(void* context) noexcept nogil:
    cdef bint pushed
    cdef int code = enter(context, &pushed)
    if code == 0:
        code = <int>raw_ctx_synchronize(<CUcontext>context)    # since CUDA 13 it names the context
        drv.quiet_leave(pushed)
    return code


cdef inline int refuse_capture(CUstream stream) noexcept nogil:
    """Whether a stream is captured, as the code that the driver would give and break the capture."""
    cdef cydriver.CUstreamCaptureStatus status = cydriver.CU_STREAM_CAPTURE_STATUS_NONE
    cdef CUresult code = raw_stream_is_capturing(stream, &status)
    if code == cydriver.CUDA_SUCCESS and status != cydriver.CU_STREAM_CAPTURE_STATUS_NONE:
        code = cydriver.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    return <int>code


cdef inline int ask_stream(stream_fn call, void* context, void* stream) noexcept nogil:
    cdef bint pushed
    cdef CUstreamCaptureMode mode
    cdef int code = enter(context, &pushed)
    if code == 0:
        code = refuse_capture(<CUstream>stream)
        if code == 0:
            mode = drv.relax()
            code = <int>call(<CUstream>stream)
            drv.restore(mode)
        drv.quiet_leave(pushed)
    return code


cdef int stream_synchronize(void* context, void* stream) noexcept nogil:
    return ask_stream(raw_stream_synchronize, context, stream)


cdef int stream_query(void* context, void* stream) noexcept nogil:
    return ask_stream(raw_stream_query, context, stream)


cdef inline int find_capture(CUstream stream, uint64_t* capture) noexcept nogil:
    """The capture that a stream is in, 0 for none; 901 for a broken one."""
    cdef cydriver.CUstreamCaptureStatus status = cydriver.CU_STREAM_CAPTURE_STATUS_NONE
    cdef int code = <int>raw_stream_is_capturing(stream, &status)
    capture[0] = 0
    if code == 0 and status != cydriver.CU_STREAM_CAPTURE_STATUS_NONE:
        code = <int>raw_stream_get_capture_info(stream, &status, capture, NULL, NULL, NULL, NULL)
        if code == 0 and status != cydriver.CU_STREAM_CAPTURE_STATUS_ACTIVE:
            code = cydriver.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
    return code


cdef int stream_wait_event(void* context, void* stream, void* event, bint recorded, uint64_t capture) noexcept nogil:
    cdef uint64_t now = 0
    cdef bint pushed
    cdef int code = enter(context, &pushed)
    if code == 0:
        code = find_capture(<CUstream>stream, &now)
        # The driver would refuse it as well, and break the capture.
        if code == 0 and recorded and now != 0 and now != capture:
            code = cydriver.CUDA_ERROR_STREAM_CAPTURE_ISOLATION
        elif code == 0:
            code = <int>raw_stream_wait_event(<CUstream>stream, <CUevent>event, 0)
            if code == cydriver.CUDA_ERROR_INVALID_VALUE and capture != 0:
                code = cydriver.CUDA_ERROR_CAPTURED_EVENT       # driver 580's answer, see Event.hold_back()
        drv.quiet_leave(pushed)
    return code


cdef int event_record(void* context, void* event, void* stream, uint64_t* capture) noexcept nogil:
    cdef bint pushed
    cdef int code = enter(context, &pushed)
    if code == 0:
        code = find_capture(<CUstream>stream, capture)
        if code == 0:
            code = <int>raw_event_record(<CUevent>event, <CUstream>stream)
        drv.quiet_leave(pushed)
    return code


cdef inline int ask_event(event_fn call, void* context, void* event) noexcept nogil:
    cdef bint pushed
    cdef CUstreamCaptureMode mode
    cdef int code = enter(context, &pushed)
    if code == 0:
        mode = drv.relax()
        code = <int>call(<CUevent>event)
        drv.restore(mode)
        drv.quiet_leave(pushed)
    return code


cdef int event_query(void* context, void* event) noexcept nogil:
    return ask_event(raw_event_query, context, event)


cdef int event_synchronize(void* context, void* event) noexcept nogil:
    return ask_event(raw_event_synchronize, context, event)


cdef int event_elapsed(void* context, void* start, void* end, float* ms) noexcept nogil:
    cdef bint pushed
    cdef int code = enter(context, &pushed)
    if code == 0:
        code = <int>raw_event_elapsed_time(ms, <CUevent>start, <CUevent>end)
        drv.quiet_leave(pushed)
    return code


# ---- memory ----

cdef int mem_alloc(void* context, void* pool, size_t nbytes, void* stream, void** ptr) noexcept nogil:
    cdef CUdeviceptr address = 0
    cdef CUstreamCaptureMode mode
    cdef bint pushed
    cdef int code = enter(context, &pushed)
    if code == 0:
        code = refuse_capture(<CUstream>stream)
        if code == 0:
            mode = drv.relax()
            code = <int>raw_mem_alloc_from_pool_async(&address, nbytes, <CUmemoryPool>pool, <CUstream>stream)
            drv.restore(mode)
        drv.quiet_leave(pushed)
    ptr[0] = <void*><uintptr_t>address
    return code


cdef int mem_free(void* context, void* ptr, void* stream) noexcept nogil:
    cdef bint captured = False
    cdef int code
    if is_closed():             # where the call below does nothing and is content
        return cydriver.CUDA_ERROR_DEINITIALIZED
    code = <int>drv.quiet_mem_free_async(
        <CUcontext>context, <CUdeviceptr><uintptr_t>ptr, <CUstream>stream, &captured)
    return cydriver.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if captured else code


cdef int mem_copy(void* context, void* target, const void* source, size_t nbytes, void* stream) noexcept nogil:
    cdef bint pushed
    cdef int code = enter(context, &pushed)
    if code == 0:
        code = <int>raw_memcpy_async(
            <CUdeviceptr><uintptr_t>target, <CUdeviceptr><uintptr_t>source, nbytes, <CUstream>stream)
        drv.quiet_leave(pushed)
    return code


cdef int mem_fill(void* context, void* target, unsigned char value, size_t nbytes, void* stream) noexcept nogil:
    cdef bint pushed
    cdef int code = enter(context, &pushed)
    if code == 0:
        code = <int>raw_memset_d8_async(<CUdeviceptr><uintptr_t>target, value, nbytes, <CUstream>stream)
        drv.quiet_leave(pushed)
    return code


# ---- launches ----

cdef int launch(void* context, void* function, const Shape* shape, void* stream, void** params) noexcept nogil:
    cdef CUlaunchConfig config
    cdef CUlaunchAttribute attributes[MAX_ATTRIBUTES]
    cdef bint pushed
    cdef int code = enter(context, &pushed)
    if code != 0:
        return code
    if is_plain(shape):
        code = <int>raw_launch_kernel(
            <CUfunction>function, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1],
            shape.block[2], shape.shared, <CUstream>stream, params, NULL)
    else:
        fill_config(shape, <CUstream>stream, &config, attributes)
        code = <int>raw_launch_kernel_ex(&config, <CUfunction>function, params, NULL)
    drv.quiet_leave(pushed)
    return code


cdef int graph_launch(void* context, void* graph, void* stream) noexcept nogil:
    cdef bint pushed
    cdef int code = enter(context, &pushed)
    if code == 0:
        code = refuse_capture(<CUstream>stream)
        if code == 0:
            code = <int>raw_graph_launch(<CUgraphExec>graph, <CUstream>stream)
        drv.quiet_leave(pushed)
    return code


cdef void* device_context(Device device) noexcept:
    return <void*>device.context_
