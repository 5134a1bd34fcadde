/* The driver calls of a benchmark in plain C, in the same process and context: what they cost without any Python.
   Own prototypes: no CUDA headers are needed. Built by c_twin.py with the system compiler. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

enum {
    kMaxParameters = 64,
    kMaxContexts = 64,
    kMaxNodes = 64,
    kKernelNode = 0,
    kNotReady = 600,
    kDisableTiming = 2,
    kNonBlocking = 1
};

/* A launch as a graph's node has it; c_twin.py has the same fields. */
typedef struct {
    void* function;
    unsigned grid[3], block[3], shared;
    void** params;
} KernelNode;

/* What the operations work on; c_twin.py has the same fields. */
typedef struct {
    void* context;
    void* kernel;
    void* stream;
    void* other_stream;
    void* event;
    void* other_event;
    void* pool;
    void* graph;
    void* template_graph;
    void* host;
    unsigned long long device;
    size_t nbytes;
    size_t n;
    void** streams;
    void** events;
    const KernelNode* kernels;
} Operands;

static int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                     void**);
static int (*synchronize)(void*);
static int (*allocate)(unsigned long long*, size_t, void*, void*);
static int (*release)(unsigned long long, void*);
static int (*record)(void*, void*);
static int (*wait_for)(void*, void*, unsigned);
static int (*query)(void*);
static int (*elapsed)(float*, void*, void*);
static int (*new_event)(void**, unsigned);
static int (*end_event)(void*);
static int (*new_stream)(void**, unsigned, int);
static int (*end_stream)(void*);
static int (*replay)(void*, void*);
static int (*update)(void*, void*, void*);
static int (*nodes_of)(void*, void**, size_t*);
static int (*type_of)(void*, int*);
static int (*launch_of)(void*, void*);
static int (*to_device)(unsigned long long, const void*, size_t, void*);
static int (*from_device)(void*, unsigned long long, size_t, void*);
static int (*current)(void**);
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
    {"cuEventQuery", &query},
    {"cuEventElapsedTime", &elapsed},
    {"cuEventCreate", &new_event},
    {"cuEventDestroy_v2", &end_event},
    {"cuStreamCreateWithPriority", &new_stream},
    {"cuStreamDestroy_v2", &end_stream},
    {"cuGraphLaunch", &replay},
    {"cuGraphExecUpdate_v2", &update},
    {"cuGraphGetNodes", &nodes_of},
    {"cuGraphNodeGetType", &type_of},
    {"cuGraphKernelNodeGetParams_v2", &launch_of},
    {"cuMemcpyHtoDAsync_v2", &to_device},
    {"cuMemcpyDtoHAsync_v2", &from_device},
    {"cuCtxGetCurrent", &current},
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

/* Other libraries leave their context current, which is the same one: take all off this thread's stack, and put them
   back. Returns how many there were. */
static void* hidden[kMaxContexts];
int twin_hide(void) {
    void* context;
    int n = 0;
    while (n < kMaxContexts && !current(&context) && context && !pop(&hidden[n])) ++n;
    return n;
}
void twin_show(int n) {
    while (n > 0) push(hidden[--n]);
}

/* Number of a graph's kernels, which are put into `kernels`; -1 where there are more than `most`, or a call failed. Their
   parameters belong to the graph. */
int twin_kernels(void* graph, KernelNode* kernels, int most) {
    void* nodes[kMaxNodes];
    size_t n = kMaxNodes;
    int found = 0;
    if (nodes_of(graph, nodes, &n)) return -1;
    for (size_t i = 0; i < n && i < kMaxNodes; ++i) {
        struct {
            void* function;
            unsigned grid[3], block[3], shared;
            void **params, **extra;
            void *kernel, *context;
        } node = {0};
        int type;
        if (type_of(nodes[i], &type)) return -1;
        if (type != kKernelNode) continue;
        if (found == most || launch_of(nodes[i], &node)) return -1;
        KernelNode* kernel = &kernels[found++];
        kernel->function = node.function ? node.function : node.kernel;
        for (int k = 0; k < 3; ++k) {
            kernel->grid[k] = node.grid[k];
            kernel->block[k] = node.block[k];
        }
        kernel->shared = node.shared;
        kernel->params = node.params;
    }
    return found;
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
int op_launch_n(const Operands* x) {
    long long values[kMaxParameters];
    void* params[kMaxParameters];
    for (size_t i = 0; i < x->n; ++i) {
        values[i] = 0;
        params[i] = &values[i];
    }
    return launch(x->kernel, 1, 1, 1, 32, 1, 1, 0, x->stream, params, NULL);
}

int op_launch_kernels(const Operands* x) {
    int failed = 0;
    for (size_t i = 0; i < x->n && !failed; ++i) {
        const KernelNode* k = &x->kernels[i];
        failed = launch(k->function, k->grid[0], k->grid[1], k->grid[2], k->block[0], k->block[1], k->block[2],
                        k->shared, x->stream, k->params, NULL);
    }
    return failed;
}

int op_allocate_and_free(const Operands* x) {
    unsigned long long address;
    return allocate(&address, x->nbytes, x->pool, x->stream) || release(address, x->stream);
}

int op_record(const Operands* x) { return record(x->event, x->stream); }
int op_wait(const Operands* x) { return wait_for(x->other_stream, x->event, 0); }
int op_record_and_wait(const Operands* x) { return op_record(x) || op_wait(x); }
int op_query(const Operands* x) {
    int status = query(x->event);
    return status && status != kNotReady;
}
int op_query_in_context(const Operands* x) { return push(x->context) || op_query(x) || twin_leave(); }
int op_elapsed(const Operands* x) {
    float milliseconds;
    return elapsed(&milliseconds, x->event, x->other_event);
}
int op_make_event(const Operands* x) {
    void* event;
    (void)x;
    return new_event(&event, kDisableTiming) || end_event(event);
}
int op_make_stream(const Operands* x) {
    void* stream;
    (void)x;
    return new_stream(&stream, kNonBlocking, 0) || end_stream(stream);
}
int op_fork_and_join(const Operands* x) {
    int failed = record(x->event, x->stream);
    for (size_t i = 0; i < x->n && !failed; ++i) failed = wait_for(x->streams[i], x->event, 0);
    for (size_t i = 0; i < x->n && !failed; ++i)
        failed = record(x->events[i], x->streams[i]) || wait_for(x->stream, x->events[i], 0);
    return failed;
}

int op_launch_graph(const Operands* x) { return replay(x->graph, x->stream); }
int op_update_graph(const Operands* x) {
    struct {
        int result;
        void* node;
        void* from;
    } info = {0, NULL, NULL};
    return update(x->graph, x->template_graph, &info);
}

int op_queue_to_device(const Operands* x) { return to_device(x->device, x->host, x->nbytes, x->stream); }
int op_copy_to_device(const Operands* x) { return op_queue_to_device(x) || synchronize(x->stream); }
int op_copy_from_device(const Operands* x) {
    return from_device(x->host, x->device, x->nbytes, x->stream) || synchronize(x->stream);
}

int op_push_and_pop(const Operands* x) { return push(x->context) || twin_leave(); }

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

/* The seconds of each operation, with the context current; not 0 if a call failed. */
int twin_run_each(int (*operation)(const Operands*), const Operands* operands, int repeats, double* seconds) {
    int failed = push(operands->context);
    if (failed) return failed;
    for (int i = 0; i < repeats && !failed; ++i) {
        double start = now();
        failed = operation(operands);
        seconds[i] = now() - start;
    }
    return twin_leave() || failed;
}
