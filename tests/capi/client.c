/* A client of the C API for the tests: what only C can do. Compiled with the present header, with that of an older
   minor version, and with ones that ask for too much. NAME is the name of the module. */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <madspace/madspace.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

enum { kRounds = 200, kWords = 1024, kMaxThreads = 8 };

/* What the threads work on; test_threads.py has the same fields. */
typedef struct {
    ms_device cpu, gpu;
    ms_stream stream, other;
    ms_event event;
    ms_kernel kernel;
    ms_graph graph;
    ms_program program;
    const ms_kda_args *kda_on_cpu, *kda_on_gpu;
    const ms_program_array *inputs, *outputs, *inputs_on_gpu, *outputs_on_gpu;
    int64_t batch;
    void* words;
    int failed; /* the number of the call */
    int status;
    char message[256];
} Work;

#define CALL(number, call)                                                     \
    do {                                                                       \
        work->status = (call);                                                 \
        if (work->status) {                                                    \
            work->failed = number;                                             \
            strncpy(work->message, ms_last_error(), sizeof work->message - 1); \
            return work;                                                       \
        }                                                                      \
    } while (0)

/* All that must not take the GIL. */
static void* hot_calls(void* given) {
    Work* work = (Work*)given;
    const unsigned grid[3] = {4, 1, 1}, block[3] = {256, 1, 1};
    int done;
    int64_t number;
    size_t nbytes;
    for (int i = 0; i < kRounds; ++i) {
        void *ptr = NULL, *native;
        unsigned value = (unsigned)i, n = kWords;
        void* params[] = {&work->words, &value, &n};
        CALL(1, ms_device_info(work->cpu, MS_DEVICE_INFO_KIND, &number));
        CALL(2, ms_alloc(work->cpu, 1000, NULL, &ptr));
        CALL(3, ms_fill(work->cpu, ptr, 1, 1000, NULL));
        CALL(4, ms_copy(work->cpu, ptr, (char*)ptr + 500, 100, NULL));
        CALL(5, ms_free(work->cpu, ptr, NULL));
        CALL(6, ms_kda_workspace_size(100, 2, 1, &nbytes));
        if (i % 20 == 0) {
            CALL(7, ms_kda_forward(work->cpu, work->kda_on_cpu, NULL));
            CALL(8, ms_program_run(work->program, work->cpu, work->batch, work->inputs, work->outputs, NULL));
            CALL(9, ms_kda_forward(work->gpu, work->kda_on_gpu, work->stream));
            CALL(26, ms_program_run(work->program, work->gpu, work->batch, work->inputs_on_gpu, work->outputs_on_gpu,
                                    work->stream));
        }
        CALL(10, ms_alloc(work->gpu, 4096, work->stream, &ptr));
        CALL(11, ms_fill(work->gpu, ptr, 1, 4096, work->stream));
        CALL(12, ms_copy(work->gpu, ptr, work->words, 4096, work->stream));
        CALL(13, ms_free(work->gpu, ptr, work->stream));
        CALL(14, ms_kernel_launch(work->kernel, grid, block, 0, work->stream, params));
        CALL(15, ms_graph_launch(work->graph, work->stream));
        CALL(16, ms_event_record(work->event, work->stream));
        CALL(17, ms_event_wait(work->other, work->event));
        CALL(18, ms_event_query(work->event, &done));
        CALL(19, ms_stream_query(work->stream, &done));
        CALL(20, ms_event_synchronize(work->event));
        CALL(21, ms_stream_synchronize(work->stream));
        CALL(22, ms_device_synchronize(work->gpu));
        CALL(23, ms_stream_native(work->stream, &native));
        CALL(24, ms_event_native(work->event, &native));
        if (ms_stream_query(NULL, &done) != MS_ERROR_HANDLE) work->failed = 25;
    }
    return work;
}

/* hot_calls(address of a Work, n): in n threads of their own, while this one keeps the GIL. Whether all came back. */
static PyObject* run_hot_calls(PyObject* self, PyObject* args) {
    Py_ssize_t address;
    pthread_t threads[kMaxThreads];
    struct timespec deadline;
    int n, late = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "ni", &address, &n) || n > kMaxThreads) return NULL;
    for (int i = 0; i < n; ++i)
        if (pthread_create(&threads[i], NULL, hot_calls, (void*)address)) return PyErr_NoMemory();
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 60;
    for (int i = 0; i < n; ++i)
        if (pthread_timedjoin_np(threads[i], NULL, &deadline)) {
            pthread_detach(threads[i]);
            late = 1;
        }
    return PyBool_FromLong(!late);
}

/* Calls that need the GIL and calls that do not, until the process ends or the interpreter refuses them. */
static void* restless(void* given) {
    const Work* work = (const Work*)given;
    for (;;) {
        ms_stream stream = NULL;
        void* ptr = NULL;
        int status = ms_stream_create(work->gpu, 0, &stream);
        if (!status) status = ms_alloc(work->gpu, 256, stream, &ptr);
        if (!status) status = ms_free(work->gpu, ptr, stream);
        if (!status) status = ms_stream_release(stream);
        if (status) return NULL;
    }
}

static PyObject* start_restless(PyObject* self, PyObject* args) {
    Py_ssize_t address;
    int n;
    (void)self;
    if (!PyArg_ParseTuple(args, "ni", &address, &n)) return NULL;
    while (n-- > 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, restless, (void*)address)) return PyErr_NoMemory();
        pthread_detach(thread);
    }
    Py_RETURN_NONE;
}

/* Calls that take the GIL with an exception pending, as cleaning up does: it is there afterwards. */
static PyObject* clean_up(PyObject* self, PyObject* none) {
    ms_device cpu;
    ms_workspace workspace = NULL;
    (void)self;
    (void)none;
    if (ms_device_get(MS_DEVICE_CPU, 0, &cpu) || ms_workspace_create(cpu, 64, NULL, &workspace))
        return Py_BuildValue("");
    PyErr_SetString(PyExc_KeyError, "mine");
    ms_workspace_release(workspace);
    ms_workspace_release(workspace); /* fails, with a code alone */
    return NULL;
}

static PyObject* status(PyObject* self, PyObject* none) {
    ms_device cpu;
    void* ptr;
    int code = ms_device_get(MS_DEVICE_CPU, 0, &cpu);
    (void)self;
    (void)none;
    if (!code) code = ms_alloc(cpu, 64, NULL, &ptr);
    if (!code) code = ms_free(cpu, ptr, NULL);
    return Py_BuildValue("iiins", MADSPACE_API_MAJOR, MADSPACE_API_MINOR, code, (Py_ssize_t)sizeof(ms_api),
                         ms_status_name(ms_free(cpu, &cpu, NULL)));
}

/* Before ms_import() every function says so. */
static int before_import;

static PyObject* not_imported(PyObject* self, PyObject* none) {
    (void)self;
    (void)none;
    return PyLong_FromLong(before_import);
}

static PyMethodDef methods[] = {
    {"hot_calls", run_hot_calls, METH_VARARGS, NULL},  {"start_restless", start_restless, METH_VARARGS, NULL},
    {"clean_up", clean_up, METH_NOARGS, NULL},         {"status", status, METH_NOARGS, NULL},
    {"not_imported", not_imported, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL},
};

/* In two phases, so that each import of the tests is a new one. */
static int start(PyObject* self) {
    int n;
    (void)self;
    if (before_import == 0) before_import = ms_device_count(&n);
    return ms_import();
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void*)start}, {0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, TEXT(NAME), NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC JOIN(PyInit_, NAME)(void) { return PyModuleDef_Init(&module); }
