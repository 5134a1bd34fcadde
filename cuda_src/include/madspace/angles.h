// Angles from vectors and back, branch-free as math.h is.
#pragma once

#include "math.h"

MS_BEGIN_NAMESPACE

constexpr double kPi = 0x1.921fb54442d18p+1, kInversePi = 0x1.45f306dc9c883p-2;

// cos(pi h) and sin(pi h) for |h| < 2^50; sin keeps its relative precision for small h.
MS_FN CosSin half_turns(double h) {
    constexpr double kRound = 6755399441055744.0;  // see azimuth()
    const double shifted = 2.0 * h + kRound;
    const u64 quadrant = bits_of(shifted);
    const double b = h - 0.5 * (shifted - kRound);
    const double s = sin_pi(b), c = cos_pi(b);
    const bool swap = (quadrant & 1) != 0;
    const u64 cos_sign = (((quadrant + 1) >> 1) & 1) << 63;
    const u64 sin_sign = ((quadrant >> 1) & 1) << 63;
    return {from_bits(bits_of(swap ? s : c) ^ cos_sign), from_bits(bits_of(swap ? c : s) ^ sin_sign)};
}

// atan2(y, x) within 2 units in the last place; 0 where both are 0. q = min/max of the two sizes, or
// (min - max)/(min + max) next to a diagonal, lies in [-tan(pi/8), tan(pi/8)], where atan q = q + q^3 P(q^2) with a
// Chebyshev interpolant P (relative error 3e-18).
MS_FN double arctan2(double y, double x) {
    const double ay = absolute(y), ax = absolute(x);
    const bool steep = ay > ax;
    const double large = steep ? ay : ax, small = steep ? ax : ay;
    const bool diagonal = small > 0.41421356237309503 * large;
    const double above = diagonal ? small - large : small;
    const double below = diagonal ? small + large : large;
    const double q = above / select(below > 0.0, below, 1.0);
    const double u = q * q;
    const double p =
        -0x1.5555555555555p-2 +
        u * (0x1.9999999999953p-3 +
             u * (-0x1.249249248d7dcp-3 +
                  u * (0x1.c71c71c303dbbp-4 +
                       u * (-0x1.745d165dc9713p-4 +
                            u * (0x1.3b1392d519db1p-4 +
                                 u * (-0x1.110e87b4357d2p-4 +
                                      u * (0x1.e19a0bfa3eef9p-5 +
                                           u * (-0x1.ac7a5a79b3f26p-5 +
                                                u * (0x1.74dccfb93fff0p-5 +
                                                     u * (-0x1.1b311bb48c215p-5 + u * 0x1.0acd9e91a5a35p-6))))))))));
    // pi/4, pi/2 and pi in two parts each.
    constexpr double kQuarterLow = 0x1.1a62633145c07p-55;
    const double tail = q * u * p;
    const double octant = diagonal ? 0.25 * kPi + (q + (tail + kQuarterLow)) : q + tail;
    const double quadrant = steep ? 0.5 * kPi - (octant - 2.0 * kQuarterLow) : octant;
    const double half = x < 0.0 ? kPi - (quadrant - 4.0 * kQuarterLow) : quadrant;
    return y < 0.0 ? -half : half;
}

MS_END_NAMESPACE
