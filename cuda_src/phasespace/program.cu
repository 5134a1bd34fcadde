// The kernels that run any program: they differ in how much of a program fits into their parameters.
// spills-allowed: the hungriest ops need more than the 80 registers that fill a multiprocessor; only they pay
#include "program_kernel.h"

using namespace madspace;

// Any number of threads up to this that is a multiple of 32; three blocks leave 80 registers.
constexpr int kMaxProgramBlock = 256;

#ifndef MS_VARIANT_BLOCKS
#define MS_VARIANT_BLOCKS 3
#endif
#ifndef MS_VARIANT_CHAIN_BLOCKS
#define MS_VARIANT_CHAIN_BLOCKS 4
#endif

#define MS_PROGRAM(name, nbytes, all, blocks)                              \
    extern "C" __global__ void __launch_bounds__(kMaxProgramBlock, blocks) \
        name(const __grid_constant__ ProgramArgs<nbytes> args) {           \
        extern __shared__ double program_memory[];                         \
        program::interpret<all>(args, program_memory);                     \
    }

MS_PROGRAM(program_small, kSmallProgram, true, MS_VARIANT_BLOCKS)
MS_PROGRAM(program_large, kLargeProgram, true, MS_VARIANT_BLOCKS)
MS_PROGRAM(program_chain, kSmallProgram, false, MS_VARIANT_CHAIN_BLOCKS)
