// How the inputs of 16 tokens get into a slot.
#pragma once

#include "ptx.h"
#include "sequence.h"

MS_BEGIN_NAMESPACE

namespace kda {

// Where the rows of q, k, v and g of one head of a sequence begin, for load_inputs(): into shared memory of the warp.
MS_FN void find_inputs(u32 bases, const Args& args, const Sequence& sequence, int head) {
    const int i = threadIdx.x % 32;
    if (i < 4) {
        const u16* data = i == 0 ? args.q : i == 1 ? args.k : i == 2 ? args.v : args.g;
        const Strides& stride = i == 0   ? args.q_stride
                                : i == 1 ? args.k_stride
                                : i == 2 ? args.v_stride
                                         : args.g_stride;
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

}  // namespace kda

MS_END_NAMESPACE
