/* madspace's C API: one table of functions, for C, C++ and (madspace.capi's .pxd) Cython extensions.

   #include <madspace/madspace.h>          -I$(python -c "import madspace; print(madspace.get_include())")
   if (ms_import() < 0) return NULL;       once, with the GIL held; a Python exception tells what is wrong

   Nothing is linked: the table comes from the imported package. A file that was compiled with this header works with
   every later version of the same MADSPACE_API_MAJOR; where the installed madspace is too old, ms_import() says so.

   The rules, unless a function says otherwise:
   - Every function gives MS_OK (0) or an MS_ERROR_... code, and never sets or clears a Python exception. After a code
   other than MS_OK nothing was queued, made or given back, and outputs are as they were; ms_last_error() has the
   message.
   - Call them with or without the GIL, from any thread, also one that Python does not know. "Takes the GIL" is said
   where a function does: it may wait there for whoever has it. The others never do, and never give up the caller's:
   give it up around calls that wait for the device (synchronize; a launch into a full queue), or what the device waits
   for may never come.
   - Handles are opaque. A function that gives one gives it to the caller, who releases it. A dead, null or foreign
   handle is refused with MS_ERROR_HANDLE, so is one that is released twice. Do not release what another thread is
   using.
   - Work on a device is asynchronous on the stream that is named. No call waits on the host, copies or allocates behind
     the caller's back. Pointers are not looked up: they are the device's, and the caller orders what uses them.
   - The current CUDA context of the thread is left as it was.
   - Once the interpreter exits, what needs it or the driver gives MS_ERROR_SHUTDOWN, at any time, in any thread. */
#ifndef MADSPACE_MADSPACE_H
#define MADSPACE_MADSPACE_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MADSPACE_API_MAJOR 1
#define MADSPACE_API_MINOR 1

enum {
    MS_OK = 0,
    MS_ERROR_ARGUMENT = 1,      /* a number, flag, address or object that the function does not take */
    MS_ERROR_HANDLE = 2,        /* a handle that is null, released, or of another kind */
    MS_ERROR_SHAPE = 3,         /* sizes, strides or alignment */
    MS_ERROR_DTYPE = 4,         /* element types */
    MS_ERROR_DEVICE = 5,        /* on another device than it must be */
    MS_ERROR_WORKSPACE = 6,     /* too small, misaligned, elsewhere */
    MS_ERROR_CLOSED = 7,        /* the Python object behind a handle was closed */
    MS_ERROR_MEMORY = 8,        /* no memory left */
    MS_ERROR_CAPTURE = 9,       /* cannot be part of a capture, or the capture was broken */
    MS_ERROR_KERNEL_FAULT = 10, /* a kernel crashed; the device is lost to the process */
    MS_ERROR_DRIVER = 11,       /* another driver call failed: ms_last_driver_code() */
    MS_ERROR_NO_DRIVER = 12,    /* there is no usable CUDA driver */
    MS_ERROR_FORK = 13,         /* forked after the driver had started */
    MS_ERROR_KERNEL_IMAGE = 14, /* no image, or no kernel of that name, fits the device */
    MS_ERROR_COMPILE = 15,      /* source code did not compile */
    MS_ERROR_UNSUPPORTED = 16,  /* not on this device, or not in this version */
    MS_ERROR_SHUTDOWN = 17,     /* the interpreter is exiting */
    MS_ERROR_STREAM_SCOPE = 18, /* blocks of madspace.stream were left out of order */
    MS_ERROR_PYTHON = 19,       /* any other Python exception; the message names it */
    MS_ERROR_NOT_IMPORTED = 20  /* ms_import() was not called, or failed */
};

enum { MS_DEVICE_CPU = 1, MS_DEVICE_CUDA = 2 }; /* DLPack's numbers */

enum {
    MS_DEVICE_INFO_KIND = 0,             /* MS_DEVICE_CPU or MS_DEVICE_CUDA */
    MS_DEVICE_INFO_ID = 1,               /* its number, 0 for the CPU */
    MS_DEVICE_INFO_CAPABILITY_MAJOR = 2, /* of CUDA devices alone, as what follows */
    MS_DEVICE_INFO_CAPABILITY_MINOR = 3,
    MS_DEVICE_INFO_MULTIPROCESSORS = 4,
    MS_DEVICE_INFO_SHARED_PER_BLOCK = 5, /* bytes, with ms_kernel_allow_shared() */
    MS_DEVICE_INFO_TOTAL_MEMORY = 6      /* bytes */
};

enum { MS_EVENT_TIMING = 1 };

typedef struct ms_device_handle* ms_device;
typedef struct ms_stream_handle* ms_stream;
typedef struct ms_event_handle* ms_event;
typedef struct ms_workspace_handle* ms_workspace;
typedef struct ms_module_handle* ms_module;
typedef struct ms_kernel_handle* ms_kernel;
typedef struct ms_capture_handle* ms_capture;
typedef struct ms_graph_handle* ms_graph; /* one that can be launched */
typedef struct ms_program_handle* ms_program;

struct DLManagedTensorVersioned; /* <dlpack/dlpack.h> */

/* Flags of ms_kda_args. */
enum {
    MS_KDA_STATE_BF16 = 1,     /* initial_state and final_state hold bfloat16, else float */
    MS_KDA_SNAPSHOT_BF16 = 2,  /* snapshots, likewise */
    MS_KDA_CU_SEQLENS_64 = 4,  /* cu_seqlens holds int64_t, else int32_t */
    MS_KDA_STATE_SLOTS_64 = 8, /* state_slots, likewise */
    MS_KDA_SNAPSHOTS_64 = 16,  /* snapshot_tokens and snapshot_offsets, likewise */
    MS_KDA_NO_L2NORM = 32,     /* q and k are used as they are, not divided by their norms */
    MS_KDA_GATE_ACTIVATED = 64 /* g is the log decay itself: a_log and dt_bias are NULL, lower_bound is not read */
};

