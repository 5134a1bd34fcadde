// Counter-based random numbers: the same on every device, in any order, for any partition of a batch.
// Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, SC'11, doi:10.1145/2063384.2063405.
#pragma once

#include "portable.h"

MS_BEGIN_NAMESPACE

constexpr int kPhiloxRounds = 10;

// What each round adds to its words: the same for all numbers of a seed, so kernels get it as a parameter.
struct PhiloxKeys {
    unsigned word[kPhiloxRounds][2];
};

MS_HOST_FN PhiloxKeys philox_keys(u64 seed) {
    constexpr unsigned kWeyl[2] = {0x9E3779B9u, 0xBB67AE85u};
    PhiloxKeys keys = {};
    for (unsigned round = 0; round < kPhiloxRounds; ++round) {
        keys.word[round][0] = static_cast<unsigned>(seed) + round * kWeyl[0];
        keys.word[round][1] = static_cast<unsigned>(seed >> 32) + round * kWeyl[1];
    }
    return keys;
}

// The rounds on a counter of 128 bits.
MS_FN Values<unsigned, 4> philox(u64 counter_low, u64 counter_high, const PhiloxKeys& keys) {
    constexpr unsigned kMultiplier[2] = {0xD2511F53u, 0xCD9E8D57u};
    unsigned x[4] = {static_cast<unsigned>(counter_low), static_cast<unsigned>(counter_low >> 32),
                     static_cast<unsigned>(counter_high), static_cast<unsigned>(counter_high >> 32)};
    for (int round = 0; round < kPhiloxRounds; ++round) {
        const u64 a = static_cast<u64>(kMultiplier[0]) * x[0], b = static_cast<u64>(kMultiplier[1]) * x[2];
        const unsigned y[4] = {static_cast<unsigned>(b >> 32) ^ x[1] ^ keys.word[round][0], static_cast<unsigned>(b),
                               static_cast<unsigned>(a >> 32) ^ x[3] ^ keys.word[round][1], static_cast<unsigned>(a)};
        for (int i = 0; i < 4; ++i) x[i] = y[i];
    }
    return {{x[0], x[1], x[2], x[3]}};
}

// 53 bits as a number in [0, 1), without converting integers, which is slow on a GPU. Numbers from 1/2 to 1 are
// multiples of 2^-53, which the lower 52 bits count; the first one tells whether the 1/2 belongs there.
MS_FN double unit_interval(unsigned high, unsigned low) {
    const u64 bits = (static_cast<u64>(high) << 32 | low) >> 11;
    const double half = from_bits(static_cast<u64>(~high >> 31 ? 0x3fe00000u : 0u) << 32);
    return from_bits(0x3fe0000000000000ULL | (bits & 0xfffffffffffffULL)) - half;
}

// Numbers 2 k and 2 k + 1 of an event.
MS_FN Values<double, 2> uniform_pair(const PhiloxKeys& keys, u64 event, u64 k) {
    const Values<unsigned, 4> x = philox(event, k, keys);
    return {{unit_interval(x[0], x[1]), unit_interval(x[2], x[3])}};
}

MS_END_NAMESPACE
