"""The driver's entry points, each wrapped once: gate, call, check."""
import _thread
import warnings

from libc.stdint cimport uint64_t

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport (
    CUDA_MEMCPY2D, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUfunction_attribute,
    CUkernel, CUlaunchConfig, CUlibrary, CUmemPool_attribute, CUmemPoolProps, CUmemoryPool, CUresult, CUstream,
    CUstreamCaptureMode, CUuuid,
)

from madspace.core._library cimport load_library
from madspace.core._teardown cimport (
    CLOSED, FORKED, FRESH, READY, give_up, is_closed, open_gate, refuse, state, watch_fork,
)

from madspace.errors import STICKY_CODES, MadspaceWarning, driver_error

# The API version whose meaning of each entry point is asked for, and the oldest driver that has it.
cdef enum:
    API_VERSION = 13000

# Cython wrappers answer a missing entry point with a Python exception behind the caller's back and may want the GIL of
# a finalised interpreter. Paths that destructors take, and the hottest ones, call the driver itself.
ctypedef CUresult (*context_get_fn)(CUcontext*) noexcept nogil
ctypedef CUresult (*context_fn)(CUcontext) noexcept nogil
ctypedef CUresult (*alloc_fn)(CUdeviceptr*, size_t, CUmemoryPool, CUstream) noexcept nogil
ctypedef CUresult (*free_fn)(CUdeviceptr, CUstream) noexcept nogil
ctypedef CUresult (*event_create_fn)(CUevent*, unsigned int) noexcept nogil
ctypedef CUresult (*event_fn)(CUevent) noexcept nogil
ctypedef CUresult (*event_record_fn)(CUevent, CUstream) noexcept nogil
ctypedef CUresult (*wait_fn)(CUstream, CUevent, unsigned int) noexcept nogil
ctypedef CUresult (*stream_fn)(CUstream) noexcept nogil
ctypedef CUresult (*capturing_fn)(CUstream, cydriver.CUstreamCaptureStatus*) noexcept nogil
ctypedef CUresult (*capture_info_fn)(
    CUstream, cydriver.CUstreamCaptureStatus*, uint64_t*, cydriver.CUgraph*, const cydriver.CUgraphNode**,
    const cydriver.CUgraphEdgeData**, size_t*) noexcept nogil
ctypedef CUresult (*capture_mode_fn)(CUstreamCaptureMode*) noexcept nogil
ctypedef CUresult (*free_host_fn)(void*) noexcept nogil
ctypedef CUresult (*pool_attribute_fn)(CUmemoryPool, CUmemPool_attribute, void*) noexcept nogil
ctypedef CUresult (*pool_fn)(CUmemoryPool) noexcept nogil
ctypedef CUresult (*library_fn)(CUlibrary) noexcept nogil

cdef context_get_fn raw_ctx_get_current
cdef context_fn raw_ctx_push_current
cdef context_get_fn raw_ctx_pop_current
cdef alloc_fn raw_mem_alloc_from_pool_async
cdef free_fn raw_mem_free_async
cdef event_create_fn raw_event_create
cdef event_fn raw_event_destroy
cdef event_record_fn raw_event_record
cdef wait_fn raw_stream_wait_event
cdef stream_fn raw_stream_destroy
cdef capturing_fn raw_stream_is_capturing
cdef capture_info_fn raw_stream_get_capture_info
cdef capture_mode_fn raw_exchange_capture_mode
cdef free_host_fn raw_mem_free_host
cdef pool_attribute_fn raw_mem_pool_get_attribute
cdef pool_fn raw_mem_pool_destroy
cdef library_fn raw_library_unload

cdef object starting = _thread.RLock()


# ---- start ----

cdef int init() except -1:
    if state() == READY:
        return 0
    # Before the lock: in a forked child nobody may be left to release it.
    if state() == FORKED or state() == CLOSED:
        refuse("cuInit")
    with starting:
        if state() == FRESH:
            # First, with no point before it where another thread could fork with the lock held: the child is marked.
            watch_fork()
            try:
                load_library()
                start_driver()
            except BaseException:
                give_up()
                raise
            open_gate()
    return ready("cuInit")