/* Elements (of 2 bytes) from one batch, token and head to the next; channels are contiguous. All 0: compact. */
typedef struct ms_kda_strides {
    int64_t batch, token, head;
} ms_kda_strides;

/* Arrays are on the call's device, bfloat16 where nothing else is said. B batches of T tokens, HK heads of q and k, HV
   of everything else (a multiple of HK), D channels (64 or 128 on a GPU, 1 to 256 on the CPU), N sequences. On a GPU
   rows of q, k, v, g, out and the states start at multiples of 16 bytes. Set everything that is not used to 0. */
typedef struct ms_kda_args {
    size_t size;                  /* sizeof(ms_kda_args) */
    const void* q;                /* [B, T, HK, D] */
    const void* k;                /* [B, T, HK, D] */
    const void* v;                /* [B, T, HV, D] */
    const void* g;                /* [B, T, HV, D], before its activation */
    const void* beta;             /* [B, T, HV], logits */
    const float* a_log;           /* [HV] */
    const float* dt_bias;         /* [HV, D] */
    void* out;                    /* [B, T, HV, D], compact */
    const void* initial_state;    /* [N or n_slots, HV, D of v, D of k], compact; NULL: zero */
    void* final_state;            /* likewise; NULL: not wanted. May be initial_state */
    const void* cu_seqlens;       /* [N + 1]: where packed sequences begin and end, with B = 1; NULL: N = B */
    const void* state_slots;      /* [N]: places in the states, which are pools of n_slots; NULL: none */
    void* snapshots;              /* [n_snapshots, HV, D of v, D of k]; NULL: none. With the next two */
    const void* snapshot_tokens;  /* [n_snapshots]: after how many tokens of its sequence, multiples of 16 */
    const void* snapshot_offsets; /* [N + 1]: the snapshots of sequence n are offsets[n] to offsets[n + 1] */
    void* workspace;              /* ms_kda_workspace_size() bytes, aligned to 128; NULL: the call allocates */
    size_t workspace_nbytes;
    ms_kda_strides q_strides, k_strides, v_strides, g_strides, beta_strides;
    int64_t batches, tokens;        /* B, T */
    int64_t key_heads, value_heads; /* HK, HV */
    int64_t channels;               /* D */
    int64_t sequences;              /* N; 0 without cu_seqlens */
    int64_t n_slots, n_snapshots;
    float scale;       /* of the queries; D**-0.5 is usual */
    float lower_bound; /* -5 to below 0 */
    uint32_t flags;
    uint32_t reserved; /* 0 */
} ms_kda_args;

enum { MS_FLOAT64 = 1, MS_INT32 = 2 };

typedef struct ms_program_argument {
    const char* name;
    int dtype; /* MS_FLOAT64 or MS_INT32 */
    int ndim;  /* of one event, without the batch */
    int64_t shape[8];
    int64_t n_elements; /* of one event */
} ms_program_argument;

/* Elements of an event in row-major order. Bytes from one event to the next (0: one event for all), and from one
   element to the next (0: the size of an element). */
typedef struct ms_program_array {
    void* data;
    int64_t event_stride, element_stride;
} ms_program_array;

/* A strided array. code and bits are DLPack's: 0 int, 1 unsigned, 2 float, 4 bfloat, 5 complex, 6 bool. */
typedef struct ms_dlpack_view {
    void* data; /* of the first element */
    int device_kind, device_id;
    int code, bits;
    int ndim;
    int readonly;
    const int64_t* shape;
    const int64_t* strides; /* in elements; NULL: compact, when given */
} ms_dlpack_view;

