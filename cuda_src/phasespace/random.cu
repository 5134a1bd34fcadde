// Random numbers in memory, one pair of an event per thread. What a block makes is contiguous: it goes through shared
// memory, so that stores are whatever the width.
#include "random_args.h"

using namespace madspace;

extern "C" __global__ void __launch_bounds__(kRandomBlock) random_uniform(const __grid_constant__ RandomArgs args) {
    __shared__ double numbers[2 * kRandomBlock];
    const unsigned part = blockIdx.x % args.parts;
    const i64 first = static_cast<i64>(blockIdx.x / args.parts) * args.events;
    const unsigned ahead = threadIdx.x / args.pairs, pair = threadIdx.x - ahead * args.pairs;
    const i64 event = first + ahead, k = static_cast<i64>(part) * kRandomBlock + pair;
    if (ahead < args.events && event < args.n && 2 * k < args.width) {
        const Values<double, 2> x = uniform_pair(args.keys, args.offset + static_cast<u64>(event), static_cast<u64>(k));
        double* to = numbers + ahead * args.width + 2 * pair;
        to[0] = x[0];
        if (2 * k + 1 < args.width) to[1] = x[1];
    }
    __syncthreads();
    const i64 begin = first * args.width + static_cast<i64>(part) * (2 * kRandomBlock);
    const i64 most = args.parts > 1 ? 2 * kRandomBlock : args.events * args.width;
    // The last block of an event, or of all, has less.
    const i64 end = args.parts > 1 ? (first + 1) * args.width : args.n * args.width;
    const i64 count = most < end - begin ? most : end - begin;
    for (unsigned i = threadIdx.x; i < count; i += kRandomBlock) args.out[begin + i] = numbers[i];
}
