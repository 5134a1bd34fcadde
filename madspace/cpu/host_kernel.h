// Host kernels by name, one table per source file and instruction set. Plain data: nothing of a table may run before
// the processor was found to have its instructions, static constructors least of all.
#pragma once

namespace madspace {

struct HostKernel {
    const char* name;
    void (*run)(const void* args, long long begin, long long end);
};

}  // namespace madspace