/* The table: fields are only ever added at its end. Call them through the functions below. */
typedef struct ms_api {
    uint32_t major, minor;
    size_t size;          /* of this structure, in bytes */
    const void* previous; /* the table of an older major version; NULL for none */
    /* since 1.0 */
    const char* (*last_error)(void);
    int (*last_driver_code)(void);
    const char* (*status_name)(int status);
    int (*device_count)(int* n);
    int (*device_get)(int kind, int id, ms_device* device);
    int (*device_from_object)(PyObject* object, ms_device* device);
    int (*device_info)(ms_device device, int what, int64_t* value);
    int (*device_synchronize)(ms_device device);
    int (*device_stream)(ms_device device, ms_stream* stream);
    int (*stream_create)(ms_device device, int priority, ms_stream* stream);
    int (*stream_wrap)(ms_device device, void* native, ms_stream* stream);
    int (*stream_from_object)(PyObject* object, ms_device device, ms_stream* stream);
    int (*stream_to_object)(ms_stream stream, PyObject** object);
    int (*stream_native)(ms_stream stream, void** native);
    int (*stream_synchronize)(ms_stream stream);
    int (*stream_query)(ms_stream stream, int* done);
    int (*stream_wait)(ms_stream stream, ms_stream earlier);
    int (*stream_fork)(ms_stream stream, int n, ms_stream* sides);
    int (*stream_join)(ms_stream stream, int n, const ms_stream* sides);
    int (*stream_release)(ms_stream stream);
    int (*event_create)(ms_device device, int flags, ms_event* event);
    int (*event_from_object)(PyObject* object, ms_event* event);
    int (*event_native)(ms_event event, void** native);
    int (*event_record)(ms_event event, ms_stream stream);
    int (*event_wait)(ms_stream stream, ms_event event);
    int (*event_query)(ms_event event, int* done);
    int (*event_synchronize)(ms_event event);
    int (*event_elapsed)(ms_event start, ms_event end, float* ms);
    int (*event_release)(ms_event event);
    int (*alloc)(ms_device device, size_t nbytes, ms_stream stream, void** ptr);
    int (*free)(ms_device device, void* ptr, ms_stream stream);
    int (*copy)(ms_device device, void* target, const void* source, size_t nbytes, ms_stream stream);
    int (*fill)(ms_device device, void* target, int value, size_t nbytes, ms_stream stream);
    int (*workspace_create)(ms_device device, size_t nbytes, ms_stream stream, ms_workspace* workspace);
    int (*workspace_from_object)(PyObject* object, ms_workspace* workspace);
    int (*workspace_size)(ms_workspace workspace, size_t* nbytes);
    int (*workspace_check)(ms_workspace workspace, ms_device device, size_t nbytes, size_t alignment, ms_stream stream);
    int (*workspace_begin)(ms_workspace workspace, ms_stream stream, void** ptr);
    int (*workspace_end)(ms_workspace workspace, ms_stream stream);
    int (*workspace_release)(ms_workspace workspace);
    int (*module_load)(const void* image, size_t nbytes, const char* name, ms_module* module);
    int (*module_from_object)(PyObject* object, ms_module* module);
    int (*module_release)(ms_module module);
    int (*kernel_get)(ms_module module, const char* name, ms_kernel* kernel);
    int (*kernel_from_object)(PyObject* object, ms_kernel* kernel);
    int (*kernel_load)(ms_kernel kernel, ms_device device);
    int (*kernel_allow_shared)(ms_kernel kernel, ms_device device, unsigned nbytes);
    int (*kernel_launch)(ms_kernel kernel, const unsigned grid[3], const unsigned block[3], unsigned shared,
                         ms_stream stream, void** params);
    int (*kernel_release)(ms_kernel kernel);
    int (*capture_begin)(ms_stream stream, ms_capture* capture);
    int (*capture_end)(ms_capture capture, ms_graph* graph);
    int (*capture_release)(ms_capture capture);
    int (*graph_from_object)(PyObject* object, ms_graph* graph);
    int (*graph_launch)(ms_graph graph, ms_stream stream);
    int (*graph_release)(ms_graph graph);
    int (*kda_workspace_size)(int64_t tokens, int64_t value_heads, int64_t sequences, size_t* nbytes);
    int (*kda_forward)(ms_device device, const ms_kda_args* args, ms_stream stream);
    int (*program_from_object)(PyObject* object, ms_program* program);
    int (*program_from_bytes)(const void* bytes, size_t nbytes, ms_program* program);
    int (*program_counts)(ms_program program, int* n_inputs, int* n_outputs);
    int (*program_describe)(ms_program program, int is_output, int index, ms_program_argument* argument);
    int (*program_run)(ms_program program, ms_device device, int64_t batch, const ms_program_array* inputs,
                       const ms_program_array* outputs, ms_stream stream);
    int (*program_release)(ms_program program);
    int (*dlpack_from_object)(PyObject* array, ms_device device, ms_stream stream,
                              struct DLManagedTensorVersioned** managed);
    int (*dlpack_to_object)(struct DLManagedTensorVersioned* managed, PyObject** tensor);
    int (*dlpack_wrap)(const ms_dlpack_view* view, void* owner, void (*release)(void* owner),
                       struct DLManagedTensorVersioned** managed);
    int (*dlpack_describe)(const struct DLManagedTensorVersioned* managed, ms_dlpack_view* view);
    int (*dlpack_release)(struct DLManagedTensorVersioned* managed);
    /* since 1.1 */
    int (*kernel_launch_cluster)(ms_kernel kernel, const unsigned grid[3], const unsigned block[3],
                                 const unsigned cluster[3], int cooperative, unsigned shared, ms_stream stream,
                                 void** params);
    int (*is_alive)(void);
} ms_api;

/* Where the table is. Each file has its own pointer, and calls ms_import() for itself; or all files of an extension
   define MADSPACE_SYMBOL as one name of their own, and all but the one that calls ms_import() define
   MADSPACE_NO_IMPORT. */
#ifndef MADSPACE_SYMBOL
static const ms_api* ms_table_of_file = NULL;
#define MADSPACE_TABLE ms_table_of_file
#else
#define MADSPACE_TABLE MADSPACE_SYMBOL
#ifdef MADSPACE_NO_IMPORT
extern const ms_api* MADSPACE_SYMBOL;
#else
extern const ms_api* MADSPACE_SYMBOL;
const ms_api* MADSPACE_SYMBOL = NULL;
#endif
#endif

#if defined(__GNUC__)
#define MADSPACE_INLINE static inline __attribute__((unused))
#else
#define MADSPACE_INLINE static inline
#endif

#ifndef MADSPACE_NO_IMPORT
/* Import madspace and get its table. With the GIL held; idempotent. 0, or -1 with ImportError set: no madspace, one
   whose API has another major version, or one that is older than what this file was compiled with. */
