// One warp makes a record of 16 tokens in place of their inputs. Registers hold matrices as the m16n8k16 instruction
// wants them: with r = lane / 4 and c = 2 (lane % 4), register 0 has row r and columns c, c + 1, register 1 row r + 8,
// registers 2 and 3 the same rows and columns c + 8, c + 9.
#pragma once

#include "ptx.h"
#include "plan.h"
#include "sequence.h"

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

// Where the rows of q, k, v and g of one head of a sequence begin, for load_inputs(): into shared memory of the warp.
MS_FN void find_inputs(u32 bases, const Args& args, const Sequence& sequence, int head) {
    const int i = threadIdx.x % 32;
    if (i < 4) {
        const u16* data = i == 0 ? args.q : i == 1 ? args.k : i == 2 ? args.v : args.g;
        const Strides& stride = i == 0 ? args.q_stride : i == 1 ? args.k_stride : i == 2 ? args.v_stride : args.g_stride;
        const u16* rows = rows_at(args, data, stride, sequence, i < 2 ? key_head(args, head) : head);
        store_address(bases + 8 * i, reinterpret_cast<u64>(rows));
    }
    __syncwarp();
}

// Start the copies of 16 rows from `token` on; those from `valid` on become zero. Of a row only `n_units` pieces of 16
// bytes from `first_unit` on.
template <int D>
MS_FN void load_rows(u32 tile, u32 base, i64 stride, int token, int valid, int first_unit, int n_units) {
    constexpr int kUnits = D / 8, kRowsAtOnce = 32 / kUnits;
    const int lane = threadIdx.x % 32, first_row = lane / kUnits, unit = lane % kUnits;
    if (unit < first_unit || unit >= first_unit + n_units) return;
    const u16* from = reinterpret_cast<const u16*>(load_address(base)) + (token + first_row) * stride + 8 * unit;
    const u32 to = tile + Record<D>::piece(first_row, unit);
    if (valid == kChunk) {
#pragma unroll
        for (int row = 0; row < kChunk; row += kRowsAtOnce) {
            copy_async((to ^ (row & 7) << 4) + row * Record<D>::kRow, from);
            from += kRowsAtOnce * stride;
        }
    } else {
#pragma unroll 1
        for (int row = 0; row < kChunk; row += kRowsAtOnce) {
            const bool inside = row + first_row < valid;
            copy_async((to ^ (row & 7) << 4) + row * Record<D>::kRow, inside ? from + row * stride : from,
                       inside ? 16 : 0);
        }
    }
}

// Start the copies of a chunk's inputs. Only `n_tiles` times 16 columns of v, from column 16 first_tile on.
template <int D>
MS_FN void load_inputs(u32 slot, u32 bases, const Args& args, int token, int valid, int first_tile, int n_tiles) {
    using R = Record<D>;
    load_rows<D>(slot + R::kQd, bases, args.q_stride.token, token, valid, 0, D / 8);
    load_rows<D>(slot + R::kKr, bases + 8, args.k_stride.token, token, valid, 0, D / 8);
    load_rows<D>(slot + R::kV, bases + 16, args.v_stride.token, token, valid, 2 * first_tile, 2 * n_tiles);
    load_rows<D>(slot + R::kG, bases + 24, args.g_stride.token, token, valid, 0, D / 8);
    commit_copies();
}

// Lane i gets the beta (a logit) of token i.
MS_FN float load_beta(const Args& args, const Sequence& sequence, int head, int token, int valid) {
    const int lane = threadIdx.x % 32;
    const u16* beta = rows_at(args, args.beta, args.beta_stride, sequence, head);
    return lane < valid ? float_of(beta[(token + lane) * args.beta_stride.token]) : 0;
}

MS_FN bool is_finite(float x) { return fabsf(x) <= 3.402823466e38f; }

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
            const float2 last =
                bad == 0 ? make_float2(0, 0) : load_two_floats(sums + (bad - 1) * R::kSumRow + 8 * i);
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

// What a lane names so that load_matrices gives 16 rows of a tile by its first 16 columns; exchanged with s << 5, by
// columns 16 s and on.
template <int D>
MS_FN u32 matrix_place(u32 tile) {
    const int lane = threadIdx.x % 32;
    return tile + Record<D>::piece(lane % 16, lane / 16);
}

