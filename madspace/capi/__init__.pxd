# madspace's C API for Cython: `from madspace.capi cimport ms_import, ms_alloc, ...`, with madspace.get_include() among
# the include folders of the C compiler. The same table as in C; madspace/include/madspace/madspace.h documents each
# function. Call ms_import() once, at the top of the module. All are to be called with or without the GIL.
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint32_t


cdef extern from "madspace/madspace.h":
    int MADSPACE_API_MAJOR
    int MADSPACE_API_MINOR

    int ms_import() except -1


cdef extern from "madspace/madspace.h" nogil:
    enum:
        MS_OK
        MS_ERROR_ARGUMENT
        MS_ERROR_HANDLE
        MS_ERROR_SHAPE
        MS_ERROR_DTYPE
        MS_ERROR_DEVICE
        MS_ERROR_WORKSPACE
        MS_ERROR_CLOSED
        MS_ERROR_MEMORY
        MS_ERROR_CAPTURE
        MS_ERROR_KERNEL_FAULT
        MS_ERROR_DRIVER
        MS_ERROR_NO_DRIVER
        MS_ERROR_FORK
        MS_ERROR_KERNEL_IMAGE
        MS_ERROR_COMPILE
        MS_ERROR_UNSUPPORTED
        MS_ERROR_SHUTDOWN
        MS_ERROR_STREAM_SCOPE
        MS_ERROR_PYTHON
        MS_ERROR_NOT_IMPORTED

    enum:
        MS_DEVICE_CPU
        MS_DEVICE_CUDA

    enum:
        MS_DEVICE_INFO_KIND
        MS_DEVICE_INFO_ID
        MS_DEVICE_INFO_CAPABILITY_MAJOR
        MS_DEVICE_INFO_CAPABILITY_MINOR
        MS_DEVICE_INFO_MULTIPROCESSORS
        MS_DEVICE_INFO_SHARED_PER_BLOCK
        MS_DEVICE_INFO_TOTAL_MEMORY

    enum:
        MS_EVENT_TIMING

    enum:
        MS_KDA_STATE_BF16
        MS_KDA_SNAPSHOT_BF16
        MS_KDA_CU_SEQLENS_64
        MS_KDA_STATE_SLOTS_64
        MS_KDA_SNAPSHOTS_64
        MS_KDA_NO_L2NORM
        MS_KDA_GATE_ACTIVATED

    enum:
        MS_FLOAT64
        MS_INT32

    ctypedef struct ms_device_handle:
        pass
    ctypedef ms_device_handle* ms_device
    ctypedef struct ms_stream_handle:
        pass
    ctypedef ms_stream_handle* ms_stream
    ctypedef struct ms_event_handle:
        pass
    ctypedef ms_event_handle* ms_event
    ctypedef struct ms_workspace_handle:
        pass
    ctypedef ms_workspace_handle* ms_workspace
    ctypedef struct ms_module_handle:
        pass
    ctypedef ms_module_handle* ms_module
    ctypedef struct ms_kernel_handle:
        pass
    ctypedef ms_kernel_handle* ms_kernel
    ctypedef struct ms_capture_handle:
        pass
    ctypedef ms_capture_handle* ms_capture
    ctypedef struct ms_graph_handle:
        pass
    ctypedef ms_graph_handle* ms_graph
    ctypedef struct ms_program_handle:
        pass
    ctypedef ms_program_handle* ms_program
    cdef struct DLManagedTensorVersioned:
        pass

    ctypedef struct ms_kda_strides:
        int64_t batch
        int64_t token
        int64_t head

    ctypedef struct ms_kda_args:
        size_t size
        const void* q
        const void* k
        const void* v
        const void* g
        const void* beta
        const float* a_log
        const float* dt_bias
        void* out
        const void* initial_state
        void* final_state
        const void* cu_seqlens
        const void* state_slots
        void* snapshots
        const void* snapshot_tokens
        const void* snapshot_offsets
        void* workspace
        size_t workspace_nbytes
        ms_kda_strides q_strides
        ms_kda_strides k_strides
        ms_kda_strides v_strides
        ms_kda_strides g_strides
        ms_kda_strides beta_strides
        int64_t batches
        int64_t tokens
        int64_t key_heads
        int64_t value_heads
        int64_t channels
        int64_t sequences
        int64_t n_slots
        int64_t n_snapshots
        float scale
        float lower_bound
        uint32_t flags
        uint32_t reserved

    ctypedef struct ms_program_argument:
        const char* name
        int dtype
        int ndim
        int64_t shape[8]
        int64_t n_elements

    ctypedef struct ms_program_array:
        void* data
        int64_t event_stride
        int64_t element_stride

    ctypedef struct ms_dlpack_view:
        void* data
        int device_kind
        int device_id
        int code
        int bits
        int ndim
        int readonly
        const int64_t* shape
        const int64_t* strides

    # The table itself, for who fills one.
    ctypedef struct ms_api:
        uint32_t major
        uint32_t minor
        size_t size
        const void* previous
        const char* (*last_error)() noexcept nogil
        int (*last_driver_code)() noexcept nogil
        const char* (*status_name)(int status) noexcept nogil
        int (*device_count)(int* n) noexcept nogil
        int (*device_get)(int kind, int id, ms_device* device) noexcept nogil
        int (*device_from_object)(PyObject* object_, ms_device* device) noexcept nogil
        int (*device_info)(ms_device device, int what, int64_t* value) noexcept nogil
        int (*device_synchronize)(ms_device device) noexcept nogil
        int (*device_stream)(ms_device device, ms_stream* stream) noexcept nogil
        int (*stream_create)(ms_device device, int priority, ms_stream* stream) noexcept nogil
        int (*stream_wrap)(ms_device device, void* native, ms_stream* stream) noexcept nogil
        int (*stream_from_object)(PyObject* object_, ms_device device, ms_stream* stream) noexcept nogil
        int (*stream_to_object)(ms_stream stream, PyObject** object_) noexcept nogil
        int (*stream_native)(ms_stream stream, void** native) noexcept nogil
        int (*stream_synchronize)(ms_stream stream) noexcept nogil
        int (*stream_query)(ms_stream stream, int* done) noexcept nogil
        int (*stream_wait)(ms_stream stream, ms_stream earlier) noexcept nogil
        int (*stream_fork)(ms_stream stream, int n, ms_stream* sides) noexcept nogil
        int (*stream_join)(ms_stream stream, int n, const ms_stream* sides) noexcept nogil
        int (*stream_release)(ms_stream stream) noexcept nogil
        int (*event_create)(ms_device device, int flags, ms_event* event) noexcept nogil
        int (*event_from_object)(PyObject* object_, ms_event* event) noexcept nogil
        int (*event_native)(ms_event event, void** native) noexcept nogil
        int (*event_record)(ms_event event, ms_stream stream) noexcept nogil
        int (*event_wait)(ms_stream stream, ms_event event) noexcept nogil
        int (*event_query)(ms_event event, int* done) noexcept nogil
        int (*event_synchronize)(ms_event event) noexcept nogil
        int (*event_elapsed)(ms_event start, ms_event end, float* ms) noexcept nogil
        int (*event_release)(ms_event event) noexcept nogil
        int (*alloc)(ms_device device, size_t nbytes, ms_stream stream, void** ptr) noexcept nogil
        int (*free)(ms_device device, void* ptr, ms_stream stream) noexcept nogil
        int (*copy)(ms_device device, void* target, const void* source, size_t nbytes,
                    ms_stream stream) noexcept nogil
        int (*fill)(ms_device device, void* target, int value, size_t nbytes, ms_stream stream) noexcept nogil
        int (*workspace_create)(ms_device device, size_t nbytes, ms_stream stream,
                                ms_workspace* workspace) noexcept nogil
        int (*workspace_from_object)(PyObject* object_, ms_workspace* workspace) noexcept nogil
        int (*workspace_size)(ms_workspace workspace, size_t* nbytes) noexcept nogil
        int (*workspace_check)(ms_workspace workspace, ms_device device, size_t nbytes, size_t alignment,
                               ms_stream stream) noexcept nogil
        int (*workspace_begin)(ms_workspace workspace, ms_stream stream, void** ptr) noexcept nogil
        int (*workspace_end)(ms_workspace workspace, ms_stream stream) noexcept nogil
        int (*workspace_release)(ms_workspace workspace) noexcept nogil
        int (*module_load)(const void* image, size_t nbytes, const char* name, ms_module* module) noexcept nogil
        int (*module_from_object)(PyObject* object_, ms_module* module) noexcept nogil
        int (*module_release)(ms_module module) noexcept nogil
        int (*kernel_get)(ms_module module, const char* name, ms_kernel* kernel) noexcept nogil
        int (*kernel_from_object)(PyObject* object_, ms_kernel* kernel) noexcept nogil
        int (*kernel_load)(ms_kernel kernel, ms_device device) noexcept nogil
        int (*kernel_allow_shared)(ms_kernel kernel, ms_device device, unsigned int nbytes) noexcept nogil
        int (*kernel_launch)(ms_kernel kernel, const unsigned int* grid, const unsigned int* block,
                             unsigned int shared, ms_stream stream, void** params) noexcept nogil
        int (*kernel_release)(ms_kernel kernel) noexcept nogil
        int (*capture_begin)(ms_stream stream, ms_capture* capture) noexcept nogil
        int (*capture_end)(ms_capture capture, ms_graph* graph) noexcept nogil
        int (*capture_release)(ms_capture capture) noexcept nogil
        int (*graph_from_object)(PyObject* object_, ms_graph* graph) noexcept nogil
        int (*graph_launch)(ms_graph graph, ms_stream stream) noexcept nogil
        int (*graph_release)(ms_graph graph) noexcept nogil
        int (*kda_workspace_size)(int64_t tokens, int64_t value_heads, int64_t sequences,
                                  size_t* nbytes) noexcept nogil
        int (*kda_forward)(ms_device device, const ms_kda_args* args, ms_stream stream) noexcept nogil
        int (*program_from_object)(PyObject* object_, ms_program* program) noexcept nogil
        int (*program_from_bytes)(const void* bytes, size_t nbytes, ms_program* program) noexcept nogil
        int (*program_counts)(ms_program program, int* n_inputs, int* n_outputs) noexcept nogil
        int (*program_describe)(ms_program program, int is_output, int index,
                                ms_program_argument* argument) noexcept nogil
        int (*program_run)(ms_program program, ms_device device, int64_t batch, const ms_program_array* inputs,
                           const ms_program_array* outputs, ms_stream stream) noexcept nogil
        int (*program_release)(ms_program program) noexcept nogil
        int (*dlpack_from_object)(PyObject* array, ms_device device, ms_stream stream,
                                  DLManagedTensorVersioned** managed) noexcept nogil
        int (*dlpack_to_object)(DLManagedTensorVersioned* managed, PyObject** tensor) noexcept nogil
        int (*dlpack_wrap)(const ms_dlpack_view* view, void* owner, void (*release)(void*) noexcept nogil,
                           DLManagedTensorVersioned** managed) noexcept nogil
        int (*dlpack_describe)(const DLManagedTensorVersioned* managed, ms_dlpack_view* view) noexcept nogil
        int (*dlpack_release)(DLManagedTensorVersioned* managed) noexcept nogil
        int (*kernel_launch_cluster)(ms_kernel kernel, const unsigned int* grid, const unsigned int* block,
                                     const unsigned int* cluster, int cooperative, unsigned int shared,
                                     ms_stream stream, void** params) noexcept nogil
        int (*is_alive)() noexcept nogil

    # What the header says of each holds here, too: codes, and no exceptions.
    const char* ms_last_error()
    int ms_last_driver_code()
    const char* ms_status_name(int status)
    int ms_device_count(int* n)
    int ms_device_get(int kind, int id, ms_device* device)
    int ms_device_from_object(PyObject* object_, ms_device* device)
    int ms_device_info(ms_device device, int what, int64_t* value)
    int ms_device_synchronize(ms_device device)
    int ms_device_stream(ms_device device, ms_stream* stream)
    int ms_stream_create(ms_device device, int priority, ms_stream* stream)
    int ms_stream_wrap(ms_device device, void* native, ms_stream* stream)
    int ms_stream_from_object(PyObject* object_, ms_device device, ms_stream* stream)
    int ms_stream_to_object(ms_stream stream, PyObject** object_)
    int ms_stream_native(ms_stream stream, void** native)
    int ms_stream_synchronize(ms_stream stream)
    int ms_stream_query(ms_stream stream, int* done)
    int ms_stream_wait(ms_stream stream, ms_stream earlier)
    int ms_stream_fork(ms_stream stream, int n, ms_stream* sides)
    int ms_stream_join(ms_stream stream, int n, const ms_stream* sides)
    int ms_stream_release(ms_stream stream)
    int ms_event_create(ms_device device, int flags, ms_event* event)
    int ms_event_from_object(PyObject* object_, ms_event* event)
    int ms_event_native(ms_event event, void** native)
    int ms_event_record(ms_event event, ms_stream stream)
    int ms_event_wait(ms_stream stream, ms_event event)
    int ms_event_query(ms_event event, int* done)
    int ms_event_synchronize(ms_event event)
    int ms_event_elapsed(ms_event start, ms_event end, float* ms)
    int ms_event_release(ms_event event)
    int ms_alloc(ms_device device, size_t nbytes, ms_stream stream, void** ptr)
    int ms_free(ms_device device, void* ptr, ms_stream stream)
    int ms_copy(ms_device device, void* target, const void* source, size_t nbytes, ms_stream stream)
    int ms_fill(ms_device device, void* target, int value, size_t nbytes, ms_stream stream)
    int ms_workspace_create(ms_device device, size_t nbytes, ms_stream stream, ms_workspace* workspace)
    int ms_workspace_from_object(PyObject* object_, ms_workspace* workspace)
    int ms_workspace_size(ms_workspace workspace, size_t* nbytes)
    int ms_workspace_check(ms_workspace workspace, ms_device device, size_t nbytes, size_t alignment,
                           ms_stream stream)
    int ms_workspace_begin(ms_workspace workspace, ms_stream stream, void** ptr)
    int ms_workspace_end(ms_workspace workspace, ms_stream stream)
    int ms_workspace_release(ms_workspace workspace)
    int ms_module_load(const void* image, size_t nbytes, const char* name, ms_module* module)
    int ms_module_from_object(PyObject* object_, ms_module* module)
    int ms_module_release(ms_module module)
    int ms_kernel_get(ms_module module, const char* name, ms_kernel* kernel)
    int ms_kernel_from_object(PyObject* object_, ms_kernel* kernel)
    int ms_kernel_load(ms_kernel kernel, ms_device device)
    int ms_kernel_allow_shared(ms_kernel kernel, ms_device device, unsigned int nbytes)
    int ms_kernel_launch(ms_kernel kernel, const unsigned int* grid, const unsigned int* block, unsigned int shared,
                         ms_stream stream, void** params)
    int ms_kernel_release(ms_kernel kernel)
    int ms_capture_begin(ms_stream stream, ms_capture* capture)
    int ms_capture_end(ms_capture capture, ms_graph* graph)
    int ms_capture_release(ms_capture capture)
    int ms_graph_from_object(PyObject* object_, ms_graph* graph)
    int ms_graph_launch(ms_graph graph, ms_stream stream)
    int ms_graph_release(ms_graph graph)
    int ms_kda_workspace_size(int64_t tokens, int64_t value_heads, int64_t sequences, size_t* nbytes)
    int ms_kda_forward(ms_device device, const ms_kda_args* args, ms_stream stream)
    int ms_program_from_object(PyObject* object_, ms_program* program)
    int ms_program_from_bytes(const void* bytes, size_t nbytes, ms_program* program)
    int ms_program_counts(ms_program program, int* n_inputs, int* n_outputs)
    int ms_program_describe(ms_program program, int is_output, int index, ms_program_argument* argument)
    int ms_program_run(ms_program program, ms_device device, int64_t batch, const ms_program_array* inputs,
                       const ms_program_array* outputs, ms_stream stream)
    int ms_program_release(ms_program program)
    int ms_dlpack_from_object(PyObject* array, ms_device device, ms_stream stream, DLManagedTensorVersioned** managed)
    int ms_dlpack_to_object(DLManagedTensorVersioned* managed, PyObject** tensor)
    int ms_dlpack_wrap(const ms_dlpack_view* view, void* owner, void (*release)(void*) noexcept nogil,
                       DLManagedTensorVersioned** managed)
    int ms_dlpack_describe(const DLManagedTensorVersioned* managed, ms_dlpack_view* view)
    int ms_dlpack_release(DLManagedTensorVersioned* managed)
    int ms_kernel_launch_cluster(ms_kernel kernel, const unsigned int* grid, const unsigned int* block,
                                 const unsigned int* cluster, int cooperative, unsigned int shared, ms_stream stream,
                                 void** params)
    int ms_is_alive()
