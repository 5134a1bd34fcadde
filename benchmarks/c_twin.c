/* The driver calls of a benchmark in plain C, in the same process and context: what they cost without any Python.
   Own prototypes: no CUDA headers are needed. Built by c_twin.py with the system compiler. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

/* What the operations work on; c_twin.py has the same fields. */
typedef struct {
    void* context;
    void* kernel;
    void* stream;
    void* other_stream;
    void* event;
    void* pool;
    void* graph;
    size_t nbytes;
} Operands;

static int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                     void**);
static int (*synchronize)(void*);
static int (*allocate)(unsigned long long*, size_t, void*, void*);
static int (*release)(unsigned long long, void*);
static int (*record)(void*, void*);
static int (*wait_for)(void*, void*, unsigned);
static int (*replay)(void*, void*);
static int (*push)(void*);
static int (*pop)(void**);
static int (*retain)(void**, int);

static const struct {
    const char* name;
    void* target;
} kEntries[] = {
    {"cuLaunchKernel", &launch},
    {"cuStreamSynchronize", &synchronize},
    {"cuMemAllocFromPoolAsync", &allocate},
    {"cuMemFreeAsync", &release},
    {"cuEventRecord", &record},
    {"cuStreamWaitEvent", &wait_for},
    {"cuGraphLaunch", &replay},
    {"cuCtxPushCurrent_v2", &push},
    {"cuCtxPopCurrent_v2", &pop},
    {"cuDevicePrimaryCtxRetain", &retain},
};

/* Name of the first entry point that is missing; NULL where none is. */
const char* twin_load(const char* library) {
    void* driver = dlopen(library, RTLD_NOW);
    if (!driver) return library;
    for (size_t i = 0; i < sizeof kEntries / sizeof *kEntries; ++i) {
        void* found = dlsym(driver, kEntries[i].name);
        if (!found) return kEntries[i].name;
        *(void**)kEntries[i].target = found;
    }
    return NULL;
}

/* The primary context of a device, NULL for none. It stays retained. */
void* twin_context(int device) {
    void* context = NULL;
    return retain(&context, device) ? NULL : context;
}

int twin_enter(void* context) { return push(context); }
int twin_leave(void) {
    void* popped;
    return pop(&popped);
}

int op_nothing(const Operands* x) { return x == NULL; }

int op_launch(const Operands* x) {
    void* pointer = NULL;
    int number = 0;
    void* params[] = {&pointer, &number};
    return launch(x->kernel, 1, 1, 1, 32, 1, 1, 0, x->stream, params, NULL);
}
int op_launch_and_wait(const Operands* x) { return op_launch(x) || synchronize(x->stream); }
int op_launch_in_context(const Operands* x) { return push(x->context) || op_launch(x) || twin_leave(); }

int op_allocate_and_free(const Operands* x) {
    unsigned long long address;
    return allocate(&address, x->nbytes, x->pool, x->stream) || release(address, x->stream);
}
int op_record_and_wait(const Operands* x) {
    return record(x->event, x->stream) || wait_for(x->other_stream, x->event, 0);
}
int op_launch_graph(const Operands* x) { return replay(x->graph, x->stream); }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* Seconds per operation, with the context current; negative if a call failed. */
double twin_run(int (*operation)(const Operands*), const Operands* operands, int repeats) {
    int failed = push(operands->context);
    if (failed) return -1.0;
    double start = now();
    for (int i = 0; i < repeats && !failed; ++i) failed = operation(operands);
    double seconds = now() - start;
    return twin_leave() || failed ? -1.0 : seconds / repeats;
}
