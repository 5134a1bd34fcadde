// Stands in for cuda_src/kda/ptx.h: the same functions, done by the machine.
#pragma once

#include "args.h"
#include "machine.h"

MS_BEGIN_NAMESPACE

namespace kda {

MS_FN u32 shared_address(const void* pointer) {
    return static_cast<u32>(static_cast<const char*>(pointer) - ::machine::shared);
}

// ---- numbers ----

MS_FN u32 rounded_bits(float x) {
    const u32 bits = __float_as_uint(x);
    if (x != x) return 0x7fff;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
MS_FN u32 pack(float low, float high) { return rounded_bits(low) | rounded_bits(high) << 16; }
MS_FN float low_of(u32 pair) { return __uint_as_float(pair << 16); }
MS_FN float high_of(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }
MS_FN float float_of(u16 bits) { return __uint_as_float(static_cast<u32>(bits) << 16); }
MS_FN float exp2_of(float x) { return std::exp2(x); }
MS_FN float reciprocal_of(float x) { return 1 / x; }
MS_FN float rsqrt_of(float x) { return 1 / std::sqrt(x); }
MS_FN u32 add_pairs(u32 a, u32 b) { return pack(low_of(a) + low_of(b), high_of(a) + high_of(b)); }

// ---- matrices ----

MS_FN float half_of(std::uint64_t word, int which) {
    return which ? high_of(static_cast<u32>(word)) : low_of(static_cast<u32>(word));
}

inline void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, float c0, float c1, float c2, float c3) {
    const auto* all = ::machine::exchange(a[0], a[1], a[2], a[3], b0, b1);
    const int lane = ::machine::lane();
    float rows[2][16], columns[2][16];
    for (int i = 0; i < 2; ++i) {
        for (int k = 0; k < 16; ++k) {
            rows[i][k] = half_of(all[lane / 4 * 4 + k % 8 / 2][i + 2 * (k / 8)], k % 2);
            columns[i][k] = half_of(all[(lane % 4 * 2 + i) * 4 + k % 8 / 2][4 + k / 8], k % 2);
        }
    }
    const float c[4] = {c0, c1, c2, c3};
    for (int i = 0; i < 4; ++i) {
        double sum = c[i];
        for (int k = 0; k < 16; ++k) sum += static_cast<double>(rows[i / 2][k]) * columns[i % 2][k];
        d[i] = static_cast<float>(sum);
    }
}
MS_FN void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma(d, a, b0, b1, d[0], d[1], d[2], d[3]); }

inline void load_matrices(u32 (&r)[4], u32 address) {
    const auto* all = ::machine::exchange(address);
    const u32 lane = ::machine::lane();
    for (u32 i = 0; i < 4; ++i) {
        const u32 row = static_cast<u32>(all[8 * i + lane / 4][0]);
        ::machine::at(row, 16, false);
        r[i] = ::machine::load<u32>(row + lane % 4 * 4);
    }
}
inline void load_matrices_transposed(u32 (&r)[4], u32 address) {
    const auto* all = ::machine::exchange(address);
    const u32 lane = ::machine::lane();
    for (u32 i = 0; i < 4; ++i) {
        const u32 first = static_cast<u32>(all[8 * i + lane % 4 * 2][0]),
                  second = static_cast<u32>(all[8 * i + lane % 4 * 2 + 1][0]);
        ::machine::at(first, 16, false);
        ::machine::at(second, 16, false);
        r[i] = ::machine::load<u16>(first + lane / 4 * 2) |
               static_cast<u32>(::machine::load<u16>(second + lane / 4 * 2)) << 16;
    }
}
inline u32 transposed(u32 matrix) {
    const auto* all = ::machine::exchange(matrix);
    const u32 lane = ::machine::lane(), column = lane / 4;
    const auto element = [&](u32 row) {
        return static_cast<u32>(all[row * 4 + column / 2][0]) >> (column % 2 * 16) & 0xffffu;
    };
    return element(lane % 4 * 2) | element(lane % 4 * 2 + 1) << 16;
}

// ---- shared memory ----

