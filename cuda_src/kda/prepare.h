// One warp makes a record of 16 tokens in place of their inputs. Registers hold matrices as the m16n8k16 instruction
// wants them: with r = lane / 4 and c = 2 (lane % 4), register 0 has row r and columns c, c + 1, register 1 row r + 8,
// registers 2 and 3 the same rows and columns c + 8, c + 9.
#pragma once

#include "gate.h"
#include "inputs.h"
#include "not_finite.h"

MS_BEGIN_NAMESPACE

namespace kda {

// What a lane names so that load_matrices gives 16 rows of a tile by its first 16 columns; exchanged with s << 5, by
// columns 16 s and on.
template <int D>
MS_FN u32 matrix_place(u32 tile) {
    const int lane = threadIdx.x % 32;
    return tile + Record<D>::piece(lane % 16, lane / 16);
}

// The same in the order of a second factor: registers 0 and 1 are of rows 0 to 7, 2 and 3 of rows 8 to 15.
template <int D>
MS_FN u32 factor_place(u32 tile) {
    const int lane = threadIdx.x % 32;
    return tile + Record<D>::piece(lane % 8 + lane / 16 * 8, lane / 8 % 2);
}

// The same for Kd, among the sums that are used up by then: of each 32 bytes of sums one half, of the next 16 columns
// 64 bytes on.
template <int D>
MS_FN u32 key_matrix_place(u32 slot) {
    const int lane = threadIdx.x % 32, row = lane % 16;
    return slot + Record<D>::kSums + row * Record<D>::kSumRow + (row >> 2 & 1) * 16 + lane / 16 * 32;
}

// What make_record() needs of the rows r and r + 8 as they came: k k, q q and q k.
struct RowProducts {
    float kk[2], qq[2], qk[2];
};

// The diagonal of eight rows by eight columns of a product, of which a lane has x and y: to the lanes of its rows.
MS_FN float take_diagonal(float x, float y) {
    const int r = threadIdx.x % 32 / 4, holder = 4 * r + r / 2;
    const float even = __shfl_sync(~0u, x, holder), odd = __shfl_sync(~0u, y, holder);
    return r % 2 ? odd : even;
}

// Eight rows of k and of q together are a first factor: with those of k their products are k k and q k, with those of q
// k q and q q.
template <int D>
MS_FN RowProducts multiply_rows(u32 slot) {
    using R = Record<D>;
    const int lane = threadIdx.x % 32;
    const u32 both = slot + (lane / 8 % 2 ? R::kQd : R::kKr) + R::piece(lane % 8, lane / 16);
    const u32 apart = slot + (lane / 16 ? R::kQd : R::kKr) + R::piece(lane % 8, lane / 8 % 2);
    float with_k[2][4] = {}, with_q[2][4] = {};
#pragma unroll 2
    for (int s = 0; s < D / 16; ++s) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            u32 rows[4], factors[4];
            load_matrices(rows, (both ^ s << 5) + 8 * half * R::kRow);
            load_matrices(factors, (apart ^ s << 5) + 8 * half * R::kRow);
            mma(with_k[half], rows, factors[0], factors[1]);
            mma(with_q[half], rows, factors[2], factors[3]);
        }
    }
    RowProducts result;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        result.kk[half] = take_diagonal(with_k[half][0], with_k[half][1]);
        result.qk[half] = take_diagonal(with_k[half][2], with_k[half][3]);
        result.qq[half] = take_diagonal(with_q[half][2], with_q[half][3]);
    }
    return result;
}

// T' as two bfloat16, in the order of a first and of a second factor: to bring one into the other costs more moves than
// loads.
struct Inverse {
    u32 high[4], low[4], second_high[4], second_low[4];
};