// Where Kd's row begins, among the sums that are used up by then: of each 32 bytes of sums one half.
template <int D>
MS_FN u32 key_place(u32 slot, int row) {
    return slot + Record<D>::kSums + row * Record<D>::kSumRow + (row >> 2 & 1) * 16;
}

// Sums of squares of the rows r and r + 8: the diagonal of a product.
template <int D>
MS_FN void sum_squares(u32 tile, float& low, float& high) {
    const u32 place = matrix_place<D>(tile);
    float upper[4] = {}, lower[4] = {};
#pragma unroll
    for (int s = 0; s < D / 16; ++s) {
        u32 x[4];
        load_matrices(x, place ^ s << 5);
        mma(upper, x, x[0], x[2]);
        mma(lower, x, x[1], x[3]);
    }
    const int lane = threadIdx.x % 32, r = lane / 4, holder = 4 * r + r / 2;
    const float low_even = __shfl_sync(~0u, upper[0], holder), low_odd = __shfl_sync(~0u, upper[1], holder);
    const float high_even = __shfl_sync(~0u, lower[2], holder), high_odd = __shfl_sync(~0u, lower[3], holder);
    low = r % 2 ? low_odd : low_even;
    high = r % 2 ? high_odd : high_even;
}

// T' = (1 + L)^-1 diag(beta), by forward substitution in float: near-collinear keys leave no digits for less.
// l: the columns of L one after another, in shared memory. One column of T' per lane; T' as high and low bfloat16 goes
// behind l.
MS_FN void invert(u32 scratch, float beta, u32 (&high)[4], u32 (&low)[4]) {
    const int lane = threadIdx.x % 32, column = lane % 16;
    const u32 halves = scratch + kChunk * kChunk * 4;
    float x[kChunk];
#pragma unroll
    for (int row = 0; row < kChunk; ++row) x[row] = row == column ? 1 : 0;
    // As soon as a row is known it is subtracted from all rows below: no long chain of additions.
    float4 l[kChunk / 4], next[kChunk / 4];
#pragma unroll
    for (int i = 0; i < kChunk / 4; ++i) next[i] = load_floats(scratch + 16 * i);
#pragma unroll
    for (int j = 0; j < kChunk - 1; ++j) {
#pragma unroll
        for (int i = 0; i < kChunk / 4; ++i) {
            l[i] = next[i];
            if (4 * i + 3 > j + 1) next[i] = load_floats(scratch + (j + 1) * 4 * kChunk + 16 * i);
        }
#pragma unroll
        for (int row = j + 1; row < kChunk; ++row) {
            const float4& four = l[row / 4];
            const float factor = row % 4 == 0 ? four.x : row % 4 == 1 ? four.y : row % 4 == 2 ? four.z : four.w;
            x[row] = fmaf(-factor, x[j], x[row]);
        }
    }
#pragma unroll
    for (int row = 0; row < kChunk; ++row) {
        const float whole = x[row] * beta;
        const u32 rounded = pack(whole, 0);
        const u32 rest = pack(whole - low_of(rounded), 0);
        store_2(halves + (lane < 16 ? 0 : 512) + (row * kChunk + column) * 2, lane < 16 ? rounded : rest);
    }
    __syncwarp();
    const u32 place = halves + ((lane % 8 + (lane / 8 % 2) * 8) * kChunk + lane / 16 * 8) * 2;
    load_matrices(high, place);
    load_matrices(low, place + 512);
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

// One step of 16 columns of what make_record() reads, so that the next one is on its way while one is worked on.
struct StepInputs {
    u32 q[4], k[4];
    float2 sum[2][2];  // [columns c or c + 8][rows r or r + 8]
    float4 decay;      // of columns c, c + 1, c + 8, c + 9
};

template <int D>
struct StepPlaces {
    u32 matrices, sums, decay;

    MS_FN explicit StepPlaces(u32 slot) {
        const int lane = threadIdx.x % 32, r = lane / 4, c = 2 * (lane % 4);
        matrices = matrix_place<D>(slot);
        sums = slot + Record<D>::kSums + r * Record<D>::kSumRow + 4 * c;
        decay = slot + Record<D>::kDecay + 8 * c;
    }

    MS_FN void load(StepInputs& in, int s) const {
        load_matrices(in.k, (matrices ^ s << 5) + Record<D>::kKr);
        load_matrices(in.q, (matrices ^ s << 5) + Record<D>::kQd);
        in.decay = load_floats(decay + 64 * s);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int row = 0; row < 2; ++row)
                in.sum[half][row] = load_two_floats(sums + 8 * row * Record<D>::kSumRow + 64 * s + 32 * half);
        }
    }
};

