// The kernels that run any program: they differ in how much of a program fits into their parameters, and in their ops.
// spills-allowed: the hungriest ops need more than the 64 or 80 registers that fill a multiprocessor; only they pay
#include "program_kernel.h"

using namespace madspace;

// Any number of threads up to `most` that is a multiple of 32; `blocks` of `most` fit on a multiprocessor, so that 1024
// threads leave 64 registers to each and 768 threads 80.
#define MS_PROGRAM(name, nbytes, all, most, blocks)              \
    extern "C" __global__ void __launch_bounds__(most, blocks)   \
        name(const __grid_constant__ ProgramArgs<nbytes> args) { \
        extern __shared__ double program_memory[];               \
        program::interpret<all>(args, program_memory);           \
    }

MS_PROGRAM(program_small, kSmallProgram, true, 256, 3)
MS_PROGRAM(program_large, kLargeProgram, true, 256, 3)
MS_PROGRAM(program_chain, kSmallProgram, false, 512, 2)