MADSPACE_INLINE int ms_import(void) {
    const ms_api* table;
    PyObject* module = PyImport_ImportModule("madspace");
    PyObject* capsule = module ? PyObject_GetAttrString(module, "_C_API") : NULL;
    Py_XDECREF(module);
    if (!module) return -1;
    if (!capsule || !PyCapsule_IsValid(capsule, "madspace._C_API")) {
        Py_XDECREF(capsule);
        PyErr_SetString(PyExc_ImportError,
                        "the module that is imported as madspace has no C API; this extension needs the package "
                        "madspace-driver (PyPI's madspace is another project)");
        return -1;
    }
    table = (const ms_api*)PyCapsule_GetPointer(capsule, "madspace._C_API");
    Py_DECREF(capsule); /* the table itself is there as long as the process */
    while (table && table->major > MADSPACE_API_MAJOR) table = (const ms_api*)table->previous;
    if (!table || table->major != MADSPACE_API_MAJOR) {
        PyErr_Format(
            PyExc_ImportError,
            "this extension was compiled for version %d of madspace's C API, which the installed madspace-driver "
            "does not have; install another version of one of them, or compile the extension again",
            MADSPACE_API_MAJOR);
        return -1;
    }
    if ((int)table->minor < MADSPACE_API_MINOR || table->size < sizeof(ms_api)) {
        PyErr_Format(
            PyExc_ImportError,
            "this extension needs madspace's C API %d.%d or later, the installed madspace-driver has %d.%d (%zu "
            "bytes, where %zu are needed): upgrade madspace-driver, or compile the extension with its headers",
            MADSPACE_API_MAJOR, MADSPACE_API_MINOR, (int)table->major, (int)table->minor, table->size, sizeof(ms_api));
        return -1;
    }
    MADSPACE_TABLE = table;
    return 0;
}
#endif

/* ---- Errors ---- */

/* What the latest call of this thread that failed has to say: one line, never NULL, valid until the next one fails.
   Never takes the GIL; works at any time. */
MADSPACE_INLINE const char* ms_last_error(void) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->last_error() : "ms_import() was not called, or failed";
}

/* The driver's result code (CUresult) behind that error, 0 where no driver call failed. Never takes the GIL. */
MADSPACE_INLINE int ms_last_driver_code(void) { return MADSPACE_TABLE ? MADSPACE_TABLE->last_driver_code() : 0; }

/* The name of an MS_ code, "MS_ERROR_..."; never NULL. Never takes the GIL. */
MADSPACE_INLINE const char* ms_status_name(int status) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->status_name(status) : "MS_ERROR_NOT_IMPORTED";
}

/* ---- Devices ---- */

/* Handles of devices are good for the whole process and are not released. */

/* Count the CUDA devices; 0 without a driver. Starts the driver where there is one. Takes the GIL. */
MADSPACE_INLINE int ms_device_count(int* n) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->device_count(n) : MS_ERROR_NOT_IMPORTED;
}

/* Get the CPU (MS_DEVICE_CPU, id 0) or a CUDA device by its number. The first one of a kind starts the driver and
   retains the device's primary context. Takes the GIL.
   MS_ERROR_NO_DRIVER, MS_ERROR_DRIVER (no such device), MS_ERROR_FORK. */
MADSPACE_INLINE int ms_device_get(int kind, int id, ms_device* device) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->device_get(kind, id, device) : MS_ERROR_NOT_IMPORTED;
}

/* The same for a madspace.Device, an int, or a str ("cpu", "cuda", "cuda:1"). Takes the GIL. */
MADSPACE_INLINE int ms_device_from_object(PyObject* object, ms_device* device) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->device_from_object(object, device) : MS_ERROR_NOT_IMPORTED;
}

/* Ask for a property, one of MS_DEVICE_INFO_... Never takes the GIL: the answers were noted by ms_device_get().
   MS_ERROR_UNSUPPORTED for what a CPU does not have. */
MADSPACE_INLINE int ms_device_info(ms_device device, int what, int64_t* value) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->device_info(device, what, value) : MS_ERROR_NOT_IMPORTED;
}

/* Wait on the host for all work of the device. Never takes the GIL. Nothing to wait for on the CPU. MS_ERROR_CAPTURE
 * while a stream is captured. */
MADSPACE_INLINE int ms_device_synchronize(ms_device device) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->device_synchronize(device) : MS_ERROR_NOT_IMPORTED;
}

/* The device's own stream (madspace.Device.default_stream), non-blocking; one more handle, to be released. Takes the
   GIL. MS_ERROR_UNSUPPORTED on the CPU. */
MADSPACE_INLINE int ms_device_stream(ms_device device, ms_stream* stream) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->device_stream(device, stream) : MS_ERROR_NOT_IMPORTED;
}

/* ---- Streams ---- */

/* Streams are of CUDA devices. Where a function takes a device and a stream, the CPU's stream is NULL. */

/* Make a stream that does not synchronise with the legacy default stream. priority: 0, or what the device allows,
   smaller is more urgent. Takes the GIL. MS_ERROR_ARGUMENT for another priority; MS_ERROR_UNSUPPORTED on the CPU. */
MADSPACE_INLINE int ms_stream_create(ms_device device, int priority, ms_stream* stream) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->stream_create(device, priority, stream) : MS_ERROR_NOT_IMPORTED;
}

/* Borrow a stream of another library (CUstream, cudaStream_t; 0 and 1: the legacy default stream, 2: the per-thread
   one). The caller keeps it alive as long as it is used here; it is never destroyed. Takes the GIL.
   MS_ERROR_DEVICE for a stream of another device. */
MADSPACE_INLINE int ms_stream_wrap(ms_device device, void* native, ms_stream* stream) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->stream_wrap(device, native, stream) : MS_ERROR_NOT_IMPORTED;
}

/* A madspace.Stream, an int, a torch stream, or anything with __cuda_stream__; kept alive by the handle. Takes the GIL.
 */
MADSPACE_INLINE int ms_stream_from_object(PyObject* object, ms_device device, ms_stream* stream) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->stream_from_object(object, device, stream) : MS_ERROR_NOT_IMPORTED;
}