// The whole record. The slot holds the inputs (load_inputs, load_beta). `between` is called when the state's
// side is left to do.
template <int D, class Between>
MS_FN void make_record(u32 slot, const Args& args, const Gate<D>& gate, float beta, int valid, int first_tile,
                       int n_tiles, Between between) {
    using R = Record<D>;
    constexpr int kSteps = D / 16;
    const int lane = threadIdx.x % 32, r = lane / 4, c = 2 * (lane % 4);
    float q_factor[2], k_factor[2];
    sum_squares<D>(slot + R::kKr, k_factor[0], k_factor[1]);
    sum_squares<D>(slot + R::kQd, q_factor[0], q_factor[1]);
    const bool has_sums = gate.activated   ? sum_decays<D, true, false>(slot, gate, valid)
                          : valid < kChunk ? sum_decays<D, false, false>(slot, gate, valid)
                                           : sum_decays<D, false, true>(slot, gate, valid);
    __syncwarp();
    // Not a number anywhere? Sums tell; very large keys can look like it.
    const bool suspect = !is_finite(k_factor[0]) || !is_finite(k_factor[1]) || !has_sums || beta != beta;
    int bad = kChunk;
    if (__any_sync(~0u, suspect)) {
        const int first = remove_bad_tokens<D>(slot, beta, valid);
        if (first < valid) {
            bad = valid = first;
            sum_squares<D>(slot + R::kKr, k_factor[0], k_factor[1]);
        }
    }
    beta = lane < valid ? reciprocal_of(1 + exp2_of(-kLog2E * beta)) : 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const bool normalize = args.flags & kNormalize;
        q_factor[i] = args.scale * (normalize ? rsqrt_of(q_factor[i] + 1e-6f) : 1);
        k_factor[i] = normalize ? rsqrt_of(k_factor[i] + 1e-6f) : 1;
    }
    __syncwarp();

    // Qd and Kr in place of q and k, Kd in place of the sums; with Ki the products L and M.
    float l[2][4] = {}, m[2][4] = {};
    const u32 kd_places = key_place<D>(slot, r) + 2 * c;
    const u32 places = slot + R::piece(r, 0) + 2 * c;  // of columns c, c + 1 of row r
    const StepPlaces<D> inputs(slot);
    StepInputs in, next;
    inputs.load(next, 0);