cdef int start_driver() except -1:
    cdef CUresult code
    cdef int version = 0
    with nogil:
        code = cydriver.cuInit(0)
    check(code, "cuInit")
    with nogil:
        code = cydriver.cuDriverGetVersion(&version)
    check(code, "cuDriverGetVersion")
    if version < API_VERSION:
        raise error_of(
            cydriver.CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, "cuDriverGetVersion",
            f"the driver supports CUDA {version // 1000}.{version % 1000 // 10}, madspace needs 13.0",
        )
    resolve("cuCtxGetCurrent", <void**>&raw_ctx_get_current)
    resolve("cuCtxPushCurrent", <void**>&raw_ctx_push_current)
    resolve("cuCtxPopCurrent", <void**>&raw_ctx_pop_current)
    resolve("cuMemAllocFromPoolAsync", <void**>&raw_mem_alloc_from_pool_async)
    resolve("cuMemFreeAsync", <void**>&raw_mem_free_async)
    resolve("cuEventCreate", <void**>&raw_event_create)
    resolve("cuEventDestroy", <void**>&raw_event_destroy)
    resolve("cuEventRecord", <void**>&raw_event_record)
    resolve("cuStreamWaitEvent", <void**>&raw_stream_wait_event)
    resolve("cuStreamDestroy", <void**>&raw_stream_destroy)
    resolve("cuStreamIsCapturing", <void**>&raw_stream_is_capturing)
    resolve("cuStreamGetCaptureInfo", <void**>&raw_stream_get_capture_info)
    resolve("cuThreadExchangeStreamCaptureMode", <void**>&raw_exchange_capture_mode)
    resolve("cuMemFreeHost", <void**>&raw_mem_free_host)
    resolve("cuMemPoolGetAttribute", <void**>&raw_mem_pool_get_attribute)
    resolve("cuMemPoolDestroy", <void**>&raw_mem_pool_destroy)
    resolve("cuLibraryUnload", <void**>&raw_library_unload)
    return 0


cdef int resolve(const char* name, void** pointer) except -1:
    # Never the per-thread flavour: stream handles are always explicit here, and 1 and 2 mean the same in both.
    cdef CUresult code
    cdef cydriver.CUdriverProcAddressQueryResult status
    with nogil:
        code = cydriver.cuGetProcAddress(
            name, pointer, API_VERSION, cydriver.CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status)
    if code == cydriver.CUDA_SUCCESS and pointer[0] == NULL:
        code = cydriver.CUDA_ERROR_NOT_FOUND
    if code != cydriver.CUDA_SUCCESS:
        raise error_of(code, "cuGetProcAddress", f"entry point {name.decode()}")
    return 0


# ---- errors ----

cdef inline int ready(const char* call) except -1 nogil:
    if is_closed():
        refuse(call)
    return 0


cdef inline int check(CUresult code, const char* call) except -1 nogil:
    if code != cydriver.CUDA_SUCCESS:
        raise_code(code, call)
    return 0


cdef int raise_code(CUresult code, const char* call) except -1 with gil:
    raise error_of(code, call.decode(), "")


cdef object error_of(CUresult code, str call, str detail):
    cdef const char* name = NULL
    cdef const char* text = NULL
    if cydriver.cuGetErrorName(code, &name) != cydriver.CUDA_SUCCESS or name == NULL:
        name = "CUDA_ERROR_UNKNOWN_TO_THIS_DRIVER"
    if cydriver.cuGetErrorString(code, &text) != cydriver.CUDA_SUCCESS or text == NULL:
        text = "no description"
    return driver_error(<int>code, name.decode(), text.decode(), call, detail)


cdef int report(CUresult code, str call) noexcept:
    # A lost context was told to the caller by the call that lost it, and has no memory left to leak.
    if code == cydriver.CUDA_SUCCESS or code == cydriver.CUDA_ERROR_DEINITIALIZED:
        return 0
    if <int>code not in STICKY_CODES:
        # Where warnings are errors this one leaves as what Python prints of errors that nobody can catch.
        warnings.warn(f"while an object was destroyed: {error_of(code, call, '')}", MadspaceWarning, stacklevel=2)
    return 0