/* The madspace.Stream behind a handle; a new reference. Takes the GIL. */
MADSPACE_INLINE int ms_stream_to_object(ms_stream stream, PyObject** object) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->stream_to_object(stream, object) : MS_ERROR_NOT_IMPORTED;
}

/* The driver's handle (CUstream), never NULL. Valid until the stream is released. Never takes the GIL. */
MADSPACE_INLINE int ms_stream_native(ms_stream stream, void** native) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->stream_native(stream, native) : MS_ERROR_NOT_IMPORTED;
}

/* Wait on the host for all work queued so far. Never takes the GIL. MS_ERROR_CAPTURE while it is captured. */
MADSPACE_INLINE int ms_stream_synchronize(ms_stream stream) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->stream_synchronize(stream) : MS_ERROR_NOT_IMPORTED;
}

/* Tell without waiting whether all work is done: 1 or 0. Never takes the GIL. MS_ERROR_CAPTURE while it is captured. */
MADSPACE_INLINE int ms_stream_query(ms_stream stream, int* done) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->stream_query(stream, done) : MS_ERROR_NOT_IMPORTED;
}

/* Later work of a stream waits, on the device, for what is queued on another one now. Takes the GIL. */
MADSPACE_INLINE int ms_stream_wait(ms_stream stream, ms_stream earlier) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->stream_wait(stream, earlier) : MS_ERROR_NOT_IMPORTED;
}

/* Fork n side streams (1 to 1024) off a stream: their work comes behind all that is queued on it so far. sides: room
   for n handles, which ms_stream_join() releases. In a capture they take part and must be joined. Takes the GIL. */
MADSPACE_INLINE int ms_stream_fork(ms_stream stream, int n, ms_stream* sides) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->stream_fork(stream, n, sides) : MS_ERROR_NOT_IMPORTED;
}

/* A stream waits, on the device, for n others; those from ms_stream_fork() end and are released, also where one of
   them fails. Takes the GIL. */
MADSPACE_INLINE int ms_stream_join(ms_stream stream, int n, const ms_stream* sides) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->stream_join(stream, n, sides) : MS_ERROR_NOT_IMPORTED;
}

/* Let go of a stream. One made here is destroyed behind its work and the buffers that were allocated on it; any other
   one stays. NULL does nothing. Takes the GIL. */
MADSPACE_INLINE int ms_stream_release(ms_stream stream) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->stream_release(stream) : MS_ERROR_NOT_IMPORTED;
}

/* ---- Events ---- */

/* Make an event; flags: 0 or MS_EVENT_TIMING. Takes the GIL. MS_ERROR_UNSUPPORTED on the CPU. */
MADSPACE_INLINE int ms_event_create(ms_device device, int flags, ms_event* event) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->event_create(device, flags, event) : MS_ERROR_NOT_IMPORTED;
}

/* A madspace.Event, kept alive by the handle. Takes the GIL. */
MADSPACE_INLINE int ms_event_from_object(PyObject* object, ms_event* event) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->event_from_object(object, event) : MS_ERROR_NOT_IMPORTED;
}

/* The driver's handle (CUevent). Never takes the GIL. */
MADSPACE_INLINE int ms_event_native(ms_event event, void** native) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->event_native(event, native) : MS_ERROR_NOT_IMPORTED;
}

/* Mark the present end of a stream of the same device. Asynchronous. Never takes the GIL. */
MADSPACE_INLINE int ms_event_record(ms_event event, ms_stream stream) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->event_record(event, stream) : MS_ERROR_NOT_IMPORTED;
}

/* Later work of the stream waits, on the device, for what the event recorded last (nothing, if it was never recorded);
   the devices may differ. Never takes the GIL.
   MS_ERROR_CAPTURE where the stream is captured and the event was not recorded in that capture; the capture goes on. */
MADSPACE_INLINE int ms_event_wait(ms_stream stream, ms_event event) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->event_wait(stream, event) : MS_ERROR_NOT_IMPORTED;
}

/* Tell without waiting whether the recorded work is done: 1 or 0. Never takes the GIL. MS_ERROR_CAPTURE for an event of
   a capture. */
MADSPACE_INLINE int ms_event_query(ms_event event, int* done) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->event_query(event, done) : MS_ERROR_NOT_IMPORTED;
}

/* Wait on the host for the recorded work. Never takes the GIL. MS_ERROR_CAPTURE as above. */
MADSPACE_INLINE int ms_event_synchronize(ms_event event) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->event_synchronize(event) : MS_ERROR_NOT_IMPORTED;
}

/* Milliseconds of device time between two events with MS_EVENT_TIMING, both recorded and reached. Never takes the GIL.
   MS_ERROR_DRIVER with driver code 400 (without timing, not recorded) or 600 (not reached). */
MADSPACE_INLINE int ms_event_elapsed(ms_event start, ms_event end, float* ms) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->event_elapsed(start, end, ms) : MS_ERROR_NOT_IMPORTED;
}

/* Destroy an event; waits that are queued stay valid. One from Python stays Python's. NULL does nothing. Takes the GIL.
 */
MADSPACE_INLINE int ms_event_release(ms_event event) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->event_release(event) : MS_ERROR_NOT_IMPORTED;
}

/* ---- Memory ---- */

/* Allocate nbytes bytes, uninitialised, in stream order: work queued on the stream from now on may use them. Aligned to
   256 bytes (64 on the CPU, where stream is NULL and the bytes are there at once); 0 bytes give NULL. From the device's
   own pool, and counted there. Never takes the GIL, but: where the pool has no room left, an observer of allocations or
   another library's allocator is installed, or the stream takes part in a capture of madspace.
   MS_ERROR_MEMORY; MS_ERROR_CAPTURE on a stream that another library captures. */