// T' = (1 + L)^-1 diag(beta), by forward substitution in float: near-collinear keys leave no digits for less.
// l: the columns of L one after another, in shared memory. One column of T' per lane; T' as high and low bfloat16 goes
// behind l.
MS_FN void invert(u32 scratch, float beta, Inverse& inverse) {
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
    const u32 place = halves + (lane % 16 * kChunk + lane / 16 * 8) * 2;
    load_matrices(inverse.high, place);
    load_matrices(inverse.low, place + 512);
    const u32 second = halves + ((lane % 8 + lane / 16 * 8) * kChunk + lane / 8 % 2 * 8) * 2;
    load_matrices(inverse.second_high, second);
    load_matrices(inverse.second_low, second + 512);
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

// Qd and Kr in place of q and k, Kd in place of the sums; with Ki the products l = Kd Ki^T and m = Qd Ki^T.
// factors: of the rows r and r + 8.
template <int D>
MS_FN void make_products(u32 slot, const float (&q_factor)[2], const float (&k_factor)[2], float (&l)[2][4],
                         float (&m)[2][4]) {
    using R = Record<D>;
    constexpr int kSteps = D / 16;
    const u32 places = matrix_place<D>(slot), kd_places = key_matrix_place<D>(slot);
    const StepPlaces<D> inputs(slot);
    StepInputs in, next;
    inputs.load(next, 0);
#pragma unroll 2
    for (int s = 0; s < kSteps; ++s) {
        in = next;
        inputs.load(next, min(s + 1, kSteps - 1));  // the last time for nothing
        u32 kd[4], ki[4], kr[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {  // columns c and c + 8
#pragma unroll
            for (int row = 0; row < 2; ++row) {  // rows r and r + 8
                const int i = row + 2 * half;
                const float2 sum = in.sum[half][row];
                const float down_x = exp2_of(sum.x), down_y = exp2_of(sum.y);
                const float key_x = low_of(in.k[i]) * k_factor[row], key_y = high_of(in.k[i]) * k_factor[row];
                const float up_x = key_x * exp2_of(-sum.x), up_y = key_y * exp2_of(-sum.y);
                in.q[i] = pack(low_of(in.q[i]) * (q_factor[row] * down_x), high_of(in.q[i]) * (q_factor[row] * down_y));
                kd[i] = pack(key_x * down_x, key_y * down_y);
                ki[i] = pack(up_x, up_y);
                kr[i] =
                    half == 0 ? pack(up_x * in.decay.x, up_y * in.decay.y) : pack(up_x * in.decay.z, up_y * in.decay.w);
            }
        }
        __syncwarp();
        store_matrices((places ^ s << 5) + R::kQd, in.q[0], in.q[1], in.q[2], in.q[3]);
        store_matrices(kd_places + 64 * s, kd[0], kd[1], kd[2], kd[3]);
        store_matrices((places ^ s << 5) + R::kKr, kr[0], kr[1], kr[2], kr[3]);
        mma(l[0], kd, ki[0], ki[2]);
        mma(l[1], kd, ki[1], ki[3]);
        mma(m[0], in.q, ki[0], ki[2]);
        mma(m[1], in.q, ki[1], ki[3]);
    }
    __syncwarp();
}

// diag(beta) l to where W will be, by columns; the lower triangle of m, with what rounding takes from it, to the
// record.
template <int D>
MS_FN void store_products(u32 slot, float beta, const float (&l)[2][4], float (&m)[2][4]) {
    using R = Record<D>;
    const int lane = threadIdx.x % 32, r = lane / 4, c = 2 * (lane % 4);
    const float beta_low = __shfl_sync(~0u, beta, r), beta_high = __shfl_sync(~0u, beta, r + 8);
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
        const int column = 8 * tile + c;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = r + 8 * (i / 2);
            store_4(slot + R::kW + ((column + i % 2) * kChunk + row) * 4,
                    __float_as_uint(l[tile][i] * (i < 2 ? beta_low : beta_high)));
            m[tile][i] = column + i % 2 < row ? m[tile][i] : 0;
        }
    }
    store_16(slot + R::kM + lane * 16, pack(m[0][0], m[0][1]), pack(m[1][0], m[1][1]), pack(m[0][2], m[0][3]),
             pack(m[1][2], m[1][3]));
    __syncwarp();
}

// -W = -T' Kd; kd: transposed, tokens by the columns of a step.
template <int D>
MS_FN void make_w(u32 slot, const u32 (&kd)[D / 16][4], const Inverse& inverse) {
    const int lane = threadIdx.x % 32;
    u32 minus_high[4], minus_low[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        minus_high[i] = inverse.high[i] ^ 0x80008000u;
        minus_low[i] = inverse.low[i] ^ 0x80008000u;
    }
#pragma unroll
    for (int s = 0; s < D / 16; ++s) {
        u32 w[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float sum[4];
            mma(sum, minus_high, kd[s][2 * half], kd[s][2 * half + 1], 0, 0, 0, 0);
            mma(sum, minus_low, kd[s][2 * half], kd[s][2 * half + 1]);
            w[half] = pack(sum[0], sum[1]);
            w[2 + half] = pack(sum[2], sum[3]);
        }
        store_16(slot + Record<D>::kW + (s * 32 + lane) * 16, w[0], w[1], w[2], w[3]);
    }
}

