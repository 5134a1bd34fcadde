// Counter-based random numbers: the same on every device, in any order, for any partition of a batch.
// Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, SC'11, doi:10.1145/2063384.2063405.
#pragma once

#include "portable.h"

MS_BEGIN_NAMESPACE

// The ten rounds on a counter of 128 bits and a key of 64.
MS_FN Values<unsigned, 4> philox(u64 counter_low, u64 counter_high, u64 key) {
    constexpr unsigned kMultiplier[2] = {0xD2511F53u, 0xCD9E8D57u}, kWeyl[2] = {0x9E3779B9u, 0xBB67AE85u};
    unsigned x[4] = {static_cast<unsigned>(counter_low), static_cast<unsigned>(counter_low >> 32),
                     static_cast<unsigned>(counter_high), static_cast<unsigned>(counter_high >> 32)};
    unsigned k[2] = {static_cast<unsigned>(key), static_cast<unsigned>(key >> 32)};
    for (int round = 0; round < 10; ++round) {
        const u64 a = static_cast<u64>(kMultiplier[0]) * x[0], b = static_cast<u64>(kMultiplier[1]) * x[2];
        const unsigned y[4] = {static_cast<unsigned>(b >> 32) ^ x[1] ^ k[0], static_cast<unsigned>(b),
                               static_cast<unsigned>(a >> 32) ^ x[3] ^ k[1], static_cast<unsigned>(a)};
        for (int i = 0; i < 4; ++i) x[i] = y[i];
        for (int i = 0; i < 2; ++i) k[i] += kWeyl[i];
    }
    return {{x[0], x[1], x[2], x[3]}};
}

// 53 bits as a number in [0, 1). They are placed behind the leading bit of 1: converting integers of 64 bits is slow on
// a GPU, and not there for old vector units.
MS_FN double unit_interval(unsigned high, unsigned low) {
    const u64 bits = (static_cast<u64>(high) << 32 | low) >> 11;
    // 52 of them as 1.xxx - 1; the last one is worth 2^-53.
    return (from_bits(0x3ff0000000000000ULL | bits >> 1) - 1.0) + (bits & 1 ? 0x1p-53 : 0.0);
}

// Numbers 2 k and 2 k + 1 of an event.
MS_FN Values<double, 2> uniform_pair(u64 seed, u64 event, u64 k) {
    const Values<unsigned, 4> x = philox(event, k, seed);
    return {{unit_interval(x[0], x[1]), unit_interval(x[2], x[3])}};
}

MS_END_NAMESPACE