MADSPACE_INLINE int ms_alloc(ms_device device, size_t nbytes, ms_stream stream, void** ptr) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->alloc(device, nbytes, stream, ptr) : MS_ERROR_NOT_IMPORTED;
}

/* Give memory of ms_alloc() back, behind all that is queued on the stream, which must come behind every other use.
   NULL does nothing. The GIL as above.
   MS_ERROR_ARGUMENT for an address that is not one (freed already, say); nothing is touched then.
   MS_ERROR_CAPTURE on a captured stream, unless it was allocated in that capture: the memory is still there. */
MADSPACE_INLINE int ms_free(ms_device device, void* ptr, ms_stream stream) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->free(device, ptr, stream) : MS_ERROR_NOT_IMPORTED;
}

/* Copy between device memory, page-locked and pageable host memory; the driver finds out which. Asynchronous unless one
   side is pageable: then the source has been read (the target written) when the call returns. A plain copy on the CPU.
   Never takes the GIL. */
MADSPACE_INLINE int ms_copy(ms_device device, void* target, const void* source, size_t nbytes, ms_stream stream) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->copy(device, target, source, nbytes, stream) : MS_ERROR_NOT_IMPORTED;
}

/* Set each byte to value (0 to 255). Asynchronous; done at once on the CPU. Never takes the GIL. */
MADSPACE_INLINE int ms_fill(ms_device device, void* target, int value, size_t nbytes, ms_stream stream) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->fill(device, target, value, nbytes, stream) : MS_ERROR_NOT_IMPORTED;
}

/* ---- Workspaces ---- */

/* Scratch memory that calls use in turn, as madspace.Workspace: from begin to end it belongs to the calling thread, and
   the stream comes behind the use before. Raw memory of one's own needs none of this. */

/* Make one of nbytes bytes, allocated on the stream (NULL on the CPU). Takes the GIL. */
MADSPACE_INLINE int ms_workspace_create(ms_device device, size_t nbytes, ms_stream stream, ms_workspace* workspace) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->workspace_create(device, nbytes, stream, workspace) : MS_ERROR_NOT_IMPORTED;
}

/* A madspace.Workspace, or a contiguous writable uint8 array of any library; kept alive by the handle. Takes the GIL.
 */
MADSPACE_INLINE int ms_workspace_from_object(PyObject* object, ms_workspace* workspace) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->workspace_from_object(object, workspace) : MS_ERROR_NOT_IMPORTED;
}

/* Its bytes. Takes the GIL. */
MADSPACE_INLINE int ms_workspace_size(ms_workspace workspace, size_t* nbytes) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->workspace_size(workspace, nbytes) : MS_ERROR_NOT_IMPORTED;
}

/* Check that a call on a device and stream can have nbytes bytes at a multiple of alignment (0: 256) in it. Takes the
   GIL. MS_ERROR_WORKSPACE says what is wrong; MS_ERROR_CLOSED; MS_ERROR_DEVICE for a stream of another device. */
MADSPACE_INLINE int ms_workspace_check(ms_workspace workspace, ms_device device, size_t nbytes, size_t alignment,
                                       ms_stream stream) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->workspace_check(workspace, device, nbytes, alignment, stream)
                          : MS_ERROR_NOT_IMPORTED;
}

/* Begin a use and get the address. Another thread's use is waited for on the host, other streams' on the device.
   Takes the GIL, and gives it back while it waits. */
MADSPACE_INLINE int ms_workspace_begin(ms_workspace workspace, ms_stream stream, void** ptr) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->workspace_begin(workspace, stream, ptr) : MS_ERROR_NOT_IMPORTED;
}

/* End it, in the same thread, after the last launch, also where one failed. Takes the GIL. */
MADSPACE_INLINE int ms_workspace_end(ms_workspace workspace, ms_stream stream) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->workspace_end(workspace, stream) : MS_ERROR_NOT_IMPORTED;
}

/* Let go of it; its memory goes back behind its last use. NULL does nothing. Takes the GIL. */
MADSPACE_INLINE int ms_workspace_release(ms_workspace workspace) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->workspace_release(workspace) : MS_ERROR_NOT_IMPORTED;
}

/* ---- Kernels ---- */

/* Load a cubin, PTX or fat binary, which is copied; name (may be NULL) is for messages. Takes the GIL.
   MS_ERROR_DRIVER with the log of the driver's compiler; MS_ERROR_KERNEL_IMAGE for a file without its end. */
MADSPACE_INLINE int ms_module_load(const void* image, size_t nbytes, const char* name, ms_module* module) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->module_load(image, nbytes, name, module) : MS_ERROR_NOT_IMPORTED;
}

/* A madspace.Module, kept alive by the handle. Takes the GIL. */
MADSPACE_INLINE int ms_module_from_object(PyObject* object, ms_module* module) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->module_from_object(object, module) : MS_ERROR_NOT_IMPORTED;
}

/* Let go of it; it is unloaded when its kernels are released, too. NULL does nothing. Takes the GIL. */
MADSPACE_INLINE int ms_module_release(ms_module module) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->module_release(module) : MS_ERROR_NOT_IMPORTED;
}

/* A kernel by its name in the image. Takes the GIL. MS_ERROR_KERNEL_IMAGE lists what there is. */
MADSPACE_INLINE int ms_kernel_get(ms_module module, const char* name, ms_kernel* kernel) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->kernel_get(module, name, kernel) : MS_ERROR_NOT_IMPORTED;
}

