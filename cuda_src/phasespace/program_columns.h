// Loads and stores of a program's columns and fours (program_args.h).
#pragma once

#include "program_args.h"

MS_BEGIN_NAMESPACE

namespace program {

// Where a column has an event. Numbers of events and strides in bytes fit into 31 bits and a sign. The address is read
// as a pointer: of pointers among its parameters a kernel knows that they are global.
MS_FN char* place(const u64* column, int index) {
    char* base;
    int stride;
    memcpy(&base, column, sizeof base);
    memcpy(&stride, column + 1, sizeof stride);
    return base + static_cast<i64>(stride) * index;
}

template <class T>
MS_FN void write(char* to, T x) {
    *reinterpret_cast<T*>(to) = x;
}

template <class T>
MS_FN double load_number(const u64* column, int index) {
    if (column[2] >> 32 != 0) return from_bits(column[1]);
    return static_cast<double>(__ldg(reinterpret_cast<const T*>(place(column, index))));
}

MS_FN void load_four(const u64* four, int index, double (&x)[4]) {
    const char* from = place(four, index);
    const u64 apart = four[2];
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
MS_FN void store_number(const u64* column, int index, int end, double x) {
    if (index < end) write(place(column, index), converted(x, static_cast<T*>(nullptr)));
}

// A warp stores fours 16 bytes a lane, so that each instruction writes 512 adjacent bytes where events are adjacent:
// in pass 0 and 1 lane l takes half l % 2 of the event that is so many threads ahead of its own. get(half, ahead)
// gives that. What does not lie fit for 16 bytes is stored by 8.
template <class Get>
MS_FN void store_four(const u64* four, int index, int end, Get get) {
    const int lane = static_cast<int>(threadIdx.x) & 31, half = lane & 1, ahead = (lane >> 1) - lane;
    const double2 x[2] = {get(half, ahead), get(half, ahead + 16)};
    const u64 apart = four[2];
    if (apart == 0) {
        char* to = place(four, index + ahead) + sizeof(double2) * half;
        int stride;
        memcpy(&stride, four + 1, sizeof stride);
        if (index + ahead < end) write(to, x[0]);
        if (index + ahead + 16 < end) write(to + 16 * static_cast<i64>(stride), x[1]);
    } else {
        for (int pass = 0; pass < 2; ++pass) {
            const int other = index + ahead + 16 * pass;
            if (other >= end) continue;
            char* to = place(four, other) + 2 * apart * half;
            write(to, x[pass].x);
            write(to + apart, x[pass].y);
        }
    }
}

}  // namespace program

MS_END_NAMESPACE
