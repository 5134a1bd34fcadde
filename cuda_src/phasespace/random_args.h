// What filling an array with random numbers needs, by value on a GPU.
#pragma once

#include "madspace/philox.h"

MS_BEGIN_NAMESPACE

struct RandomArgs {
    u64 seed, offset;  // offset: number of the first event
    i64 n, width;      // events, numbers of an event
    double* out;       // [n, width]
};

// Pair k of the numbers of an event, counted from the first one here.
MS_FN void fill_pair(const RandomArgs& args, i64 event, i64 k) {
    const Values<double, 2> x = uniform_pair(args.seed, args.offset + static_cast<u64>(event), static_cast<u64>(k));
    double* to = args.out + event * args.width + 2 * k;
    to[0] = x[0];
    if (2 * k + 1 < args.width) to[1] = x[1];
}

MS_END_NAMESPACE