/* A madspace.Kernel, kept alive by the handle. Takes the GIL. */
MADSPACE_INLINE int ms_kernel_from_object(PyObject* object, ms_kernel* kernel) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->kernel_from_object(object, kernel) : MS_ERROR_NOT_IMPORTED;
}

/* Load it on a device: what the first launch does otherwise, and what must come before a capture. Takes the GIL.
   MS_ERROR_UNSUPPORTED on the CPU. */
MADSPACE_INLINE int ms_kernel_load(ms_kernel kernel, ms_device device) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->kernel_load(kernel, device) : MS_ERROR_NOT_IMPORTED;
}

/* Allow launches with so many bytes of dynamic shared memory per block, beyond 48 KiB. Takes the GIL.
   MS_ERROR_UNSUPPORTED on the CPU. */
MADSPACE_INLINE int ms_kernel_allow_shared(ms_kernel kernel, ms_device device, unsigned nbytes) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->kernel_allow_shared(kernel, device, nbytes) : MS_ERROR_NOT_IMPORTED;
}

/* Queue a launch. params: one pointer per parameter, to its value; the values are copied. What the memory behind them
   is ordered with is the caller's: raw pointers tell nothing. Asynchronous. Never takes the GIL once the kernel was
   launched or loaded on the device, but in a capture of madspace.
   MS_ERROR_ARGUMENT for a grid or block out of range; MS_ERROR_CAPTURE where the stream is captured and the kernel was
   not loaded. */
MADSPACE_INLINE int ms_kernel_launch(ms_kernel kernel, const unsigned grid[3], const unsigned block[3], unsigned shared,
                                     ms_stream stream, void** params) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->kernel_launch(kernel, grid, block, shared, stream, params)
                          : MS_ERROR_NOT_IMPORTED;
}

/* Let go of it; launches that are queued still run. NULL does nothing. Takes the GIL. */
MADSPACE_INLINE int ms_kernel_release(ms_kernel kernel) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->kernel_release(kernel) : MS_ERROR_NOT_IMPORTED;
}

/* ---- Graphs ---- */

/* From now on work that is queued on the stream, by whichever library, becomes a graph instead of being run
   (madspace.capture, in its relaxed mode). Takes the GIL. */
MADSPACE_INLINE int ms_capture_begin(ms_stream stream, ms_capture* capture) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->capture_begin(stream, capture) : MS_ERROR_NOT_IMPORTED;
}

/* End the capture and make what can be launched of it; the capture is released, also after an error. What was captured
   keeps the kernels that it launches; memory behind raw pointers stays the caller's. Takes the GIL. */
MADSPACE_INLINE int ms_capture_end(ms_capture capture, ms_graph* graph) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->capture_end(capture, graph) : MS_ERROR_NOT_IMPORTED;
}

/* End the capture without a graph. NULL does nothing. Takes the GIL. */
MADSPACE_INLINE int ms_capture_release(ms_capture capture) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->capture_release(capture) : MS_ERROR_NOT_IMPORTED;
}

/* A madspace.GraphExec, kept alive by the handle. Takes the GIL. */
MADSPACE_INLINE int ms_graph_from_object(PyObject* object, ms_graph* graph) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->graph_from_object(object, graph) : MS_ERROR_NOT_IMPORTED;
}

/* Run a graph once. Asynchronous. Never takes the GIL, but for graphs of Python that order memory (Buffers, Tensors).
   MS_ERROR_CAPTURE while the stream is captured. */
MADSPACE_INLINE int ms_graph_launch(ms_graph graph, ms_stream stream) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->graph_launch(graph, stream) : MS_ERROR_NOT_IMPORTED;
}

/* Let go of it; launches that are queued still run. NULL does nothing. Takes the GIL. */
MADSPACE_INLINE int ms_graph_release(ms_graph graph) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->graph_release(graph) : MS_ERROR_NOT_IMPORTED;
}

/* ---- Kimi Delta Attention ---- */

/* As madspace.kda.fwd, whose documentation has the formulas, on raw pointers. */

/* Bytes of workspace that a call needs: tokens of all batches, heads of v, sequences. Never takes the GIL.
   MS_ERROR_ARGUMENT for negative numbers; MS_ERROR_SHAPE for sizes that 64 bits cannot count. */
MADSPACE_INLINE int ms_kda_workspace_size(int64_t tokens, int64_t value_heads, int64_t sequences, size_t* nbytes) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->kda_workspace_size(tokens, value_heads, sequences, nbytes)
                          : MS_ERROR_NOT_IMPORTED;
}

/* Compute it: one or two launches; on the CPU (stream NULL) the result is there when the call returns. Everything is
   checked before anything is queued, and the message names the field. Without a workspace the call allocates what it
   needs in stream order. Never takes the GIL, but where a kernel is used for the first time on a device and in a
   capture of madspace (and as ms_alloc()). What the memory is ordered with is the caller's. After MS_ERROR_DRIVER the
   first of two launches may have been queued. MS_ERROR_ARGUMENT, MS_ERROR_SHAPE, MS_ERROR_WORKSPACE, MS_ERROR_CAPTURE,
   MS_ERROR_MEMORY. */
MADSPACE_INLINE int ms_kda_forward(ms_device device, const ms_kda_args* args, ms_stream stream) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->kda_forward(device, args, stream) : MS_ERROR_NOT_IMPORTED;
}

/* ---- Programs ---- */

/* A madspace.Program, compiled from a function: straight-line code for each event. */

/* A madspace.Program, or a FunctionRuntime that has one. Takes the GIL. */
MADSPACE_INLINE int ms_program_from_object(PyObject* object, ms_program* program) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->program_from_object(object, program) : MS_ERROR_NOT_IMPORTED;
}

