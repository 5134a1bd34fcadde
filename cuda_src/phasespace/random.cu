// Random numbers in memory, one pair of an event per thread.
#include "random_args.h"

using namespace madspace;

extern "C" __global__ void __launch_bounds__(256) random_uniform(const __grid_constant__ RandomArgs args) {
    const i64 index = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
    const i64 pairs = (args.width + 1) / 2;
    const i64 event = index / pairs;
    if (event < args.n) fill_pair(args, event, index - event * pairs);
}
