// A few tokens: nothing but the state's bytes counts. One warp per 16 rows of a state, token after token; a lane has
// D / 32 columns of each row.
#pragma once

#include "gate.h"
#include "sequence.h"

MS_BEGIN_NAMESPACE

namespace kda {

// Sums over the warp of 16 values; lanes 2 i and 2 i + 1 get that of value i.
template <int N>
MS_FN void fold(float (&x)[kRowsPerWarp]) {
    const bool upper = threadIdx.x & (2 * N);
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float mine = upper ? x[i + N] : x[i];
        const float other = upper ? x[i] : x[i + N];
        x[i] = mine + __shfl_xor_sync(~0u, other, 2 * N);
    }
}

MS_FN float sums_of_rows(float (&x)[kRowsPerWarp]) {
    fold<8>(x);
    fold<4>(x);
    fold<2>(x);
    fold<1>(x);
    return x[0] + __shfl_xor_sync(~0u, x[0], 1);
}

MS_FN float sum_of_warp(float x) {
#pragma unroll
    for (int step = 16; step >= 1; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}

// D / 32 bfloat16 from an address of as many bytes' alignment.
template <int D>
MS_FN void load_channels(const u16* from, float (&x)[D / 32]) {
    if constexpr (D == 128) {
        const uint2 four = *reinterpret_cast<const uint2*>(from);
        x[0] = low_of(four.x);
        x[1] = high_of(four.x);
        x[2] = low_of(four.y);
        x[3] = high_of(four.y);
    } else {
        const u32 two = *reinterpret_cast<const u32*>(from);
        x[0] = low_of(two);
        x[1] = high_of(two);
    }
}

// 16 rows of a state, a lane's channels of each.
template <int D>
struct Rows {
    float x[kRowsPerWarp][D / 32];

    template <class T>
    MS_FN void load(const T* from) {
#pragma unroll
        for (int i = 0; i < kRowsPerWarp; ++i) {
            if constexpr (sizeof(T) == 2) {
                load_channels<D>(from + i * D, x[i]);
            } else if constexpr (D == 128) {
                const float4 four = *reinterpret_cast<const float4*>(from + i * D);
                x[i][0] = four.x;
                x[i][1] = four.y;
                x[i][2] = four.z;
                x[i][3] = four.w;
            } else {
                const float2 two = *reinterpret_cast<const float2*>(from + i * D);
                x[i][0] = two.x;
                x[i][1] = two.y;
            }
        }
    }

    template <class T>
    MS_FN void store(T* to) const {
#pragma unroll
        for (int i = 0; i < kRowsPerWarp; ++i) {
            if constexpr (sizeof(T) == 2 && D == 128)
                *reinterpret_cast<uint2*>(to + i * D) = make_uint2(pack(x[i][0], x[i][1]), pack(x[i][2], x[i][3]));
            else if constexpr (sizeof(T) == 2)
                *reinterpret_cast<u32*>(to + i * D) = pack(x[i][0], x[i][1]);
            else if constexpr (D == 128)
                *reinterpret_cast<float4*>(to + i * D) = make_float4(x[i][0], x[i][1], x[i][2], x[i][3]);
            else
                *reinterpret_cast<float2*>(to + i * D) = make_float2(x[i][0], x[i][1]);
        }
    }

    MS_FN void load(const void* states, bool is_bf16, i64 at) {
        if (is_bf16)
            load(static_cast<const u16*>(states) + at);
        else
            load(static_cast<const float*>(states) + at);
    }

    MS_FN void store(void* states, bool is_bf16, i64 at) const {
        if (is_bf16)
            store(static_cast<u16*>(states) + at);
        else
            store(static_cast<float*>(states) + at);
    }
};

template <int D>
MS_FN void decode(const Args& args) {
    constexpr int kChannels = D / 32, kRowTiles = D / kRowsPerWarp;
    const int lane = threadIdx.x % 32;
    const i64 item = static_cast<i64>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    const i64 chain = item / kRowTiles;
    if (chain >= args.n_sequences * args.value_heads) return;
    const int row_tile = static_cast<int>(item % kRowTiles);
    const int head = static_cast<int>(chain % args.value_heads);
    const Sequence sequence = sequence_at(args, static_cast<int>(chain / args.value_heads));
    const i64 place = state_place(args, sequence.n);
    const bool is_bf16 = args.flags & kStateBf16;
    const auto element = [&](i64 index) {
        return ((index * args.value_heads + head) * D + kRowsPerWarp * row_tile) * D + kChannels * lane;
    };
    Rows<D> rows = {};
    if (args.initial_state != nullptr && place >= 0) rows.load(args.initial_state, is_bf16, element(place));
    auto& s = rows.x;
    const Snapshots snapshots(args, sequence.n);
    if (sequence.length > 0) {
        const Gate<D> gate(args, head);
        const int key = key_head(args, head);
        const u16* q_rows = rows_at(args, args.q, args.q_stride, sequence, key) + kChannels * lane;
        const u16* k_rows = rows_at(args, args.k, args.k_stride, sequence, key) + kChannels * lane;
        const u16* g_rows = rows_at(args, args.g, args.g_stride, sequence, head) + kChannels * lane;
        const u16* v_rows = rows_at(args, args.v, args.v_stride, sequence, head) + kRowsPerWarp * row_tile + lane / 2;
        const u16* betas = rows_at(args, args.beta, args.beta_stride, sequence, head);
        u16* out = out_at(args, sequence, head, D) + kRowsPerWarp * row_tile;
        for (int t = 0; t < sequence.length; ++t) {
            float q[kChannels], k[kChannels], g[kChannels];
            load_channels<D>(q_rows + t * args.q_stride.token, q);
            load_channels<D>(k_rows + t * args.k_stride.token, k);
            load_channels<D>(g_rows + t * args.g_stride.token, g);
            const float v = float_of(v_rows[t * args.v_stride.token]);
            const float beta = reciprocal_of(1 + exp2_of(-kLog2E * float_of(betas[t * args.beta_stride.token])));
            float q_factor = args.scale, k_factor = 1;
            if (args.flags & kNormalize) {
                float q_sum = 0, k_sum = 0;
#pragma unroll
                for (int j = 0; j < kChannels; ++j) {
                    q_sum = fmaf(q[j], q[j], q_sum);
                    k_sum = fmaf(k[j], k[j], k_sum);
                }
                q_factor *= rsqrt_of(sum_of_warp(q_sum) + 1e-6f);
                k_factor = rsqrt_of(sum_of_warp(k_sum) + 1e-6f);
            }
#pragma unroll
            for (int j = 0; j < kChannels; ++j) {
                k[j] *= k_factor;
                g[j] = exp2_of(gate.activated ? gate.template add_log_decay<true>(0, g[j], j)
                                              : gate.template add_log_decay<false>(0, g[j], j));
            }
            float part[kRowsPerWarp];
#pragma unroll
            for (int i = 0; i < kRowsPerWarp; ++i) {
                part[i] = 0;
#pragma unroll
                for (int j = 0; j < kChannels; ++j) {
                    s[i][j] *= g[j];
                    part[i] = fmaf(s[i][j], k[j], part[i]);
                }
            }
            const float error = beta * (v - sums_of_rows(part));
#pragma unroll
            for (int i = 0; i < kRowsPerWarp; ++i) {
                const float e = __shfl_sync(~0u, error, 2 * i);
                part[i] = 0;
#pragma unroll
                for (int j = 0; j < kChannels; ++j) {
                    s[i][j] = fmaf(e, k[j], s[i][j]);
                    part[i] = fmaf(s[i][j], q[j], part[i]);
                }
            }
            const float o = q_factor * sums_of_rows(part);
            const float next = __shfl_down_sync(~0u, o, 2);
            if (lane % 4 == 0)
                *reinterpret_cast<u32*>(out + static_cast<i64>(t) * args.value_heads * D + lane / 2) = pack(o, next);
            if ((t + 1) % kChunk != 0) continue;
            for (int n = snapshots.first; n < snapshots.end; ++n) {
                if (snapshots.token(args, n) == t + 1)
                    rows.store(args.snapshots, args.flags & kSnapshotBf16, element(n));
            }
        }
    }
    if (args.final_state != nullptr && place >= 0) rows.store(args.final_state, is_bf16, element(place));
}

}  // namespace kda

MS_END_NAMESPACE
