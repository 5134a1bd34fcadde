// What is not a number stays in its sequence, and behind its token: products of whole tiles would spread it.
#pragma once

#include "gate.h"

MS_BEGIN_NAMESPACE

namespace kda {

MS_FN bool is_finite(float x) { return fabsf(x) <= 3.402823466e38f; }

// First token whose k is not finite or whose g or beta is not a number. From it on k becomes zero and the sums stay, so
// that nothing of it gets into the rows before it. Rare, and so not fast.
template <int D>
MS_FN int remove_bad_tokens(u32 slot, float beta, int valid) {
    using R = Record<D>;
    const int lane = threadIdx.x % 32, channel = lane_channel<D>();
    const u32 sums = slot + R::kSums + 4 * channel;
    const auto keys = [&](int row) { return slot + R::kKr + R::piece(row, channel / 8) + 2 * (channel % 8); };
    int bad = valid;
#pragma unroll 1
    for (int row = valid - 1; row >= 0; --row) {
        bool wrong = lane == row && beta != beta;
#pragma unroll 1
        for (int i = 0; i < D / 64; ++i) {
            const u32 k = load_4(keys(row) + 4 * i);
            const float2 sum = load_two_floats(sums + row * R::kSumRow + 8 * i);
            wrong |= !is_finite(low_of(k)) || !is_finite(high_of(k)) || sum.x != sum.x || sum.y != sum.y;
        }
        if (__any_sync(~0u, wrong)) bad = row;
    }
    __syncwarp();
#pragma unroll 1
    for (int row = bad; row < kChunk && bad < valid; ++row)
#pragma unroll 1
        for (int i = 0; i < D / 64; ++i) {
            store_4(keys(row) + 4 * i, 0);
            const float2 last = bad == 0 ? make_float2(0, 0) : load_two_floats(sums + (bad - 1) * R::kSumRow + 8 * i);
            store_two_floats(sums + row * R::kSumRow + 8 * i, last.x, last.y);
        }
    __syncwarp();
    return bad;
}

// The same for v, of which `v` has the transposed tiles; what k and g do from that token on stays behind it anyway.
template <int N>
MS_FN int remove_bad_values(u32 (&v)[N][4], int n_tiles, int valid) {
    const int first = 2 * (threadIdx.x % 4);
    unsigned bad = valid;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const unsigned token = first + 8 * (i / 2);
#pragma unroll
        for (int tile = 0; tile < N; ++tile) {
            if (tile >= n_tiles) break;
            if (!is_finite(low_of(v[tile][i]))) bad = min(bad, token);
            if (!is_finite(high_of(v[tile][i]))) bad = min(bad, token + 1);
        }
    }
    bad = __reduce_min_sync(~0u, bad);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const unsigned token = first + 8 * (i / 2);
        const u32 mask = (token < bad ? 0xffffu : 0) | (token + 1 < bad ? 0xffff0000u : 0);
#pragma unroll
        for (int tile = 0; tile < N; ++tile) v[tile][i] &= mask;
    }
    return static_cast<int>(bad);
}

// From a bad token on the output, and after it the state, is not a number.
template <int D>
MS_FN void poison(u32 slot, int bad) {
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int at = bad * Record<D>::kRow + 4 * lane; at < Record<D>::kTile; at += 128)
        store_4(slot + Record<D>::kQd + at, ~0u);
#pragma unroll 1
    for (int i = lane; i < D; i += 32) store_4(slot + Record<D>::kDecay + 4 * i, ~0u);
    __syncwarp();
}

}  // namespace kda

MS_END_NAMESPACE
