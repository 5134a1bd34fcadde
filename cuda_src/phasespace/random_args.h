// What filling an array with random numbers needs, by value on a GPU.
#pragma once

#include "madspace/philox.h"

MS_BEGIN_NAMESPACE

struct RandomArgs {
    PhiloxKeys keys;
    u64 offset;    // number of the first event
    i64 n, width;  // events, numbers of an event
    // On a GPU: blocks that share an event, pairs of an event in one block, events of a block (an even number unless it
    // is 1), 2^kInverseBits / pairs rounded up.
    unsigned parts, pairs, events, inverse;
    double* out;  // [n, width]
};

// Threads of a block, and the pairs that they make: few enough for a division of their numbers by `inverse`.
constexpr unsigned kRandomBlock = 256, kRandomPairs = 1024, kInverseBits = 20;

MS_END_NAMESPACE