/* What madspace.Program.to_bytes() gave, in this version or an earlier one. Takes the GIL.
   MS_ERROR_ARGUMENT for bytes that are no program; MS_ERROR_UNSUPPORTED for operations that this version lacks. */
MADSPACE_INLINE int ms_program_from_bytes(const void* bytes, size_t nbytes, ms_program* program) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->program_from_bytes(bytes, nbytes, program) : MS_ERROR_NOT_IMPORTED;
}

/* How many arrays go in and come out. Never takes the GIL. */
MADSPACE_INLINE int ms_program_counts(ms_program program, int* n_inputs, int* n_outputs) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->program_counts(program, n_inputs, n_outputs) : MS_ERROR_NOT_IMPORTED;
}

/* Describe one of them; the name is valid until the program is released. Never takes the GIL. */
MADSPACE_INLINE int ms_program_describe(ms_program program, int is_output, int index, ms_program_argument* argument) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->program_describe(program, is_output, index, argument)
                          : MS_ERROR_NOT_IMPORTED;
}

/* Compute batch events: one launch on a GPU; on the CPU (stream NULL) threaded, and done when the call returns. Outputs
   share no memory with each other or with inputs. What the memory is ordered with is the caller's. Never takes the GIL,
   but for the first call on a device and in a capture of madspace.
   MS_ERROR_ARGUMENT for a null pointer or misaligned memory; MS_ERROR_UNSUPPORTED for a program that no GPU kernel
   holds; MS_ERROR_CAPTURE where the stream is captured and its kernel was not loaded. */
MADSPACE_INLINE int ms_program_run(ms_program program, ms_device device, int64_t batch, const ms_program_array* inputs,
                                   const ms_program_array* outputs, ms_stream stream) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->program_run(program, device, batch, inputs, outputs, stream)
                          : MS_ERROR_NOT_IMPORTED;
}

/* Let go of it. NULL does nothing. Takes the GIL. */
MADSPACE_INLINE int ms_program_release(ms_program program) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->program_release(program) : MS_ERROR_NOT_IMPORTED;
}

/* ---- DLPack ---- */

/* Managed tensors are DLPack's own (version 1), as in <dlpack/dlpack.h>, which is not needed here. */

/* Take an array of any library in, without a copy: later work of the stream comes behind its producer's, and its memory
   goes back behind what is queued on the stream when it is released. device: where it must lie. The caller owns the
   result: ms_dlpack_release(). Takes the GIL.
   MS_ERROR_DEVICE for an array elsewhere; MS_ERROR_ARGUMENT for what is no array. */
MADSPACE_INLINE int ms_dlpack_from_object(PyObject* array, ms_device device, ms_stream stream,
                                          struct DLManagedTensorVersioned** managed) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->dlpack_from_object(array, device, stream, managed) : MS_ERROR_NOT_IMPORTED;
}

/* Give memory to Python as a madspace.Tensor, which any library takes; a new reference. The managed tensor is taken
   over, unless the call fails. Its work so far must be on the stream on which madspace works there (ms_device_stream(),
   or ordered behind it). Takes the GIL. */
MADSPACE_INLINE int ms_dlpack_to_object(struct DLManagedTensorVersioned* managed, PyObject** tensor) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->dlpack_to_object(managed, tensor) : MS_ERROR_NOT_IMPORTED;
}

/* Describe memory of one's own; the view is copied. release(owner) is called once, from any thread, when the last user
   has let go; NULL for memory that stays. Never takes the GIL. */
MADSPACE_INLINE int ms_dlpack_wrap(const ms_dlpack_view* view, void* owner, void (*release)(void* owner),
                                   struct DLManagedTensorVersioned** managed) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->dlpack_wrap(view, owner, release, managed) : MS_ERROR_NOT_IMPORTED;
}

/* Look at a managed tensor: shape and strides are its own and live as long as it does. Never takes the GIL.
   MS_ERROR_UNSUPPORTED for one of a newer major version. */
MADSPACE_INLINE int ms_dlpack_describe(const struct DLManagedTensorVersioned* managed, ms_dlpack_view* view) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->dlpack_describe(managed, view) : MS_ERROR_NOT_IMPORTED;
}

/* Call its deleter. NULL does nothing. Takes the GIL, if its producer does. */
MADSPACE_INLINE int ms_dlpack_release(struct DLManagedTensorVersioned* managed) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->dlpack_release(managed) : MS_ERROR_NOT_IMPORTED;
}

/* ---- Since 1.1 ---- */

/* As ms_kernel_launch(), with clusters of so many blocks (NULL: none), or with all blocks running at once. */
MADSPACE_INLINE int ms_kernel_launch_cluster(ms_kernel kernel, const unsigned grid[3], const unsigned block[3],
                                             const unsigned cluster[3], int cooperative, unsigned shared,
                                             ms_stream stream, void** params) {
    return MADSPACE_TABLE ? MADSPACE_TABLE->kernel_launch_cluster(kernel, grid, block, cluster, cooperative, shared,
                                                                  stream, params)
                          : MS_ERROR_NOT_IMPORTED;
}

/* 1 until the interpreter begins to exit (or the process is a fork whose parent had started the driver); afterwards
   what needs Python or the driver gives MS_ERROR_SHUTDOWN (MS_ERROR_FORK). Never takes the GIL; works at any time. */
MADSPACE_INLINE int ms_is_alive(void) { return MADSPACE_TABLE ? MADSPACE_TABLE->is_alive() : 0; }

#ifdef __cplusplus
}
#endif

#endif /* MADSPACE_MADSPACE_H */