# ---- devices and contexts ----

cdef int driver_get_version(int* version) except -1 nogil:
    ready("cuDriverGetVersion")
    return check(cydriver.cuDriverGetVersion(version), "cuDriverGetVersion")


cdef int device_get(CUdevice* device, int ordinal) except -1 nogil:
    ready("cuDeviceGet")
    return check(cydriver.cuDeviceGet(device, ordinal), "cuDeviceGet")


cdef int device_get_count(int* count) except -1 nogil:
    ready("cuDeviceGetCount")
    return check(cydriver.cuDeviceGetCount(count), "cuDeviceGetCount")


cdef int device_get_name(char* name, int length, CUdevice device) except -1 nogil:
    ready("cuDeviceGetName")
    return check(cydriver.cuDeviceGetName(name, length, device), "cuDeviceGetName")


cdef int device_get_uuid(CUuuid* uuid, CUdevice device) except -1 nogil:
    ready("cuDeviceGetUuid")
    return check(cydriver.cuDeviceGetUuid(uuid, device), "cuDeviceGetUuid")


cdef int device_get_pci_bus_id(char* text, int length, CUdevice device) except -1 nogil:
    ready("cuDeviceGetPCIBusId")
    return check(cydriver.cuDeviceGetPCIBusId(text, length, device), "cuDeviceGetPCIBusId")


cdef int device_get_attribute(int* value, CUdevice_attribute attribute, CUdevice device) except -1 nogil:
    ready("cuDeviceGetAttribute")
    return check(cydriver.cuDeviceGetAttribute(value, attribute, device), "cuDeviceGetAttribute")


cdef int device_total_mem(size_t* nbytes, CUdevice device) except -1 nogil:
    ready("cuDeviceTotalMem")
    return check(cydriver.cuDeviceTotalMem(nbytes, device), "cuDeviceTotalMem")


cdef int primary_ctx_retain(CUcontext* context, CUdevice device) except -1 nogil:
    ready("cuDevicePrimaryCtxRetain")
    return check(cydriver.cuDevicePrimaryCtxRetain(context, device), "cuDevicePrimaryCtxRetain")


cdef int ctx_get_current(CUcontext* context) except -1 nogil:
    ready("cuCtxGetCurrent")
    return check(raw_ctx_get_current(context), "cuCtxGetCurrent")


cdef int ctx_push_current(CUcontext context) except -1 nogil:
    ready("cuCtxPushCurrent")
    return check(raw_ctx_push_current(context), "cuCtxPushCurrent")


cdef int ctx_pop_current() except -1 nogil:
    cdef CUcontext popped
    ready("cuCtxPopCurrent")
    return check(raw_ctx_pop_current(&popped), "cuCtxPopCurrent")


cdef int ctx_synchronize() except -1 nogil:
    ready("cuCtxSynchronize")
    return check(cydriver.cuCtxSynchronize(), "cuCtxSynchronize")


cdef int ctx_get_stream_priority_range(int* least, int* greatest) except -1 nogil:
    ready("cuCtxGetStreamPriorityRange")
    return check(cydriver.cuCtxGetStreamPriorityRange(least, greatest), "cuCtxGetStreamPriorityRange")


# ---- streams ----

cdef int stream_create(CUstream* stream, unsigned int flags, int priority) except -1 nogil:
    ready("cuStreamCreateWithPriority")
    return check(cydriver.cuStreamCreateWithPriority(stream, flags, priority), "cuStreamCreateWithPriority")


cdef int stream_get_device(CUstream stream, CUdevice* device) except -1 nogil:
    ready("cuStreamGetDevice")
    return check(cydriver.cuStreamGetDevice(stream, device), "cuStreamGetDevice")


cdef int stream_get_priority(CUstream stream, int* priority) except -1 nogil:
    ready("cuStreamGetPriority")
    return check(cydriver.cuStreamGetPriority(stream, priority), "cuStreamGetPriority")


