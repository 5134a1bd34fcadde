# Every driver call that madspace makes, wrapped once. All are to be called without the GIL (`with nogil:`) unless they
# only read thread-local state; they take it only to raise. Handles of streams are never 0 here.
from libc.stdint cimport uint64_t

from cuda.bindings.cydriver cimport (
    CUDA_MEMCPY2D, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUfunction_attribute,
    CUjit_option, CUkernel, CUlaunchConfig, CUlibrary, CUmemPool_attribute, CUmemPoolProps, CUmemoryPool, CUresult,
    CUstream,
    CUstreamCaptureMode, CUuuid,
)

# Start the driver: cuInit, exit and fork guards, raw entry points. Idempotent, thread safe. Needed before the others,
# which refuse (ForkError, DriverError) before it, in forked children and at exit.
cdef int init() except -1
cdef int raise_code(CUresult code, const char* call) except -1 with gil
cdef object error_of(CUresult code, str call, str detail)      # the exception, not raised
# The driver's own entry point, for paths that must not enter the Python layer. After init().
cdef int resolve(const char* name, void** pointer) except -1

# devices and contexts
cdef int driver_get_version(int* version) except -1 nogil      # 13000 for CUDA 13.0
cdef int device_get(CUdevice* device, int ordinal) except -1 nogil
cdef int device_get_count(int* count) except -1 nogil
cdef int device_get_name(char* name, int length, CUdevice device) except -1 nogil
cdef int device_get_uuid(CUuuid* uuid, CUdevice device) except -1 nogil
cdef int device_get_pci_bus_id(char* text, int length, CUdevice device) except -1 nogil
cdef int device_get_attribute(int* value, CUdevice_attribute attribute, CUdevice device) except -1 nogil
cdef int device_total_mem(size_t* nbytes, CUdevice device) except -1 nogil
cdef int primary_ctx_retain(CUcontext* context, CUdevice device) except -1 nogil
cdef int ctx_get_current(CUcontext* context) except -1 nogil
cdef int ctx_push_current(CUcontext context) except -1 nogil
cdef int ctx_pop_current() except -1 nogil
cdef int ctx_synchronize() except -1 nogil
cdef int ctx_get_stream_priority_range(int* least, int* greatest) except -1 nogil

# streams
cdef int stream_create(CUstream* stream, unsigned int flags, int priority) except -1 nogil
cdef int stream_get_device(CUstream stream, CUdevice* device) except -1 nogil
cdef int stream_get_priority(CUstream stream, int* priority) except -1 nogil
cdef int stream_synchronize(CUstream stream) except -1 nogil
cdef int stream_query(CUstream stream) except -1 nogil              # 1 all done, 0 not yet
cdef int stream_wait_event(CUstream stream, CUevent event) except -1 nogil
cdef int stream_is_capturing(CUstream stream) except -1 nogil       # 1 also for a broken capture
# The CUstreamCaptureStatus; id: of the capture while it goes on (unique in the process), else 0.
cdef int stream_get_capture_info(CUstream stream, uint64_t* id) except -1 nogil
# What this thread does in between breaks no capture, of whatever mode, of this or another thread or library: for calls
# that have nothing to do with the captured streams.
cdef CUstreamCaptureMode relax() noexcept nogil
cdef void restore(CUstreamCaptureMode mode) noexcept nogil      # mode: what relax() gave

# events
cdef int event_create(CUevent* event, unsigned int flags) except -1 nogil
cdef int event_record(CUevent event, CUstream stream) except -1 nogil
cdef int event_query(CUevent event) except -1 nogil                 # 1 done, 0 not yet
cdef int event_synchronize(CUevent event) except -1 nogil
# The code goes back, for the caller to explain.
cdef int event_elapsed_time(float* ms, CUevent start, CUevent end, CUresult* code) except -1 nogil

# memory
cdef int mem_get_info(size_t* free, size_t* total) except -1 nogil
cdef int mem_pool_create(CUmemoryPool* pool, const CUmemPoolProps* props) except -1 nogil
cdef int mem_pool_trim_to(CUmemoryPool pool, size_t nbytes_to_keep) except -1 nogil
cdef int mem_pool_set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t value) except -1 nogil
cdef int mem_pool_get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t* value) except -1 nogil
# The code goes back, for the caller to make room and try again.
cdef int mem_alloc_from_pool_async(CUdeviceptr* ptr, size_t nbytes, CUmemoryPool pool, CUstream stream,
                                   CUresult* code) except -1 nogil
