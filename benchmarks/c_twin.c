/* The driver calls of a benchmark in plain C, in the same process and context: what a call costs without any Python.
   Own prototypes: no CUDA headers are needed. Built by c_twin.py with the system compiler. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

typedef int (*launch_fn)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                         void**);
typedef int (*stream_fn)(void*);

static launch_fn launch;
static stream_fn synchronize;

int twin_load(const char* library) {
    void* driver = dlopen(library, RTLD_NOW);
    if (!driver) return 1;
    launch = (launch_fn)dlsym(driver, "cuLaunchKernel");
    synchronize = (stream_fn)dlsym(driver, "cuStreamSynchronize");
    return !launch || !synchronize;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* Seconds per launch of a two-argument kernel, with or without waiting for each; negative if a call failed. */
double twin_launch(void* function, void* stream, int repeats, int wait) {
    void* pointer = NULL;
    int number = 0;
    void* params[] = {&pointer, &number};
    double start = now();
    for (int i = 0; i < repeats; ++i) {
        if (launch(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL)) return -1.0;
        if (wait && synchronize(stream)) return -1.0;
    }
    return (now() - start) / repeats;
}
