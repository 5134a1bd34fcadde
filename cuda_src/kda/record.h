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
    // Before a record is made its places hold the rows of the inputs: q, k, v and g.
    static constexpr int kRows = kChunk * D * 2;          // bytes of 16 rows in bfloat16
    static constexpr int kQd = 0;
    static constexpr int kKr = kQd + kRows;
    static constexpr int kU0 = kKr + kRows;               // float
    static constexpr int kW = kU0 + 2 * kRows;            // -W
    static constexpr int kM = kW + kRows;
    static constexpr int kDecay = kM + kChunk * kChunk * 2;  // exp(G_last), float
    static constexpr int kBadToken = kDecay + D * 4;      // int: the first one that is not finite, kChunk for none
    static constexpr int kBytes = (kBadToken + 4 + 127) / 128 * 128;
    static constexpr int kStaging = kChunk * kRowsPerWarp * 2;  // of one warp's output
};

}  // namespace kda

MS_END_NAMESPACE