// U0 = T' V, transposed: 16 rows of the state at a time. It takes the place of v.
template <int D>
MS_FN void make_u0(u32 slot, const Inverse& inverse, int valid, int first_tile, int n_tiles) {
    using R = Record<D>;
    constexpr int kTiles = D / kRowsPerWarp;
    const int lane = threadIdx.x % 32;
    const u32 places = slot + R::kV + R::piece(lane % 8 + lane / 16 * 8, lane / 8 % 2);
    u32 v[kTiles][4];
    u32 sum_of_v = 0;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
        if (tile < n_tiles) {
            load_matrices_transposed(v[tile], places ^ (first_tile + tile) << 5);
#pragma unroll
            for (int i = 0; i < 4; ++i) sum_of_v = add_pairs(v[tile][i], sum_of_v);
        }
    if (__any_sync(~0u, !is_finite(low_of(sum_of_v)) || !is_finite(high_of(sum_of_v)))) {
        const int bad = remove_bad_values(v, n_tiles, valid);
        if (bad < valid) poison<D>(slot, bad);
    }
    __syncwarp();
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
        if (tile < n_tiles) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float sum[4];
                mma(sum, v[tile], inverse.second_high[2 * half], inverse.second_high[2 * half + 1], 0, 0, 0, 0);
                mma(sum, v[tile], inverse.second_low[2 * half], inverse.second_low[2 * half + 1]);
                store_floats(slot + R::kU0 + ((2 * tile + half) * 32 + lane) * 16, sum[0], sum[1], sum[2], sum[3]);
            }
        }
    __syncwarp();
}

// The whole record. The slot holds the inputs (load_inputs, load_beta). `between` is called when the state's side is
// left to do.
template <int D, class Between>
MS_FN void make_record(u32 slot, const Args& args, const Gate<D>& gate, float beta, int valid, int first_tile,
                       int n_tiles, Between between) {
    using R = Record<D>;
    const int lane = threadIdx.x % 32;
    RowProducts rows = multiply_rows<D>(slot);
    const bool has_sums = gate.activated   ? sum_decays<D, true, false>(slot, gate, valid)
                          : valid < kChunk ? sum_decays<D, false, false>(slot, gate, valid)
                                           : sum_decays<D, false, true>(slot, gate, valid);
    __syncwarp();
    // Not a number anywhere? Sums tell; very large keys can look like it.
    const bool suspect = !is_finite(rows.kk[0]) || !is_finite(rows.kk[1]) || !has_sums || beta != beta;
    int bad = kChunk;
    if (__any_sync(~0u, suspect)) {
        const int first = remove_bad_tokens<D>(slot, beta, valid);
        if (first < valid) {
            bad = valid = first;
            rows = multiply_rows<D>(slot);
        }
    }
    beta = lane < valid ? reciprocal_of(1 + exp2_of(-kLog2E * beta)) : 0;
    float q_factor[2], k_factor[2], diagonal[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const bool normalize = args.flags & kNormalize;
        q_factor[i] = args.scale * (normalize ? rsqrt_of(rows.qq[i] + 1e-6f) : 1);
        k_factor[i] = normalize ? rsqrt_of(rows.kk[i] + 1e-6f) : 1;
        diagonal[i] = q_factor[i] * k_factor[i] * rows.qk[i];
    }

    float l[2][4] = {}, m[2][4] = {};
    make_products<D>(slot, q_factor, k_factor, l, m);
    if (bad < kChunk) poison<D>(slot, bad);
    u32 kd[D / 16][4];
#pragma unroll
    for (int s = 0; s < D / 16; ++s) load_matrices_transposed(kd[s], key_matrix_place<D>(slot) + 64 * s);
    __syncwarp();
    if (lane % 4 == 0) {
        store_4(slot + R::kDiagonal + lane, __float_as_uint(diagonal[0]));
        store_4(slot + R::kDiagonal + 32 + lane, __float_as_uint(diagonal[1]));
    }
    store_products<D>(slot, beta, l, m);
    Inverse inverse;
    invert(slot + R::kW, __shfl_sync(~0u, beta, lane % 16), inverse);
    __syncwarp();
    make_w<D>(slot, kd, inverse);
    between();
    make_u0<D>(slot, inverse, valid, first_tile, n_tiles);
}

}  // namespace kda

MS_END_NAMESPACE