cdef int memcpy_htod_async(CUdeviceptr dst, const void* src, size_t nbytes, CUstream stream) except -1 nogil
cdef int memcpy_dtoh_async(void* dst, CUdeviceptr src, size_t nbytes, CUstream stream) except -1 nogil
cdef int memcpy_dtod_async(CUdeviceptr dst, CUdeviceptr src, size_t nbytes, CUstream stream) except -1 nogil
cdef int memcpy_peer_async(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                           size_t nbytes, CUstream stream) except -1 nogil
cdef int memcpy_2d_async(const CUDA_MEMCPY2D* copy, CUstream stream) except -1 nogil
cdef int memset_d8_async(CUdeviceptr dst, unsigned char value, size_t nbytes, CUstream stream) except -1 nogil
cdef int memset_d16_async(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream) except -1 nogil
cdef int memset_d32_async(CUdeviceptr dst, unsigned int value, size_t n, CUstream stream) except -1 nogil
# height rows of width words each, `pitch` bytes apart
cdef int memset_d2d32_async(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height,
                            CUstream stream) except -1 nogil
# The code goes back, for the caller to make room and try again.
cdef int mem_host_alloc(void** ptr, size_t nbytes, unsigned int flags, CUresult* code) except -1 nogil
cdef int pointer_get_device(int* ordinal, CUdeviceptr ptr) except -1 nogil

# kernels
# The code goes back, for the caller to tell what is in the log. The log's memory must live as long as the library.
# Options of the PTX compiler. The driver may write through them as long as the library lives: they live with it.
cdef struct JitLog:
    CUjit_option options[2]
    void* values[2]
cdef int library_load_data(CUlibrary* library, const void* image, JitLog* jit, char* text, size_t nbytes,
                           CUresult* code) except -1 nogil
cdef int library_get_kernel(CUkernel* kernel, CUlibrary library, const char* name) except -1 nogil  # 0: no such kernel
cdef int library_get_kernel_count(unsigned int* count, CUlibrary library) except -1 nogil
cdef int library_enumerate_kernels(CUkernel* kernels, unsigned int count, CUlibrary library) except -1 nogil
cdef int kernel_get_name(const char** name, CUkernel kernel) except -1 nogil
cdef int kernel_get_function(CUfunction* function, CUkernel kernel) except -1 nogil
cdef int kernel_get_attribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice device) except -1 nogil
cdef int kernel_set_attribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device) except -1 nogil
cdef int kernel_get_param_size(CUkernel kernel, size_t index, size_t* nbytes) except -1 nogil    # 0: no such parameter
cdef int func_load(CUfunction function) except -1 nogil
cdef int func_set_attribute(CUfunction function, CUfunction_attribute attribute, int value) except -1 nogil
# The code goes back, for the caller to tell which kernel it was and how it was launched.
cdef int launch_kernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                       unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                       CUstream stream, void** params, CUresult* code) except -1 nogil
cdef int launch_kernel_ex(const CUlaunchConfig* config, CUfunction function, void** params,
                          CUresult* code) except -1 nogil
cdef int occupancy_max_active_blocks(int* n, CUfunction function, int block, size_t shared) except -1 nogil
cdef int occupancy_max_potential_block_size(int* grid, int* block, CUfunction function,
                                            size_t shared) except -1 nogil
cdef int occupancy_max_active_clusters(int* n, CUfunction function, const CUlaunchConfig* config) except -1 nogil

# For destructors: nothing happens once is_closed(). The context is made current for the call. The Python layer is never
# entered: raw entry points resolved by init().
cdef CUresult quiet_stream_destroy(CUcontext context, CUstream stream) noexcept nogil
cdef CUresult quiet_stream_wait_event(CUcontext context, CUstream stream, CUevent event) noexcept nogil
cdef CUresult quiet_is_capturing(CUcontext context, CUstream stream, bint* capturing) noexcept nogil
cdef CUresult quiet_event_destroy(CUcontext context, CUevent event) noexcept nogil
# Frees nothing while the stream is being captured.
cdef CUresult quiet_mem_free_async(CUcontext context, CUdeviceptr ptr, CUstream stream,
                                   bint* capturing) noexcept nogil
cdef CUresult quiet_mem_free_host(CUcontext context, void* ptr) noexcept nogil
# Does nothing but say so while memory of the pool is in use, or its free has not been reached by the device.
cdef CUresult quiet_mem_pool_destroy(CUmemoryPool pool, bint* in_use) noexcept nogil
cdef CUresult quiet_library_unload(CUlibrary library) noexcept nogil
# Around calls of others: the context is current in between. Where quiet_enter() fails there is nothing to leave.
cdef CUresult quiet_enter(CUcontext context, bint* pushed) noexcept nogil
cdef void quiet_leave(bint pushed) noexcept nogil
cdef int report(CUresult code, str call) noexcept       # the warning of a destructor whose call failed
