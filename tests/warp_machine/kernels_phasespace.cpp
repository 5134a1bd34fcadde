// The kernels of programs on the machine, as the fake driver calls them.
#include "machine.h"

alignas(1024) double program_memory[machine::kSharedBytes / sizeof(double)];  // their dynamic shared memory

#include "phasespace/program.cu"

#undef __shared__
#define __shared__ static
#include "phasespace/random.cu"

char* machine::shared = reinterpret_cast<char*>(program_memory);

#define TWIN(kernel, Args)                                                                                    \
    extern "C" __attribute__((visibility("default"))) void twin_##kernel(void** params, const unsigned* grid, \
                                                                         const unsigned* block) {             \
        const Args& args = *static_cast<const Args*>(params[0]);                                              \
        machine::run([&] { kernel(args); }, grid, block);                                                     \
    }

TWIN(program_small, ProgramArgs<kSmallProgram>)
TWIN(program_large, ProgramArgs<kLargeProgram>)
TWIN(program_chain, ProgramArgs<kSmallProgram>)
TWIN(random_uniform, RandomArgs)
