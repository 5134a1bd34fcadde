// Random numbers in memory. What a block makes is contiguous, and stores take 16 bytes: where events have an odd number
// of them, which no pair of an event fits, through shared memory.
#include "random_args.h"

using namespace madspace;

extern "C" __global__ void __launch_bounds__(kRandomBlock) random_uniform(const __grid_constant__ RandomArgs args) {
    __shared__ double2 pieces[kRandomPairs];
    double* numbers = reinterpret_cast<double*>(pieces);
    const unsigned part = blockIdx.x % args.parts;
    const i64 first = static_cast<i64>(blockIdx.x / args.parts) * args.events;
    const i64 begin = first * args.width + static_cast<i64>(part) * (2 * kRandomPairs);
    // The last block of an event, or of all, has less.
    const i64 left = (args.parts > 1 ? first + 1 : args.n) * args.width - begin;
    const i64 most = args.parts > 1 ? 2 * kRandomPairs : args.events * args.width;
    const unsigned count = static_cast<unsigned>(most < left ? most : left);
    const unsigned odd = static_cast<unsigned>(args.width) & 1;
    double* out = args.out + begin;
    // All pairs of a thread at once; those past the end are not stored.
    constexpr int kEach = kRandomPairs / kRandomBlock;
    Values<double, 2> made[kEach];
    unsigned at[kEach];
    bool is_last[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
        const unsigned i = threadIdx.x + j * kRandomBlock;
        const unsigned ahead = (i * args.inverse) >> kInverseBits, pair = i - ahead * args.pairs;
        const u64 k = static_cast<u64>(part) * kRandomPairs + pair;
        made[j] = uniform_pair(args.keys, args.offset + static_cast<u64>(first + ahead), k);
        at[j] = 2 * i - ahead * odd;
        is_last[j] = pair + 1 == args.pairs && args.parts == 1;
    }
    if (odd == 0) {
#pragma unroll
        for (int j = 0; j < kEach; ++j)
            if (at[j] < count) reinterpret_cast<double2*>(out)[at[j] / 2] = make_double2(made[j][0], made[j][1]);
        return;
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
        if (at[j] < count) numbers[at[j]] = made[j][0];
        if (at[j] + 1 < count && !is_last[j]) numbers[at[j] + 1] = made[j][1];
    }
    __syncthreads();
    if (begin % 2 == 0) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
            const unsigned i = threadIdx.x + j * kRandomBlock;
            if (i < count / 2) reinterpret_cast<double2*>(out)[i] = pieces[i];
        }
        if (count % 2 != 0 && threadIdx.x == 0) out[count - 1] = numbers[count - 1];
    } else {
#pragma unroll 1
        for (unsigned i = threadIdx.x; i < count; i += kRandomBlock) out[i] = numbers[i];
    }
}
