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

    MS_FN Ring(u32 base, const Args& args, int consumers, int tiles) {
        n_slots = args.ring_slots;
        slots = base;
        staging = slots + n_slots * Record<D>::kBytes;
        barriers = staging + tiles * Record<D>::kStaging;
        bases = barriers + 2 * kMaxRingSlots * 8;
        n_consumers = consumers;
    }

    // Every lane arrives for itself, a warp at a place that is full and all consumers at one that is empty: an arrival
    // of one lane behind __syncwarp would do, but racecheck (13.0) does not see that it is ordered with the others'
    // work.
    MS_FN void init() const {
        for (int i = 0; i < n_slots; ++i) {
            barrier_init(full(i), 32);
            barrier_init(empty(i), 32 * n_consumers);
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

// 16 kTiles rows of a state: s[i][t] has 16 of them and columns 8 t to 8 t + 7, in the layout of the instruction's
// result.
template <int D, int kTiles>
struct StateRows {
    float s[kTiles][D / 8][4];

    // Element of the first of the four values of tile 0.
    MS_FN static i64 place(i64 index, int head, const Args& args, int row_tile) {
        const int lane = threadIdx.x % 32;
        return ((index * args.value_heads + head) * D + kRowsPerWarp * row_tile + lane / 4) * D + 2 * (lane % 4);
    }

    // Calls with (values, element) of each pair of neighbours.
    template <class F>
    MS_FN void each_pair(i64 at, F f) {
#pragma unroll
        for (int i = 0; i < kTiles; ++i) {
#pragma unroll
            for (int t = 0; t < D / 8; ++t) {
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    f(s[i][t][2 * half], s[i][t][2 * half + 1], at + (2 * i + half) * 8 * D + 8 * t);
            }
        }
    }

    MS_FN void load(const void* states, bool is_bf16, i64 at) {
        if (is_bf16) {
            each_pair(at, [&](float& x, float& y, i64 i) {
                const u32 two = *reinterpret_cast<const u32*>(static_cast<const u16*>(states) + i);
                x = low_of(two);
                y = high_of(two);
            });
        } else {
            each_pair(at, [&](float& x, float& y, i64 i) {
                const float2 two = *reinterpret_cast<const float2*>(static_cast<const float*>(states) + i);
                x = two.x;
                y = two.y;
            });
        }
    }

    MS_FN void store(void* states, bool is_bf16, i64 at) {
        if (is_bf16)
            each_pair(at, [&](float x, float y, i64 i) {
                *reinterpret_cast<u32*>(static_cast<u16*>(states) + i) = pack(x, y);
            });
        else
            each_pair(at, [&](float x, float y, i64 i) {
                *reinterpret_cast<float2*>(static_cast<float*>(states) + i) = make_float2(x, y);
            });
    }

    MS_FN void fill(float x) {
        each_pair(0, [&](float& a, float& b, i64) { a = b = x; });
    }

    // Put one record behind the state; o: its output, transposed, 16 rows by tokens. Loads run ahead of their use.
    MS_FN void step(u32 slot, int local_tile, float (&o)[kTiles][2][4]) {
        using R = Record<D>;
        constexpr int kSteps = D / 16;
        const int lane = threadIdx.x % 32;
        const u32 matrices = matrix_place<D>(slot);
        const u32 w_piece = slot + R::kW + 16 * lane;
        float u[kTiles][2][4];
        uint4 w = load_16(w_piece);
        u32 qd[4];
        const u32 factors = factor_place<D>(slot) + R::kQd;
        load_matrices(qd, factors);
#pragma unroll
        for (int i = 0; i < kTiles; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float4 u0 = load_floats(slot + R::kU0 + ((2 * (local_tile + i) + half) * 32 + lane) * 16);
                u[i][half][0] = u0.x;
                u[i][half][1] = u0.y;
                u[i][half][2] = u0.z;
                u[i][half][3] = u0.w;
            }
        }
#pragma unroll
        for (int k = 0; k < kSteps; ++k) {
            const uint4 w_now = w;
            const u32 qd_now[4] = {qd[0], qd[1], qd[2], qd[3]};
            if (k + 1 < kSteps) {
                w = load_16(w_piece + 512 * (k + 1));
                load_matrices(qd, factors ^ (k + 1) << 5);
            }
#pragma unroll
            for (int i = 0; i < kTiles; ++i) {
                const float (&x)[4] = s[i][2 * k];
                const float (&y)[4] = s[i][2 * k + 1];
                const u32 a[4] = {pack(x[0], x[1]), pack(x[2], x[3]), pack(y[0], y[1]), pack(y[2], y[3])};
                mma(u[i][0], a, w_now.x, w_now.y);
                mma(u[i][1], a, w_now.z, w_now.w);
                if (k == 0) {
                    mma(o[i][0], a, qd_now[0], qd_now[1], 0, 0, 0, 0);
                    mma(o[i][1], a, qd_now[2], qd_now[3], 0, 0, 0, 0);
                } else {
                    mma(o[i][0], a, qd_now[0], qd_now[1]);
                    mma(o[i][1], a, qd_now[2], qd_now[3]);
                }
            }
        }
        const uint4 m = load_16(slot + R::kM + lane * 16);
        const u32 decay_place = slot + R::kDecay + 16 * (lane % 4);
        u32 kr[4];
        load_matrices_transposed(kr, matrices + R::kKr);
        u32 ua[kTiles][4];
        const float2 d[2] = {load_two_floats(slot + R::kDiagonal + 8 * (lane % 4)),
                             load_two_floats(slot + R::kDiagonal + 32 + 8 * (lane % 4))};
#pragma unroll
        for (int i = 0; i < kTiles; ++i) {
            // The diagonal of M U apart, and U not rounded: nothing is more of the output.
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                o[i][half][0] = fmaf(d[half].x, u[i][half][0], o[i][half][0]);
                o[i][half][1] = fmaf(d[half].y, u[i][half][1], o[i][half][1]);
                o[i][half][2] = fmaf(d[half].x, u[i][half][2], o[i][half][2]);
                o[i][half][3] = fmaf(d[half].y, u[i][half][3], o[i][half][3]);
                ua[i][2 * half] = pack(u[i][half][0], u[i][half][1]);
                ua[i][2 * half + 1] = pack(u[i][half][2], u[i][half][3]);
            }
            mma(o[i][0], ua[i], m.x, m.y);
            mma(o[i][1], ua[i], m.z, m.w);
        }
#pragma unroll
        for (int k = 0; k < kSteps; ++k) {
            const u32 kr_now[4] = {kr[0], kr[1], kr[2], kr[3]};
            const float4 decay = load_floats(decay_place + 64 * k);
            if (k + 1 < kSteps) load_matrices_transposed(kr, (matrices ^ (k + 1) << 5) + R::kKr);
#pragma unroll
            for (int i = 0; i < kTiles; ++i) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    float (&tile)[4] = s[i][2 * k + half];
                    const float even = half == 0 ? decay.x : decay.z, odd = half == 0 ? decay.y : decay.w;
                    tile[0] *= even;
                    tile[1] *= odd;
                    tile[2] *= even;
                    tile[3] *= odd;
                    mma(tile, ua[i], kr_now[2 * half], kr_now[2 * half + 1]);
                }
            }
        }
    }
};