#pragma unroll 2
    for (int s = 0; s < kSteps; ++s) {
        in = next;
        inputs.load(next, min(s + 1, kSteps - 1));  // the last time for nothing
        u32 kd[4], ki[4];
        __syncwarp();
#pragma unroll
        for (int half = 0; half < 2; ++half) {  // columns c and c + 8
#pragma unroll
            for (int row = 0; row < 2; ++row) {  // rows r and r + 8
                const int i = row + 2 * half;
                const float2 sum = in.sum[half][row];
                const float down_x = exp2_of(sum.x), down_y = exp2_of(sum.y);
                const float key_x = low_of(in.k[i]) * k_factor[row], key_y = high_of(in.k[i]) * k_factor[row];
                const float up_x = key_x * exp2_of(-sum.x), up_y = key_y * exp2_of(-sum.y);
                const u32 place = (places ^ (s << 5 | half << 4)) + 8 * row * R::kRow;
                in.q[i] = pack(low_of(in.q[i]) * (q_factor[row] * down_x), high_of(in.q[i]) * (q_factor[row] * down_y));
                kd[i] = pack(key_x * down_x, key_y * down_y);
                ki[i] = pack(up_x, up_y);
                store_4(place + R::kQd, in.q[i]);
                store_4(kd_places + 8 * row * R::kSumRow + 64 * s + 32 * half, kd[i]);
                store_4(place + R::kKr, half == 0 ? pack(up_x * in.decay.x, up_y * in.decay.y)
                                                  : pack(up_x * in.decay.z, up_y * in.decay.w));
            }
        }
        mma(l[0], kd, ki[0], ki[2]);
        mma(l[1], kd, ki[1], ki[3]);
        mma(m[0], in.q, ki[0], ki[2]);
        mma(m[1], in.q, ki[1], ki[3]);
    }
    __syncwarp();
    if (bad < kChunk) poison<D>(slot, bad);
    u32 kd[kSteps][4];  // transposed: tokens by the columns of a step
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
        load_matrices_transposed(kd[s], key_place<D>(slot, lane % 16) + lane / 16 * 32 + 64 * s);
    __syncwarp();

    // L goes where W will be.
    const float beta_low = __shfl_sync(~0u, beta, r), beta_high = __shfl_sync(~0u, beta, r + 8);
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
        const int column = 8 * tile + c;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            store_4(slot + R::kW + ((column + i % 2) * kChunk + r + 8 * (i / 2)) * 4,
                    __float_as_uint(l[tile][i] * (i < 2 ? beta_low : beta_high)));
        m[tile][0] = column <= r ? m[tile][0] : 0;
        m[tile][1] = column + 1 <= r ? m[tile][1] : 0;
        m[tile][2] = column <= r + 8 ? m[tile][2] : 0;
        m[tile][3] = column + 1 <= r + 8 ? m[tile][3] : 0;
    }
    u32 m_high[4], m_low[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float x = m[i % 2][i / 2 * 2], y = m[i % 2][i / 2 * 2 + 1];
        m_high[i] = pack(x, y);
        m_low[i] = pack(x - low_of(m_high[i]), y - high_of(m_high[i]));
    }
    store_16(slot + R::kM + lane * 16, m_high[0], m_high[1], m_high[2], m_high[3]);
    store_16(slot + R::kMLow + lane * 16, m_low[0], m_low[1], m_low[2], m_low[3]);
    __syncwarp();
    u32 high[4], low[4];
    invert(slot + R::kW, __shfl_sync(~0u, beta, lane % 16), high, low);
    __syncwarp();

    // -W = -T' Kd.
    u32 minus_high[4], minus_low[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        minus_high[i] = high[i] ^ 0x80008000u;
        minus_low[i] = low[i] ^ 0x80008000u;
    }
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
        u32 w[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float sum[4];
            mma(sum, minus_high, kd[s][2 * half], kd[s][2 * half + 1], 0, 0, 0, 0);
            mma(sum, minus_low, kd[s][2 * half], kd[s][2 * half + 1]);
            w[half] = pack(sum[0], sum[1]);
            w[2 + half] = pack(sum[2], sum[3]);
        }
        store_16(slot + R::kW + (s * 32 + lane) * 16, w[0], w[1], w[2], w[3]);
    }

    between();

    // U0, transposed: 16 rows of the state at a time. It takes the place of v.
    u32 v[kSteps][4];
    const u32 v_places = slot + R::kV + R::piece(lane % 8 + lane / 16 * 8, lane / 8 % 2);
    u32 v_sum = 0;
#pragma unroll
    for (int tile = 0; tile < kSteps; ++tile)
        if (tile < n_tiles) {
            load_matrices_transposed(v[tile], v_places ^ (first_tile + tile) << 5);
#pragma unroll
            for (int i = 0; i < 4; ++i) v_sum = add_pairs(v[tile][i], v_sum);
        }
    if (__any_sync(~0u, !is_finite(low_of(v_sum)) || !is_finite(high_of(v_sum)))) {
        bad = remove_bad_values(v, n_tiles, valid);
        if (bad < valid) poison<D>(slot, bad);
    }
    __syncwarp();
#pragma unroll
    for (int tile = 0; tile < kSteps; ++tile)
        if (tile < n_tiles) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float sum[4];
                mma(sum, v[tile], high[half], high[2 + half], 0, 0, 0, 0);
                mma(sum, v[tile], low[half], low[2 + half]);
                store_floats(slot + R::kU0 + ((2 * tile + half) * 32 + lane) * 16, sum[0], sum[1], sum[2], sum[3]);
            }
        }
    __syncwarp();
}

}  // namespace kda

MS_END_NAMESPACE