cdef int stream_synchronize(CUstream stream) except -1 nogil:
    ready("cuStreamSynchronize")
    cdef CUstreamCaptureMode mode = relax()
    cdef CUresult code = cydriver.cuStreamSynchronize(stream)
    restore(mode)
    return check(code, "cuStreamSynchronize")


cdef int stream_query(CUstream stream) except -1 nogil:
    ready("cuStreamQuery")
    cdef CUstreamCaptureMode mode = relax()
    cdef CUresult code = cydriver.cuStreamQuery(stream)
    restore(mode)
    return done(code, "cuStreamQuery")


cdef inline int done(CUresult code, const char* call) except -1 nogil:
    if code == cydriver.CUDA_ERROR_NOT_READY:
        return 0
    check(code, call)
    return 1


cdef int stream_wait_event(CUstream stream, CUevent event) except -1 nogil:
    ready("cuStreamWaitEvent")
    return check(raw_stream_wait_event(stream, event, 0), "cuStreamWaitEvent")


cdef int stream_is_capturing(CUstream stream) except -1 nogil:
    cdef cydriver.CUstreamCaptureStatus status = cydriver.CU_STREAM_CAPTURE_STATUS_NONE
    ready("cuStreamIsCapturing")
    check(raw_stream_is_capturing(stream, &status), "cuStreamIsCapturing")
    return status != cydriver.CU_STREAM_CAPTURE_STATUS_NONE


cdef int stream_get_capture_info(CUstream stream, uint64_t* id) except -1 nogil:
    cdef cydriver.CUstreamCaptureStatus status = cydriver.CU_STREAM_CAPTURE_STATUS_NONE
    id[0] = 0
    if not stream_is_capturing(stream):     # the answer nearly always, and the cheaper question
        return status
    check(raw_stream_get_capture_info(stream, &status, id, NULL, NULL, NULL, NULL), "cuStreamGetCaptureInfo")
    if status != cydriver.CU_STREAM_CAPTURE_STATUS_ACTIVE:
        id[0] = 0       # only then it means something
    return status


# While another stream is captured in global or thread-local mode, allocations, frees, waits, queries, loading and
# unloading of code outside the capture fail and break it, unless the thread is in relaxed mode for the call.
cdef CUstreamCaptureMode relax() noexcept nogil:
    cdef CUstreamCaptureMode mode = cydriver.CU_STREAM_CAPTURE_MODE_RELAXED
    if not is_closed():
        raw_exchange_capture_mode(&mode)
    return mode


cdef void restore(CUstreamCaptureMode mode) noexcept nogil:
    if not is_closed():
        raw_exchange_capture_mode(&mode)


# ---- events ----

cdef int event_create(CUevent* event, unsigned int flags) except -1 nogil:
    ready("cuEventCreate")
    return check(raw_event_create(event, flags), "cuEventCreate")


cdef int event_record(CUevent event, CUstream stream) except -1 nogil:
    ready("cuEventRecord")
    return check(raw_event_record(event, stream), "cuEventRecord")


cdef int event_query(CUevent event) except -1 nogil:
    ready("cuEventQuery")
    cdef CUstreamCaptureMode mode = relax()
    cdef CUresult code = cydriver.cuEventQuery(event)
    restore(mode)
    return done(code, "cuEventQuery")


cdef int event_synchronize(CUevent event) except -1 nogil:
    ready("cuEventSynchronize")
    cdef CUstreamCaptureMode mode = relax()
    cdef CUresult code = cydriver.cuEventSynchronize(event)
    restore(mode)
    return check(code, "cuEventSynchronize")


cdef int event_elapsed_time(float* ms, CUevent start, CUevent end, CUresult* code) except -1 nogil:
    ready("cuEventElapsedTime")
    code[0] = cydriver.cuEventElapsedTime(ms, start, end)
    return 0


# ---- memory ----

cdef int mem_get_info(size_t* free, size_t* total) except -1 nogil:
    ready("cuMemGetInfo")
    return check(cydriver.cuMemGetInfo(free, total), "cuMemGetInfo")


