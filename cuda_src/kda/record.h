// One record: what 16 tokens of one head look like to the scan, laid out for its matrix instructions. The same bytes
// in a block's shared memory and in the workspace.
//
// With G the running sum of the log decays, Kd = k exp(G), Qd = scale q exp(G), Kr = k exp(G_last - G) and
// T' = (1 + strict_lower(beta Kd Ki^T))^-1 diag(beta), the scan needs W = T' Kd, U0 = T' V, M = lower(Qd Ki^T):
//   U = U0 - W S^T,   O = Qd S^T + M U,   S <- S diag(exp(G_last)) + U^T Kr.
#pragma once

#include "../include/madspace/portable.h"

MS_BEGIN_NAMESPACE

namespace kda {

constexpr int kChunk = 16;     // tokens: exp(5 * 16) is still a bfloat16
constexpr int kRowsPerWarp = 16;  // rows of the state that one warp scans

template <int D>
struct Record {
    // Tiles of 16 rows in bfloat16 have 16 bytes between rows, so that no two of 8 rows meet in a bank; rows of sums 32.
    static constexpr int kPitch = 2 * D + 16;
    static constexpr int kSumPitch = 4 * D + 32;

    static constexpr int kQd = 0;
    static constexpr int kKr = kQd + kChunk * kPitch;
    static constexpr int kU0 = kKr + kChunk * kPitch;  // float: [16 rows][8 tokens][lane][4]
    static constexpr int kW = kU0 + kChunk * 4 * D;    // -W: [16 columns][lane][8]
    // Before a record is made the inputs are in it: q where Qd will be, k where Kr will be, v and g here; then the
    // running sums of the gate, which take g's place row by row.
    static constexpr int kV = kU0;
    static constexpr int kSums = kV + kChunk * kPitch;
    static constexpr int kG = kSums + kChunk * (kSumPitch - kPitch);
    static constexpr int kM = kSums + kChunk * kSumPitch;    // [lane][8]
    static constexpr int kDecay = kM + kChunk * kChunk * 2;  // exp(G_last), float
    static constexpr int kBytes = (kDecay + D * 4 + 127) / 128 * 128;

    static constexpr int kStaging = kChunk * kRowsPerWarp * 2;  // of one warp's output

    static_assert(kM >= kW + kChunk * 2 * D, "W fits between U0 and M");
};

}  // namespace kda

MS_END_NAMESPACE
