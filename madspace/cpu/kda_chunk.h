// Kimi Delta Attention on the host, what all rows of a state share: the vectors of a few tokens, in fp32.
// Arithmetic as in section 2 of arXiv:2510.26692; NaN goes through every function.
#pragma once

#include "kda/host_call.h"

MS_BEGIN_NAMESPACE

namespace kda {

constexpr int kTokens = 8;  // 4 vectors of 128 floats for each: 16 KB, half of a first-level cache
constexpr float kMinLogDecay = -5.0f;
constexpr float kNormEpsilon = 1e-6f;

MS_FN float from_bf16(u16 bits) {
    const u32 wide = static_cast<u32>(bits) << 16;
    float x;
    __builtin_memcpy(&x, &wide, sizeof x);
    return x;
}

// To the nearest, ties to even; a NaN stays one.
MS_FN u16 to_bf16(float x) {
    u32 bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    const u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return static_cast<u16>((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}

// exp(x), within 2 units in the last place; beyond [-87, 88] the value at the end. Cephes' polynomial.
MS_FN float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    const float shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the low bits are the integer part
    const float n = shifted - 12582912.0f;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = (p * r * r + r) + 1.0f;
    u32 bits;
    __builtin_memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000u;
    float power;
    __builtin_memcpy(&power, &bits, sizeof power);
    return p * power;
}

MS_FN float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

struct Chunk {
    alignas(64) float k[kTokens][kMaxHostChannels];
    alignas(64) float decayed_k[kTokens][kMaxHostChannels];  // decay * k
    alignas(64) float q[kTokens][kMaxHostChannels];          // scale * q
    alignas(64) float decay[kTokens][kMaxHostChannels];
    float beta[kTokens];
};

// Fills `to` with x / |x|, or x as it is, times a factor.
template <int kD>
void load_vector(const u16* x, int channels, bool normalize, float factor, float* to) {
    const int d = kD > 0 ? kD : channels;
    if (normalize) {
        float norm_2 = 0.0f;
#pragma omp simd reduction(+ : norm_2)
        for (int i = 0; i < d; ++i) {
            const float value = from_bf16(x[i]);
            norm_2 += value * value;
        }
        factor /= __builtin_sqrtf(norm_2 + kNormEpsilon);
    }
#pragma omp simd
    for (int i = 0; i < d; ++i) to[i] = from_bf16(x[i]) * factor;
}

template <int kD>
void load_decay(const Args& args, const u16* g, int channels, int head, float rate, float* to) {
    const int d = kD > 0 ? kD : channels;
    if (args.flags & kActivated) {
#pragma omp simd
        for (int i = 0; i < d; ++i) {
            float a = from_bf16(g[i]);
            a = a < kMinLogDecay ? kMinLogDecay : a;
            a = a > 0.0f ? 0.0f : a;
            to[i] = exponential(a);
        }
        return;
    }
    const float* bias = args.dt_bias + static_cast<i64>(head) * d;
    const float bound = args.lower_bound;
#pragma omp simd
    for (int i = 0; i < d; ++i) to[i] = exponential(bound * sigmoid(rate * (from_bf16(g[i]) + bias[i])));
}

// Tokens [first, first + count) of a batch. rate: exp(A_log) of the head.
template <int kD>
void load_chunk(const Args& args, int channels, i64 batch, int head, float rate, i64 first, int count, Chunk& chunk) {
    const int d = kD > 0 ? kD : channels;
    const int key_head = head / (args.value_heads / args.key_heads);
    const bool normalize = args.flags & kNormalize;
    for (int t = 0; t < count; ++t) {
        const i64 token = first + t;
        const auto at = [=](const Strides& stride, int h) {
            return batch * stride.batch + token * stride.token + h * stride.head;
        };
        load_vector<kD>(args.q + at(args.q_stride, key_head), d, normalize, args.scale, chunk.q[t]);
        load_vector<kD>(args.k + at(args.k_stride, key_head), d, normalize, 1.0f, chunk.k[t]);
        load_decay<kD>(args, args.g + at(args.g_stride, head), d, head, rate, chunk.decay[t]);
        chunk.beta[t] = sigmoid(from_bf16(args.beta[at(args.beta_stride, head)]));
        const float* k = chunk.k[t];
        const float* decay = chunk.decay[t];
        float* decayed_k = chunk.decayed_k[t];
#pragma omp simd
        for (int i = 0; i < d; ++i) decayed_k[i] = decay[i] * k[i];
    }
}

}  // namespace kda

MS_END_NAMESPACE