cdef int mem_pool_create(CUmemoryPool* pool, const CUmemPoolProps* props) except -1 nogil:
    ready("cuMemPoolCreate")
    cdef CUstreamCaptureMode mode = relax()
    cdef CUresult code = cydriver.cuMemPoolCreate(pool, props)
    restore(mode)
    return check(code, "cuMemPoolCreate")


cdef int mem_pool_trim_to(CUmemoryPool pool, size_t nbytes_to_keep) except -1 nogil:
    ready("cuMemPoolTrimTo")
    cdef CUstreamCaptureMode mode = relax()
    cdef CUresult code = cydriver.cuMemPoolTrimTo(pool, nbytes_to_keep)
    restore(mode)
    return check(code, "cuMemPoolTrimTo")


cdef int mem_pool_set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t value) except -1 nogil:
    ready("cuMemPoolSetAttribute")
    cdef CUstreamCaptureMode mode = relax()
    cdef CUresult code = cydriver.cuMemPoolSetAttribute(pool, attribute, &value)
    restore(mode)
    return check(code, "cuMemPoolSetAttribute")


cdef int mem_pool_get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t* value) except -1 nogil:
    ready("cuMemPoolGetAttribute")
    cdef CUstreamCaptureMode mode = relax()
    cdef CUresult code = cydriver.cuMemPoolGetAttribute(pool, attribute, value)
    restore(mode)
    return check(code, "cuMemPoolGetAttribute")


cdef int mem_alloc_from_pool_async(CUdeviceptr* ptr, size_t nbytes, CUmemoryPool pool, CUstream stream,
                                   CUresult* code) except -1 nogil:
    ready("cuMemAllocFromPoolAsync")
    cdef CUstreamCaptureMode mode = relax()
    code[0] = raw_mem_alloc_from_pool_async(ptr, nbytes, pool, stream)
    restore(mode)
    return 0


cdef int memcpy_htod_async(CUdeviceptr dst, const void* src, size_t nbytes, CUstream stream) except -1 nogil:
    ready("cuMemcpyHtoDAsync")
    return check(cydriver.cuMemcpyHtoDAsync(dst, src, nbytes, stream), "cuMemcpyHtoDAsync")


cdef int memcpy_dtoh_async(void* dst, CUdeviceptr src, size_t nbytes, CUstream stream) except -1 nogil:
    ready("cuMemcpyDtoHAsync")
    return check(cydriver.cuMemcpyDtoHAsync(dst, src, nbytes, stream), "cuMemcpyDtoHAsync")


cdef int memcpy_dtod_async(CUdeviceptr dst, CUdeviceptr src, size_t nbytes, CUstream stream) except -1 nogil:
    ready("cuMemcpyDtoDAsync")
    return check(cydriver.cuMemcpyDtoDAsync(dst, src, nbytes, stream), "cuMemcpyDtoDAsync")


cdef int memcpy_peer_async(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                           size_t nbytes, CUstream stream) except -1 nogil:
    ready("cuMemcpyPeerAsync")
    return check(
        cydriver.cuMemcpyPeerAsync(dst, dst_context, src, src_context, nbytes, stream), "cuMemcpyPeerAsync")


cdef int memcpy_2d_async(const CUDA_MEMCPY2D* copy, CUstream stream) except -1 nogil:
    ready("cuMemcpy2DAsync")
    return check(cydriver.cuMemcpy2DAsync(copy, stream), "cuMemcpy2DAsync")


cdef int memset_d8_async(CUdeviceptr dst, unsigned char value, size_t nbytes, CUstream stream) except -1 nogil:
    ready("cuMemsetD8Async")
    return check(cydriver.cuMemsetD8Async(dst, value, nbytes, stream), "cuMemsetD8Async")


cdef int memset_d16_async(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream) except -1 nogil:
    ready("cuMemsetD16Async")
    return check(cydriver.cuMemsetD16Async(dst, value, n, stream), "cuMemsetD16Async")


cdef int memset_d32_async(CUdeviceptr dst, unsigned int value, size_t n, CUstream stream) except -1 nogil:
    ready("cuMemsetD32Async")
    return check(cydriver.cuMemsetD32Async(dst, value, n, stream), "cuMemsetD32Async")


