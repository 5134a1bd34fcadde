// The kernels that the machine runs, as the fake driver calls them.
#include "machine.h"

namespace madspace::kda {
alignas(1024) char memory[machine::kSharedBytes];  // what the kernels declare as dynamic shared memory
}

#include "kda/kda_forward.cu"

char* machine::shared = madspace::kda::memory;

#define TWIN(kernel)                                                                                          \
    extern "C" __attribute__((visibility("default"))) void twin_##kernel(void** params, const unsigned* grid, \
                                                                         const unsigned* block) {             \
        const Args& args = *static_cast<const Args*>(params[0]);                                              \
        machine::run([&] { kernel(args); }, grid, block);                                                     \
    }

#define TWINS(D)          \
    TWIN(kda_forward_##D) \
    TWIN(kda_prepare_##D) \
    TWIN(kda_scan_##D)    \
    TWIN(kda_decode_##D)

TWINS(64)
TWINS(128)
TWIN(kda_forward_wide_128)
