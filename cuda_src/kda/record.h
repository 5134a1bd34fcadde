// One record: what 16 tokens of one head look like to the scan, laid out for its matrix instructions. The same bytes
// in a block's shared memory and in the workspace.
//
// With G the running sum of the log decays, Kd = k exp(G), Qd = scale q exp(G), Kr = k exp(G_last - G) and
// T' = (1 + strict_lower(beta Kd Ki^T))^-1 diag(beta), the scan needs W = T' Kd, U0 = T' V, M = strict_lower(Qd Ki^T)
// and its diagonal d = scale q k:
//   U = U0 - W S^T,   O = Qd S^T + M U + d U,   S <- S diag(exp(G_last)) + U^T Kr.
#pragma once

#include "../include/madspace/portable.h"

MS_BEGIN_NAMESPACE

namespace kda {

constexpr int kChunk = 16;        // tokens: exp(5 * 16) is still a bfloat16
constexpr int kRowsPerWarp = 16;  // rows of the state that one warp scans

template <int D>
struct Record {
    // Tiles are 16 rows of D bfloat16; the 16-byte pieces of a row are exchanged so that no two of 8 rows meet in a
    // bank. Rows of sums have 32 bytes between them to the same end.
    static constexpr int kRow = 2 * D;
    static constexpr int kTile = kChunk * kRow;
    static constexpr int kSumRow = 4 * D + 32;

    static constexpr int kQd = 0;
    static constexpr int kKr = kQd + kTile;
    static constexpr int kU0 = kKr + kTile;       // float: [16 rows][8 tokens][lane][4]
    static constexpr int kW = kU0 + 2 * kTile;    // -W: [16 columns][lane][8]
    static constexpr int kDiagonal = kW + kTile;  // of Qd Ki^T, where the decays cancel: float
    // Before a record is made the inputs are in it: q where Qd will be, k where Kr will be, v and g here; then the
    // running sums of the gate, which take g's place row by row.
    static constexpr int kV = kU0;
    static constexpr int kSums = kV + kTile;
    static constexpr int kG = kSums + kChunk * kSumRow - kTile;
    static constexpr int kM = kSums + kChunk * kSumRow;      // [lane][8]
    static constexpr int kDecay = kM + kChunk * kChunk * 2;  // exp(G_last), float: [16 columns][lane % 4][4]
    static constexpr int kBytes = (kDecay + D * 4 + 255) / 256 * 256;

    static constexpr int kStaging = kChunk * kRowsPerWarp * 2;  // of 16 columns of output

    static_assert(kG % kRow == 0 && kM >= kDiagonal + kChunk * 4, "places fit");

    // Where the 16-byte piece `unit` of a row is in a tile. For another unit exchange the address with
    // (unit ^ other) << 4: tiles start at multiples of kRow.
    MS_FN static int piece(int row, int unit) { return row * kRow + ((unit ^ (row & 7)) << 4); }

    // Where a column's factor is among kDecay, in floats: a lane reads the four of two tiles of 8 columns at once.
    MS_FN static int decay_place(int column) {
        return column / 16 * 16 + column % 8 / 2 * 4 + column % 16 / 8 * 2 + column % 2;
    }
};

}  // namespace kda

MS_END_NAMESPACE
