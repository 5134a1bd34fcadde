// The serial part: each warp keeps 16 rows of a state in registers and takes record after record from shared memory.
#pragma once

#include "plan.h"
#include "prepare.h"

MS_BEGIN_NAMESPACE

namespace kda {

// A block's shared memory: the ring of records, the warps' output tiles, barriers,
// the producers' addresses.
template <int D>
struct Ring {
    u32 slots, staging, barriers, bases;
    int n_slots, n_consumers;

    MS_FN Ring(u32 base, const Args& args, int consumers) {
        n_slots = args.ring_slots;
        slots = base;
        staging = slots + n_slots * Record<D>::kBytes;
        barriers = staging + consumers * Record<D>::kStaging;
        bases = barriers + 2 * kMaxRingSlots * 8;
        n_consumers = consumers;
    }

    MS_FN void init() const {
        for (int i = 0; i < n_slots; ++i) {
            barrier_init(full(i), 1);
            barrier_init(empty(i), n_consumers);
        }
    }

    MS_FN u32 slot(int i) const { return slots + i * Record<D>::kBytes; }
    MS_FN u32 full(int i) const { return barriers + 8 * i; }
    MS_FN u32 empty(int i) const { return barriers + 8 * (kMaxRingSlots + i); }
};

// A place in the ring that moves on with the chunks.
struct Cursor {
    int slot;
    u32 round;  // parity

    MS_FN void advance(int by, int n_slots) {
        slot += by;
        while (slot >= n_slots) {
            slot -= n_slots;
            round ^= 1;
        }
    }
};

// 16 rows of a state: tile t has columns 8 t to 8 t + 7, in the layout of the instruction's result.
template <int D>
struct StateRows {
    float s[D / 8][4];

    // Element of the first of the four values of tile 0.
    MS_FN static i64 place(i64 index, int head, const Args& args, int row_tile) {
        const int lane = threadIdx.x % 32;
        return ((index * args.value_heads + head) * D + kRowsPerWarp * row_tile + lane / 4) * D + 2 * (lane % 4);
    }

    MS_FN void load(const void* states, bool is_bf16, i64 at) {
#pragma unroll
        for (int t = 0; t < D / 8; ++t) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const i64 i = at + half * 8 * D + 8 * t;
                if (is_bf16) {
                    const u32 two = *reinterpret_cast<const u32*>(static_cast<const u16*>(states) + i);
                    s[t][2 * half] = low_of(two);
                    s[t][2 * half + 1] = high_of(two);
                } else {
                    const float2 two = *reinterpret_cast<const float2*>(static_cast<const float*>(states) + i);
                    s[t][2 * half] = two.x;
                    s[t][2 * half + 1] = two.y;
                }
            }
        }
    }

    MS_FN void store(void* states, bool is_bf16, i64 at) const {
#pragma unroll
        for (int t = 0; t < D / 8; ++t) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const i64 i = at + half * 8 * D + 8 * t;
                if (is_bf16)
                    *reinterpret_cast<u32*>(static_cast<u16*>(states) + i) = pack(s[t][2 * half], s[t][2 * half + 1]);
                else
                    *reinterpret_cast<float2*>(static_cast<float*>(states) + i) =
                        make_float2(s[t][2 * half], s[t][2 * half + 1]);
            }
        }
    }

    MS_FN void fill(float x) {
#pragma unroll
        for (int t = 0; t < D / 8; ++t) s[t][0] = s[t][1] = s[t][2] = s[t][3] = x;
    }

    // Put one record behind the state; o: its output, transposed, 16 rows by tokens. Loads run ahead of their use.
    MS_FN void step(u32 slot, int local_tile, float (&o)[2][4]) {
        using R = Record<D>;
        constexpr int kSteps = D / 16;
        const int lane = threadIdx.x % 32;
        const u32 matrices = matrix_place<D>(slot);
        const u32 w_piece = slot + R::kW + 16 * lane;
        float u[2][4];
        uint4 w = load_16(w_piece);
        u32 qd[4];
        load_matrices(qd, matrices + R::kQd);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float4 u0 = load_floats(slot + R::kU0 + ((2 * local_tile + half) * 32 + lane) * 16);
            u[half][0] = u0.x;
            u[half][1] = u0.y;
            u[half][2] = u0.z;
            u[half][3] = u0.w;
        }