cdef int memset_d2d32_async(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height,
                            CUstream stream) except -1 nogil:
    ready("cuMemsetD2D32Async")
    return check(cydriver.cuMemsetD2D32Async(dst, pitch, value, width, height, stream), "cuMemsetD2D32Async")


cdef int mem_host_alloc(void** ptr, size_t nbytes, unsigned int flags, CUresult* code) except -1 nogil:
    ready("cuMemHostAlloc")
    cdef CUstreamCaptureMode mode = relax()
    code[0] = cydriver.cuMemHostAlloc(ptr, nbytes, flags)
    restore(mode)
    return 0


cdef int pointer_get_device(int* ordinal, CUdeviceptr ptr) except -1 nogil:
    ready("cuPointerGetAttribute")
    return check(
        cydriver.cuPointerGetAttribute(ordinal, cydriver.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr),
        "cuPointerGetAttribute")


# ---- kernels ----

cdef int library_load_data(CUlibrary* library, const void* image, JitLog* jit, char* text, size_t nbytes,
                           CUresult* code) except -1 nogil:
    cdef CUkernel kernel
    jit.options[0] = cydriver.CU_JIT_ERROR_LOG_BUFFER
    jit.values[0] = text
    jit.options[1] = cydriver.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
    jit.values[1] = <void*>nbytes
    ready("cuLibraryLoadData")
    cdef CUstreamCaptureMode mode = relax()
    code[0] = cydriver.cuLibraryLoadData(library, image, jit.options, jit.values, 2, NULL, NULL, 0)
    if code[0] == cydriver.CUDA_SUCCESS:
        # The driver takes anything and looks at it when it is asked for a kernel.
        code[0] = cydriver.cuLibraryGetKernel(&kernel, library[0], "")
        if code[0] == cydriver.CUDA_ERROR_NOT_FOUND:
            code[0] = cydriver.CUDA_SUCCESS
        if code[0] != cydriver.CUDA_SUCCESS:
            quiet_library_unload(library[0])
    restore(mode)
    return 0


cdef int library_get_kernel(CUkernel* kernel, CUlibrary library, const char* name) except -1 nogil:
    cdef CUresult code
    ready("cuLibraryGetKernel")
    code = cydriver.cuLibraryGetKernel(kernel, library, name)
    if code == cydriver.CUDA_ERROR_NOT_FOUND:
        return 0
    check(code, "cuLibraryGetKernel")
    return 1


cdef int library_get_kernel_count(unsigned int* count, CUlibrary library) except -1 nogil:
    ready("cuLibraryGetKernelCount")
    return check(cydriver.cuLibraryGetKernelCount(count, library), "cuLibraryGetKernelCount")


cdef int library_enumerate_kernels(CUkernel* kernels, unsigned int count, CUlibrary library) except -1 nogil:
    ready("cuLibraryEnumerateKernels")
    return check(cydriver.cuLibraryEnumerateKernels(kernels, count, library), "cuLibraryEnumerateKernels")


cdef int kernel_get_name(const char** name, CUkernel kernel) except -1 nogil:
    ready("cuKernelGetName")
    return check(cydriver.cuKernelGetName(name, kernel), "cuKernelGetName")


cdef int kernel_get_function(CUfunction* function, CUkernel kernel) except -1 nogil:
    ready("cuKernelGetFunction")
    cdef CUstreamCaptureMode mode = relax()
    cdef CUresult code = cydriver.cuKernelGetFunction(function, kernel)
    restore(mode)
    return check(code, "cuKernelGetFunction")


cdef int kernel_get_attribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice device) except -1 nogil:
    ready("cuKernelGetAttribute")
    return check(cydriver.cuKernelGetAttribute(value, attribute, kernel, device), "cuKernelGetAttribute")


cdef int kernel_set_attribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device) except -1 nogil:
    ready("cuKernelSetAttribute")
    return check(cydriver.cuKernelSetAttribute(attribute, value, kernel, device), "cuKernelSetAttribute")