MS_FN uint4 load_16(u32 address) { return ::machine::load<uint4>(address); }
MS_FN float4 load_floats(u32 address) { return ::machine::load<float4>(address); }
MS_FN float2 load_two_floats(u32 address) { return ::machine::load<float2>(address); }
MS_FN uint2 load_8(u32 address) { return ::machine::load<uint2>(address); }
MS_FN u64 load_address(u32 address) { return ::machine::load<u64>(address); }
MS_FN u32 load_4(u32 address) { return ::machine::load<u32>(address); }
MS_FN void store_address(u32 address, u64 x) { ::machine::store(address, x); }
MS_FN void store_16(u32 address, u32 a, u32 b, u32 c, u32 d) { ::machine::store(address, uint4{a, b, c, d}); }
MS_FN void store_floats(u32 address, float a, float b, float c, float d) {
    ::machine::store(address, float4{a, b, c, d});
}
MS_FN void store_two_floats(u32 address, float a, float b) { ::machine::store(address, float2{a, b}); }
MS_FN void store_4(u32 address, u32 x) { ::machine::store(address, x); }
MS_FN void store_2(u32 address, u32 x) { ::machine::store(address, static_cast<u16>(x)); }

inline void store_matrices(u32 address, u32 a, u32 b, u32 c, u32 d) {
    const auto* all = ::machine::exchange(address);
    const u32 x[4] = {a, b, c, d}, lane = ::machine::lane();
    for (u32 i = 0; i < 4; ++i) {
        const u32 row = static_cast<u32>(all[8 * i + lane / 4][0]);
        if (row % 16 != 0) ::machine::fault("matrix: row not aligned");
        store_4(row + lane % 4 * 4, x[i]);
    }
}
inline void store_matrices_transposed(u32 address, u32 a, u32 b, u32 c, u32 d) {
    store_matrices(address, transposed(a), transposed(b), transposed(c), transposed(d));
}

// ---- asynchronous copies: done when they are waited for, and not before ----

MS_FN void copy_async(u32 address, const void* global, u32 valid) {
    if (reinterpret_cast<std::uint64_t>(global) % 16 != 0)
        ::machine::fault("asynchronous copy: global address not aligned");
    ::machine::current->groups.back().push_back({address, valid ? global : nullptr});
}
MS_FN void copy_async(u32 address, const void* global) { copy_async(address, global, 16); }
MS_FN void commit_copies() { ::machine::current->groups.emplace_back(); }
template <int kLater>
MS_FN void wait_for_copies() {
    auto& groups = ::machine::current->groups;
    while (groups.size() > kLater + 1) {
        for (const auto& copy : groups.front()) {
            char* to = ::machine::at(copy.to, 16, true);
            if (copy.from)
                std::memcpy(to, copy.from, 16);
            else
                std::memset(to, 0, 16);
        }
        groups.erase(groups.begin());
    }
}

// ---- kernels one behind the other: the machine ends one before it begins the next ----

MS_FN void let_next_kernel_begin() {}
MS_FN void wait_for_kernel_before() {}

// ---- registers: a fiber has all that it wants ----

template <int>
MS_FN void take_registers() {}
template <int>
MS_FN void give_registers() {}

// ---- barriers ----

struct Barrier {
    u16 count, pending;
    u32 phase;
};

// Barriers are in order by themselves.
MS_FN Barrier& barrier_at(u32 barrier) { return *reinterpret_cast<Barrier*>(::machine::shared + barrier); }

// Each lane arrives for itself: what it did before is known to be done when all have.
MS_FN void barrier_init(u32 barrier, u32 count) {
    if (count % 32 != 0) ::machine::fault("barrier: expected arrivals of whole warps, got " + std::to_string(count));
    barrier_at(barrier) = Barrier{static_cast<u16>(count), static_cast<u16>(count), 0};
}
MS_FN void barrier_arrive(u32 barrier) {
    Barrier state = barrier_at(barrier);
    ++::machine::progress;
    if (state.count == 0xffff) ::machine::fault("barrier: not initialised");
    if (--state.pending == 0) {
        state.pending = state.count;
        ++state.phase;
    }
    barrier_at(barrier) = state;
}
MS_FN void barrier_arrive_with_copies(u32 barrier) {
    wait_for_copies<0>();
    barrier_arrive(barrier);
}
MS_FN bool barrier_passed(u32 barrier, u32 parity) { return (barrier_at(barrier).phase & 1) != parity; }
MS_FN void barrier_wait(u32 barrier, u32 parity) {
    while (!barrier_passed(barrier, parity)) ::machine::yield();
}

}  // namespace kda

MS_END_NAMESPACE
