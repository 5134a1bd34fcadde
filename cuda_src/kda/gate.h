// The gate: from g to running sums of the logarithms of the decays.
#pragma once

#include "ptx.h"
#include "record.h"

MS_BEGIN_NAMESPACE

namespace kda {

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kMaxDecay = 5.0f;  // per token, in natural units: 16 of them still fit a float and a bfloat16

// Channels of a lane where a lane has the same ones of every token.
template <int D>
MS_FN int lane_channel() {
    return D / 32 * (threadIdx.x % 32);
}

// From g to the logarithm of the decay, base 2, for a lane's channels of one head.
template <int D>
struct Gate {
    static constexpr int kChannels = D / 32;

    float rate, bias[kChannels], bound;  // bound / (1 + 2^(rate g + bias))
    bool activated;

    MS_FN Gate(const Args& args, int head) {
        activated = args.flags & kActivated;
        rate = bound = 0;
        if (!activated) {
            rate = -expf(args.a_log[head]) * kLog2E;
            bound = args.lower_bound * kLog2E;
        }
#pragma unroll
        for (int i = 0; i < kChannels; ++i)
            bias[i] = activated ? 0 : rate * args.dt_bias[static_cast<i64>(head) * D + lane_channel<D>() + i];
    }

    // Add the logarithm of one channel's decay, base 2.
    template <bool kIsActivated>
    MS_FN float add_log_decay(float sum, float x, int i) const {
        if constexpr (kIsActivated) {
            x = x < -kMaxDecay ? -kMaxDecay : x > 0 ? 0 : x;  // passes what is not a number
            return fmaf(x, kLog2E, sum);
        } else {
            return fmaf(bound, reciprocal_of(1 + exp2_of(fmaf(rate, x, bias[i]))), sum);
        }
    }
};

// Running sums of the log decays (base 2), and exp(G_last).
// The places of g's rows are used up just behind the reading: 4 rows are read before their sums are written.
// Returns whether all sums are numbers.
template <int D, bool kIsActivated, bool kIsFull>
MS_FN bool sum_decays(u32 slot, const Gate<D>& gate, int valid) {
    using R = Record<D>;
    constexpr int kChannels = D / 32, kGroup = 4;
    const int channel = lane_channel<D>();
    const u32 sums = slot + R::kSums + 4 * channel;
    float sum[kChannels] = {};
#pragma unroll 1
    for (int first = 0; first < kChunk; first += kGroup) {
        u32 g[kGroup][D / 64];
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
            const u32 address = slot + R::kG + R::piece(first + i, channel / 8) + 2 * (channel % 8);
            if constexpr (D == 128) {
                const uint2 four = load_8(address);
                g[i][0] = four.x;
                g[i][1] = four.y;
            } else {
                g[i][0] = load_4(address);
            }
        }
        __syncwarp();
#pragma unroll
        for (int row = 0; row < kGroup; ++row) {
#pragma unroll
            for (int i = 0; i < kChannels; ++i) {
                const float x = i % 2 ? high_of(g[row][i / 2]) : low_of(g[row][i / 2]);
                const float next = gate.template add_log_decay<kIsActivated>(sum[i], x, i);
                sum[i] = kIsFull || first + row < valid ? next : sum[i];
            }
            const u32 address = sums + (first + row) * R::kSumRow;
            if constexpr (kChannels == 4)
                store_floats(address, sum[0], sum[1], sum[2], sum[3]);
            else
                store_two_floats(address, sum[0], sum[1]);
        }
    }
    float total = 0;
#pragma unroll
    for (int i = 0; i < kChannels; i += 2) {
        store_two_floats(slot + R::kDecay + 4 * R::decay_place(channel + i), exp2_of(sum[i]), exp2_of(sum[i + 1]));
        total += sum[i] + sum[i + 1];
    }
    return total == total;
}

}  // namespace kda

MS_END_NAMESPACE