cdef int kernel_get_param_size(CUkernel kernel, size_t index, size_t* nbytes) except -1 nogil:
    cdef size_t offset = 0
    cdef CUresult code
    ready("cuKernelGetParamInfo")
    cdef CUstreamCaptureMode mode = relax()
    code = cydriver.cuKernelGetParamInfo(kernel, index, &offset, nbytes)
    restore(mode)
    if code == cydriver.CUDA_ERROR_INVALID_VALUE:       # past the last one
        return 0
    check(code, "cuKernelGetParamInfo")
    return 1


cdef int func_load(CUfunction function) except -1 nogil:
    ready("cuFuncLoad")
    cdef CUstreamCaptureMode mode = relax()
    cdef CUresult code = cydriver.cuFuncLoad(function)
    restore(mode)
    return check(code, "cuFuncLoad")


cdef int func_set_attribute(CUfunction function, CUfunction_attribute attribute, int value) except -1 nogil:
    ready("cuFuncSetAttribute")
    return check(cydriver.cuFuncSetAttribute(function, attribute, value), "cuFuncSetAttribute")


cdef int launch_kernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                       unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                       CUstream stream, void** params, CUresult* code) except -1 nogil:
    ready("cuLaunchKernel")
    code[0] = cydriver.cuLaunchKernel(
        function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, params, NULL)
    return 0


cdef int launch_kernel_ex(const CUlaunchConfig* config, CUfunction function, void** params,
                          CUresult* code) except -1 nogil:
    ready("cuLaunchKernelEx")
    code[0] = cydriver.cuLaunchKernelEx(config, function, params, NULL)
    return 0


cdef int occupancy_max_active_blocks(int* n, CUfunction function, int block, size_t shared) except -1 nogil:
    ready("cuOccupancyMaxActiveBlocksPerMultiprocessor")
    return check(
        cydriver.cuOccupancyMaxActiveBlocksPerMultiprocessor(n, function, block, shared),
        "cuOccupancyMaxActiveBlocksPerMultiprocessor")


cdef int occupancy_max_potential_block_size(int* grid, int* block, CUfunction function,
                                            size_t shared) except -1 nogil:
    ready("cuOccupancyMaxPotentialBlockSize")
    return check(
        cydriver.cuOccupancyMaxPotentialBlockSize(grid, block, function, NULL, shared, 0),
        "cuOccupancyMaxPotentialBlockSize")


cdef int occupancy_max_active_clusters(int* n, CUfunction function, const CUlaunchConfig* config) except -1 nogil:
    ready("cuOccupancyMaxActiveClusters")
    return check(cydriver.cuOccupancyMaxActiveClusters(n, function, config), "cuOccupancyMaxActiveClusters")


# ---- for destructors ----

cdef inline CUresult enter(CUcontext context, bint* pushed) noexcept nogil:
    # A destructor runs in whichever thread drops the last reference; that one may have no context, or another. The gate
    # is looked at before each single call, since a daemon thread can lose the processor in between.
    cdef CUcontext current = NULL
    cdef CUresult code = raw_ctx_get_current(&current)
    pushed[0] = False
    if code == cydriver.CUDA_SUCCESS and current != context and not is_closed():
        code = raw_ctx_push_current(context)
        pushed[0] = code == cydriver.CUDA_SUCCESS
    return cydriver.CUDA_ERROR_DEINITIALIZED if is_closed() else code


cdef inline void leave(bint pushed) noexcept nogil:
    cdef CUcontext popped
    if pushed and not is_closed():
        raw_ctx_pop_current(&popped)


cdef CUresult quiet_enter(CUcontext context, bint* pushed) noexcept nogil:
    pushed[0] = False
    return cydriver.CUDA_ERROR_DEINITIALIZED if is_closed() else enter(context, pushed)


cdef void quiet_leave(bint pushed) noexcept nogil:
    leave(pushed)


cdef CUresult quiet_stream_destroy(CUcontext context, CUstream stream) noexcept nogil:
    cdef bint pushed
    cdef CUresult code
    if is_closed():
        return cydriver.CUDA_SUCCESS
    code = enter(context, &pushed)
    if code == cydriver.CUDA_SUCCESS:
        code = raw_stream_destroy(stream)
        leave(pushed)
    return code