#pragma unroll
        for (int k = 0; k < kSteps; ++k) {
            const uint4 w_now = w;
            const u32 qd_now[4] = {qd[0], qd[1], qd[2], qd[3]};
            if (k + 1 < kSteps) {
                w = load_16(w_piece + 512 * (k + 1));
                load_matrices(qd, (matrices ^ (k + 1) << 5) + R::kQd);
            }
            const u32 a[4] = {pack(s[2 * k][0], s[2 * k][1]), pack(s[2 * k][2], s[2 * k][3]),
                              pack(s[2 * k + 1][0], s[2 * k + 1][1]), pack(s[2 * k + 1][2], s[2 * k + 1][3])};
            mma(u[0], a, w_now.x, w_now.y);
            mma(u[1], a, w_now.z, w_now.w);
            if (k == 0) {
                mma(o[0], a, qd_now[0], qd_now[2], 0, 0, 0, 0);
                mma(o[1], a, qd_now[1], qd_now[3], 0, 0, 0, 0);
            } else {
                mma(o[0], a, qd_now[0], qd_now[2]);
                mma(o[1], a, qd_now[1], qd_now[3]);
            }
        }
        const uint4 m = load_16(slot + R::kM + lane * 16);
        const u32 decay_place = slot + R::kDecay + 16 * (lane % 4);
        u32 kr[4];
        load_matrices_transposed(kr, matrices + R::kKr);
        // The diagonal of M U apart, and U not rounded: nothing is more of the output.
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float2 d = load_two_floats(slot + R::kDiagonal + (8 * half + 2 * (lane % 4)) * 4);
            o[half][0] = fmaf(d.x, u[half][0], o[half][0]);
            o[half][1] = fmaf(d.y, u[half][1], o[half][1]);
            o[half][2] = fmaf(d.x, u[half][2], o[half][2]);
            o[half][3] = fmaf(d.y, u[half][3], o[half][3]);
        }
        const u32 ua[4] = {pack(u[0][0], u[0][1]), pack(u[0][2], u[0][3]), pack(u[1][0], u[1][1]),
                           pack(u[1][2], u[1][3])};
        mma(o[0], ua, m.x, m.y);
        mma(o[1], ua, m.z, m.w);
#pragma unroll
        for (int k = 0; k < kSteps; ++k) {
            const u32 kr_now[4] = {kr[0], kr[1], kr[2], kr[3]};
            const float4 decay = load_floats(decay_place + 64 * k);
            if (k + 1 < kSteps) load_matrices_transposed(kr, (matrices ^ (k + 1) << 5) + R::kKr);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float (&tile)[4] = s[2 * k + half];
                const float even = half == 0 ? decay.x : decay.z, odd = half == 0 ? decay.y : decay.w;
                tile[0] *= even;
                tile[1] *= odd;
                tile[2] *= even;
                tile[3] *= odd;
                mma(tile, ua, kr_now[2 * half], kr_now[2 * half + 1]);
            }
        }
    }
};

// 16 tokens by 16 columns of the output, by way of the warp's own piece of shared memory.
MS_FN void store_output(u32 staging, const float (&o)[2][4], u16* out, int stride, int valid) {
    // Halves of a token's 32 bytes change sides after every 4 tokens: no two of 8 tokens meet in a bank.
    const int lane = threadIdx.x % 32;
    const int side = lane / 16 * 16;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const u32 place = staging + (8 * half + lane / 4) * 32 + lane % 4 * 4;
        store_4(place + side, transposed(pack(o[half][0], o[half][1])));
        store_4(place + (16 - side), transposed(pack(o[half][2], o[half][3])));
    }
    __syncwarp();
    const uint4 piece = load_16(staging + lane / 2 * 32 + ((lane ^ lane / 8) & 1) * 16);
    if (lane / 2 < valid) *reinterpret_cast<uint4*>(out + static_cast<i64>(lane / 2) * stride + lane % 2 * 8) = piece;
    __syncwarp();
}

// What the scanning warp number `warp` of a block does; the block has rows 16 first_tile on.
template <int D>
MS_FN void scan(const Args& args, const Ring<D>& ring, const Sequence& sequence, int head, int first_tile, int warp) {
    using R = Record<D>;
    const int row_tile = first_tile + warp;
    const i64 place = state_place(args, sequence.n);
    const bool is_bf16 = args.flags & kStateBf16;
    StateRows<D> state;
    if (args.initial_state != nullptr && place >= 0)
        state.load(args.initial_state, is_bf16, state.place(place, head, args, row_tile));
    else
        state.fill(0);
    u16* out = out_at(args, sequence, head, D) + kRowsPerWarp * row_tile;
    const Snapshots snapshots(args, sequence.n);
    Cursor at = {0, 0};
    int done = 0;
    while (done < sequence.length) {
        // The inner loop knows nothing of snapshots: its registers are full.
        const int next = snapshots.next_token(args, done);
        const int stop = next == 0 || next > sequence.length ? sequence.length : next;
        while (done < stop) {
            float o[2][4];
            barrier_wait(ring.full(at.slot), at.round);
            state.step(ring.slot(at.slot), warp, o);
            __syncwarp();
            if (threadIdx.x % 32 == 0) barrier_arrive(ring.empty(at.slot));
            at.advance(1, ring.n_slots);
            store_output(ring.staging + warp * R::kStaging, o, out, args.value_heads * D, sequence.length - done);
            out += static_cast<i64>(kChunk) * D * args.value_heads;
            done += kChunk;
        }
        if (stop == next)
            for (int i = snapshots.first; i < snapshots.end; ++i)
                if (snapshots.token(args, i) == done)
                    state.store(args.snapshots, args.flags & kSnapshotBf16, state.place(i, head, args, row_tile));
    }
    if (args.final_state != nullptr && place >= 0)
        state.store(args.final_state, is_bf16, state.place(place, head, args, row_tile));
}

}  // namespace kda

MS_END_NAMESPACE
