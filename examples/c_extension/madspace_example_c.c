/* A C extension on madspace's C API: evaluates a compiled function for an array of any library, without the GIL. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <madspace/madspace.h>

/* The error of a call as a Python exception. */
static PyObject* fail(int status) {
    PyErr_Format(PyExc_RuntimeError, "%s: %s", ms_status_name(status), ms_last_error());
    return NULL;
}

/* What a result has to give back when its last user lets go. */
typedef struct {
    ms_device device;
    void* ptr;
} Memory;

static void release_memory(void* owner) {
    Memory* memory = (Memory*)owner;
    ms_free(memory->device, memory->ptr, NULL);
    free(memory);
}

/* n numbers at ptr as a madspace.Tensor, which owns them afterwards. */
static PyObject* tensor_of(ms_device device, void* ptr, int64_t n, int* status) {
    const int64_t shape[1] = {n};
    ms_dlpack_view view = {ptr, MS_DEVICE_CPU, 0, 2, 64, 1, 0, shape, NULL};
    struct DLManagedTensorVersioned* managed = NULL;
    PyObject* tensor = NULL;
    Memory* memory = (Memory*)malloc(sizeof *memory);
    if (!memory) {
        ms_free(device, ptr, NULL);
        PyErr_NoMemory();
        return NULL;
    }
    memory->device = device;
    memory->ptr = ptr;
    *status = ms_dlpack_wrap(&view, memory, release_memory, &managed);
    if (*status) {
        release_memory(memory);
        return NULL;
    }
    *status = ms_dlpack_to_object(managed, &tensor);
    if (*status) ms_dlpack_release(managed); /* still ours */
    return tensor;
}

/* evaluate(program, x): one float64 in, one float64 out, for each element of a one-dimensional array on the CPU. */
static PyObject* evaluate(PyObject* self, PyObject* args) {
    PyObject *program_object, *array, *result = NULL;
    ms_device cpu;
    ms_program program = NULL;
    struct DLManagedTensorVersioned* managed = NULL;
    ms_dlpack_view x;
    void* out = NULL;
    int n_inputs, n_outputs, status;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO:evaluate", &program_object, &array)) return NULL;
    status = ms_device_get(MS_DEVICE_CPU, 0, &cpu);
    if (!status) status = ms_program_from_object(program_object, &program);
    if (!status) status = ms_program_counts(program, &n_inputs, &n_outputs);
    if (!status) status = ms_dlpack_from_object(array, cpu, NULL, &managed);
    if (!status) status = ms_dlpack_describe(managed, &x);
    if (!status && (n_inputs != 1 || n_outputs != 1 || x.ndim != 1 || x.code != 2 || x.bits != 64)) {
        PyErr_SetString(PyExc_ValueError, "evaluate: expected a program of one input and one output, and a float64 array");
        goto end;
    }
    if (!status) status = ms_alloc(cpu, (size_t)x.shape[0] * sizeof(double), NULL, &out);
    if (!status) {
        const ms_program_array input = {x.data, x.strides[0] * (int64_t)sizeof(double), 0};
        const ms_program_array output = {out, sizeof(double), 0};
        Py_BEGIN_ALLOW_THREADS
        status = ms_program_run(program, cpu, x.shape[0], &input, &output, NULL);
        Py_END_ALLOW_THREADS
    }
    if (!status) {
        result = tensor_of(cpu, out, x.shape[0], &status);
        out = NULL;
    }
end:
    /* Releasing leaves the error of the call that failed: it gives none of its own here. */
    if (status) fail(status);
    ms_free(cpu, out, NULL);
    ms_dlpack_release(managed);
    ms_program_release(program);
    return result;
}

static PyObject* version(PyObject* self, PyObject* none) {
    (void)self;
    (void)none;
    return Py_BuildValue("ii", MADSPACE_API_MAJOR, MADSPACE_API_MINOR);
}

static PyMethodDef methods[] = {
    {"evaluate", evaluate, METH_VARARGS, "evaluate(program, x): run a program of one input and one output"},
    {"version", version, METH_NOARGS, "The version of the C API that this extension was compiled with"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "madspace_example_c", "An example of madspace's C API", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_madspace_example_c(void) {
    if (ms_import() < 0) return NULL;
    return PyModule_Create(&module);
}
