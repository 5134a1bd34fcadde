// What the host kernel gets: the arguments of the GPU kernels, and what those have in their names and their grid.
#pragma once

#include "args.h"

MS_BEGIN_NAMESPACE

namespace kda {

constexpr int kMaxHostChannels = 256;

struct HostCall {
    Args args;       // host addresses
    int channels;    // D, up to kMaxHostChannels
    int row_blocks;  // pieces that the rows of one state are dealt out in
};

// One piece of work is a block of rows of one state: of sequence n, head h, there are row_blocks from
// (n * value_heads + h) * row_blocks on.
inline i64 n_pieces(const HostCall& call) { return call.args.n_sequences * call.args.value_heads * call.row_blocks; }

}  // namespace kda

MS_END_NAMESPACE
