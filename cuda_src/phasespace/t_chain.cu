// Fused GPU kernels of the t-channel chains: one event per thread, the whole chain in registers.
// 3 bodies move 9 doubles in and 21 out, 240 bytes per event: memory is the limit, the arithmetic has to stay below it.
#include "event_kernel.h"
#include "t_chain.h"

using namespace madspace;

#define MS_CHAIN(name, blocks, ...)                                                                     \
    extern "C" __global__ void __launch_bounds__(kMaxBlock, blocks)                                     \
        name(const __grid_constant__ EventArgs<__VA_ARGS__::kInputs, __VA_ARGS__::kMomenta + 1> args) { \
        run_event<__VA_ARGS__>(args);                                                                   \
    }
#include "t_chain.def"
#undef MS_CHAIN
