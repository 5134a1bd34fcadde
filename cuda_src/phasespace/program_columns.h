// Loads and stores of a program's columns and fours (program_args.h).
#pragma once

#include "program_args.h"

MS_BEGIN_NAMESPACE

namespace program {

template <class T>
MS_FN double load_number(const u64* column, i64 index) {
    const u64 address = column[0], stride = column[1];
    const double number = from_bits(stride);
    if (address == 0) return number;
    return static_cast<double>(__ldg(reinterpret_cast<const T*>(address + stride * static_cast<u64>(index))));
}

MS_FN void load_four(const u64* four, i64 index, double (&x)[4]) {
    const u64 from = four[0] + four[1] * static_cast<u64>(index), apart = four[2];
    if (apart == 0) {
        const double2 low = __ldg(reinterpret_cast<const double2*>(from));
        const double2 high = __ldg(reinterpret_cast<const double2*>(from + sizeof(double2)));
        x[0] = low.x, x[1] = low.y, x[2] = high.x, x[3] = high.y;
    } else {
        for (int c = 0; c < 4; ++c) x[c] = __ldg(reinterpret_cast<const double*>(from + apart * c));
    }
}

// What int32 cannot hold becomes its lowest value.
MS_FN int to_int32(double x) {
    constexpr double kLowest = -2147483648.0, kHighest = 2147483647.0;
    return static_cast<int>(x >= kLowest && x <= kHighest ? x : kLowest);
}

MS_FN double converted(double x, double*) { return x; }
MS_FN int converted(double x, int*) { return to_int32(x); }

// Of events below `end`.
template <class T>
MS_FN void store_number(const u64* column, i64 index, i64 end, double x) {
    T* to = reinterpret_cast<T*>(column[0] + column[1] * static_cast<u64>(index));
    if (index < end) *to = converted(x, to);
}

// A warp stores fours 16 bytes a lane, so that each instruction writes 512 adjacent bytes where events are adjacent:
// in pass 0 and 1 lane l takes half l % 2 of the event that is so many threads ahead of its own. get(half, ahead)
// gives that; it is called where the four lies fit for it only.
template <class Get>
MS_FN void store_four(const u64* four, i64 index, i64 end, Get get) {
    const int lane = static_cast<int>(threadIdx.x) & 31, half = lane & 1;
    for (int pass = 0; pass < 2; ++pass) {
        const int ahead = (lane >> 1) + 16 * pass - lane;
        const double2 x = get(half, ahead);
        const i64 other = index + ahead;
        if (other < end) {
            const u64 to = four[0] + four[1] * static_cast<u64>(other) + sizeof(double2) * half;
            *reinterpret_cast<double2*>(to) = x;
        }
    }
}

MS_FN void store_four_apart(const u64* four, i64 index, i64 end, const double (&x)[4]) {
    const u64 to = four[0] + four[1] * static_cast<u64>(index);
    if (index < end)
        for (int c = 0; c < 4; ++c) *reinterpret_cast<double*>(to + four[2] * c) = x[c];
}

}  // namespace program

MS_END_NAMESPACE