// 16 tokens by 16 kTiles columns of the output, by way of the warp's own piece of shared memory.
template <int kTiles>
MS_FN void store_output(u32 staging, const float (&o)[kTiles][2][4], u16* out, int stride, int valid) {
    constexpr int kUnits = 2 * kTiles;  // pieces of 16 bytes of a token; they change places, no two of 8 meet in a bank
    const int lane = threadIdx.x % 32;
    const auto place = [&](int token, int unit) {
        return staging + (token * kUnits + (unit ^ token * kTiles / 4 % kUnits)) * 16;
    };
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
        store_matrices_transposed(place(lane % 8 + lane / 16 * 8, 2 * i + lane / 8 % 2), pack(o[i][0][0], o[i][0][1]),
                                  pack(o[i][0][2], o[i][0][3]), pack(o[i][1][0], o[i][1][1]),
                                  pack(o[i][1][2], o[i][1][3]));
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
        const int token = lane / kUnits + i * (32 / kUnits), unit = lane % kUnits;
        const uint4 piece = load_16(place(token, unit));
        if (token < valid) *reinterpret_cast<uint4*>(out + static_cast<i64>(token) * stride + 8 * unit) = piece;
    }
    __syncwarp();
}

// What the scanning warp number `warp` of a block does; the block has rows 16 first_tile on.
template <int D, int kTiles>
MS_FN void scan(const Args& args, const Ring<D>& ring, const Sequence& sequence, int head, int first_tile, int warp) {
    using R = Record<D>;
    const int row_tile = first_tile + kTiles * warp;
    const i64 place = state_place(args, sequence.n);
    const bool is_bf16 = args.flags & kStateBf16;
    StateRows<D, kTiles> state;
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
            float o[kTiles][2][4];
            barrier_wait(ring.full(at.slot), at.round);
            state.step(ring.slot(at.slot), kTiles * warp, o);
            barrier_arrive(ring.empty(at.slot));
            at.advance(1, ring.n_slots);
            store_output<kTiles>(ring.staging + warp * kTiles * R::kStaging, o, out, args.value_heads * D,
                                 sequence.length - done);
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