cdef CUresult quiet_stream_wait_event(CUcontext context, CUstream stream, CUevent event) noexcept nogil:
    cdef bint pushed
    cdef CUresult code
    if is_closed():
        return cydriver.CUDA_SUCCESS
    code = enter(context, &pushed)
    if code == cydriver.CUDA_SUCCESS:
        code = raw_stream_wait_event(stream, event, 0)
        leave(pushed)
    return code


cdef inline CUresult ask_capturing(CUstream stream, bint* capturing) noexcept nogil:
    cdef cydriver.CUstreamCaptureStatus status = cydriver.CU_STREAM_CAPTURE_STATUS_NONE
    cdef CUresult code = raw_stream_is_capturing(stream, &status)
    # The legacy stream beside a capture of another one: no part of it, and not to be touched either.
    capturing[0] = (code == cydriver.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
                    or status != cydriver.CU_STREAM_CAPTURE_STATUS_NONE)
    return cydriver.CUDA_SUCCESS if capturing[0] else code


cdef CUresult quiet_is_capturing(CUcontext context, CUstream stream, bint* capturing) noexcept nogil:
    cdef bint pushed
    cdef CUresult code
    capturing[0] = False
    if is_closed():
        return cydriver.CUDA_SUCCESS
    code = enter(context, &pushed)
    if code == cydriver.CUDA_SUCCESS:
        code = ask_capturing(stream, capturing)
        leave(pushed)
    return code


cdef CUresult quiet_event_destroy(CUcontext context, CUevent event) noexcept nogil:
    cdef bint pushed
    cdef CUresult code
    if is_closed():
        return cydriver.CUDA_SUCCESS
    code = enter(context, &pushed)
    if code == cydriver.CUDA_SUCCESS:
        code = raw_event_destroy(event)
        leave(pushed)
    return code


cdef CUresult quiet_mem_free_async(CUcontext context, CUdeviceptr ptr, CUstream stream,
                                   bint* capturing) noexcept nogil:
    cdef bint pushed
    cdef CUresult code
    cdef CUstreamCaptureMode mode
    capturing[0] = False
    if is_closed():
        return cydriver.CUDA_SUCCESS
    code = enter(context, &pushed)
    if code == cydriver.CUDA_SUCCESS:
        code = ask_capturing(stream, capturing)
        if code == cydriver.CUDA_SUCCESS and not capturing[0]:
            mode = relax()
            code = raw_mem_free_async(ptr, stream)
            restore(mode)
        leave(pushed)
    return code


cdef CUresult quiet_mem_free_host(CUcontext context, void* ptr) noexcept nogil:
    cdef bint pushed
    cdef CUresult code
    cdef CUstreamCaptureMode mode
    if is_closed():
        return cydriver.CUDA_SUCCESS
    code = enter(context, &pushed)
    if code == cydriver.CUDA_SUCCESS:
        mode = relax()
        code = raw_mem_free_host(ptr)
        restore(mode)
        leave(pushed)
    return code


cdef CUresult quiet_mem_pool_destroy(CUmemoryPool pool, bint* in_use) noexcept nogil:
    cdef uint64_t nbytes = 0
    cdef CUresult code
    cdef CUstreamCaptureMode mode
    in_use[0] = False
    if is_closed():
        return cydriver.CUDA_SUCCESS
    mode = relax()
    code = raw_mem_pool_get_attribute(pool, cydriver.CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &nbytes)
    if code == cydriver.CUDA_SUCCESS:
        in_use[0] = nbytes != 0
        if nbytes == 0:
            code = raw_mem_pool_destroy(pool)
    restore(mode)
    return code


cdef CUresult quiet_library_unload(CUlibrary library) noexcept nogil:
    cdef CUresult code
    cdef CUstreamCaptureMode mode
    if is_closed():
        return cydriver.CUDA_SUCCESS
    mode = relax()
    code = raw_library_unload(library)
    restore(mode)
    return code
