/* The operations of the latency benchmark through madspace's C API, from C and without the GIL. Built by c_api.py; run by
   c_twin.c, in turn with its own. */
#include <Python.h>
#include <madspace/madspace.h>

/* What the operations work on; c_api.py has the same fields, and c_twin.c reads the first one. */
typedef struct {
    void* context;
    ms_device device;
    ms_kernel kernel;
    ms_stream stream;
    ms_stream other_stream;
    ms_event event;
    ms_graph graph;
    size_t nbytes;
} ApiOperands;

/* Fill in the handles; graph may be NULL. What is wrong, NULL for nothing. With the GIL. */
const char* api_prepare(ApiOperands* x, int device, PyObject* kernel, PyObject* stream, PyObject* other_stream,
                        PyObject* event, PyObject* graph) {
    if (ms_import() < 0) {
        PyErr_Clear();
        return "the C API could not be imported";
    }
    if (ms_device_get(MS_DEVICE_CUDA, device, &x->device) || ms_kernel_from_object(kernel, &x->kernel) ||
        ms_stream_from_object(stream, x->device, &x->stream) ||
        ms_stream_from_object(other_stream, x->device, &x->other_stream) || ms_event_from_object(event, &x->event) ||
        (graph && ms_graph_from_object(graph, &x->graph)))
        return ms_last_error();
    return NULL;
}

void api_release(ApiOperands* x) {
    ms_kernel_release(x->kernel);
    ms_stream_release(x->stream);
    ms_stream_release(x->other_stream);
    ms_event_release(x->event);
    ms_graph_release(x->graph);
}

static const unsigned kGrid[3] = {1, 1, 1}, kBlock[3] = {32, 1, 1};

int op_launch(const ApiOperands* x) {
    void* pointer = NULL;
    int number = 0;
    void* params[] = {&pointer, &number};
    return ms_kernel_launch(x->kernel, kGrid, kBlock, 0, x->stream, params);
}
int op_launch_and_wait(const ApiOperands* x) { return op_launch(x) || ms_stream_synchronize(x->stream); }

int op_allocate_and_free(const ApiOperands* x) {
    void* address = NULL;
    return ms_alloc(x->device, x->nbytes, x->stream, &address) || ms_free(x->device, address, x->stream);
}

int op_record(const ApiOperands* x) { return ms_event_record(x->event, x->stream); }
int op_wait(const ApiOperands* x) { return ms_event_wait(x->other_stream, x->event); }
int op_record_and_wait(const ApiOperands* x) { return op_record(x) || op_wait(x); }
int op_query(const ApiOperands* x) {
    int done;
    return ms_event_query(x->event, &done);
}

int op_launch_graph(const ApiOperands* x) { return ms_graph_launch(x->graph, x->stream); }
