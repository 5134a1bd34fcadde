// What filling an array with random numbers needs, by value on a GPU.
#pragma once

#include "madspace/philox.h"

MS_BEGIN_NAMESPACE

struct RandomArgs {
    PhiloxKeys keys;
    u64 offset;    // number of the first event
    i64 n, width;  // events, numbers of an event
    // On a GPU: blocks that share an event, pairs of an event in one block, events of a block.
    unsigned parts, pairs, events, unused;
    double* out;  // [n, width]
};

// Threads of a block, one for each pair.
constexpr unsigned kRandomBlock = 256;

MS_END_NAMESPACE
