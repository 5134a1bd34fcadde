// Elementary functions that vectorise on the host and are cheap in double precision on a GPU.
// Branch-free on purpose: a lane that leaves the common path would serialise its whole vector or warp.
#pragma once

#include "portable.h"
#include "seeds.h"

MS_BEGIN_NAMESPACE

// 1/x for normal x away from the ends of the range. On a GPU from the hardware's 20-bit seed and one third-order step,
// within one unit in the last place, without the branches of an exact division.
MS_FN double reciprocal(double x) {
#if MS_GPU
    const double y = reciprocal_seed(x);
    const double e = __fma_rn(-x, y, 1.0);
    return __fma_rn(y, __fma_rn(e, e, e), y);
#else
    return 1.0 / x;
#endif
}

// Square root of x >= 0; on a GPU as reciprocal(), and 0 below the normal range.
MS_FN double root(double x) {
#if MS_GPU
    const double y = root_seed(x);
    const double h = x * y;
    const double e = __fma_rn(-h, y, 1.0);
    const double result = __fma_rn(h * e, __fma_rn(0.375, e, 0.5), h);
    return x > 1e-300 ? result : 0.0;
#else
    return __builtin_sqrt(x);
#endif
}

// 1/root(x) within two units in the last place, and 0 where root(x) is.
MS_FN double inverse_root(double x) {
#if MS_GPU
    const double y = root_seed(x);
    const double e = __fma_rn(-(x * y), y, 1.0);
    const double result = __fma_rn(y * e, __fma_rn(0.375, e, 0.5), y);
    return x > 1e-300 ? result : 0.0;
#else
    return x > 0.0 ? 1.0 / __builtin_sqrt(x) : 0.0;
#endif
}

// Correctly rounded square root; NaN below 0.
MS_FN double exact_root(double x) {
#if MS_GPU
    return ::sqrt(x);
#else
    return __builtin_sqrt(x);
#endif
}

MS_FN double absolute(double x) {
#if MS_GPU
    return ::fabs(x);
#else
    return __builtin_fabs(x);
#endif
}

// a where the condition holds, else b; both are evaluated.
MS_FN double select(bool condition, double a, double b) { return condition ? a : b; }

// max(x, floor) that maps NaN to the floor.
MS_FN double at_least(double x, double floor) { return x > floor ? x : floor; }

// x clamped into [0, 1]; NaN becomes 0.
MS_FN double clamp_unit(double x) {
#if MS_GPU
    // As maximum and minimum it would take twice as many instructions, which care for NaN. This comparison is the one
    // of unit_weight() as well. -0 becomes 0.
    const bool inside = (x >= 0.0) & (x <= 1.0);
    return select(inside, from_bits(bits_of(x) & 0x7fffffffffffffffULL), select(x >= 1.0, 1.0, 0.0));
#else
    const double y = at_least(x, 0.0);
    return y < 1.0 ? y : 1.0;
#endif
}

// 1 for r in [0, 1], else 0, for NaN too: the weight of a random number.
MS_FN double unit_weight(double r) { return r >= 0.0 && r <= 1.0 ? 1.0 : 0.0; }

// The weight if everything that `sum` adds up is finite, else 0.
MS_FN double finite_weight(double weight, double sum) { return sum - sum == 0.0 ? weight : 0.0; }

// x^(1/5) for normal positive x, within 1.5 units in the last place.
// y ~ x^(-1/5) starts from the exponent and mantissa bits scaled by -1/5 (shifts only: AVX2 cannot multiply or convert
// 64-bit integers), which leaves |e| <= 0.157 in e = 1 - x y^5. The Taylor series of (1 - e)^(-1/5) up to e^4 brings e
// below 6e-5; one of (1 - e)^(-4/5) up to e^3 then gives the root as x y^4 (1 - e)^(-4/5) without a division, and
// rounding errors of x y^4 enter with a factor 1/5 only.
MS_FN double fifth_root(double x) {
    const u64 bits = bits_of(x);
    u64 fifth = (bits >> 3) + (bits >> 4);  // 3/16, then 3/16 (1 + 1/16)(1 + 1/256) = 0.199997
    fifth += fifth >> 4;
    fifth += fifth >> 8;
    // The constant makes the largest and the smallest e over all mantissas equal in size (found by scan).
    constexpr u64 kSeed = 0x4cb88ed000000000ULL;
    double y = from_bits(kSeed - fifth);
    double y_2 = y * y;
    double e = 1.0 - x * (y_2 * y_2) * y;
    y += y * e * (0.2 + e * (0.12 + e * (0.088 + e * 0.0704)));
    y_2 = y * y;
    const double h = x * (y_2 * y_2);
    e = 1.0 - h * y;
    return h + h * e * (0.8 + e * (0.72 + e * 0.672));
}

// sin(pi b) and cos(pi b) for |b| <= 1/4: Chebyshev interpolants in b^2 (relative error 4e-17 and 2e-17 before
// rounding).
MS_FN double sin_pi(double b) {
    const double u = b * b;
    return b * (0x1.921fb54442d18p+1 +
                u * (-0x1.4abbce625be53p+2 +
                     u * (0x1.466bc6775aad9p+1 +
                          u * (-0x1.32d2cce62ac22p-1 +
                               u * (0x1.50783485cbd83p-4 +
                                    u * (-0x1.e3074b4ff3058p-8 +
                                         u * (0x1.e8eed12ee00a3p-12 + u * -0x1.6c5b875d4e739p-16)))))));
}

MS_FN double cos_pi(double b) {
    const double u = b * b;
    return 1.0 +
           u * (-0x1.3bd3cc9be45dep+2 +
                u * (0x1.03c1f081b5aacp+2 + u * (-0x1.55d3c7e3c90f8p+0 +
                                                 u * (0x1.e1f5068355e15p-3 + u * (-0x1.a6d1ec7906c20p-6 +
                                                                                  u * (0x1.f9cc41140bb60p-10 +
                                                                                       u * -0x1.b264ba152378ap-14))))));
}

// Cosine and sine of pi (2 r - 1), r in [0, 1]: the azimuth of a uniform random number.
// cos(pi (2r-1)) = -cos(2 pi r), sin(pi (2r-1)) = -sin(2 pi r); 2r is reduced exactly to the nearest multiple of 1/2,
// b = 2r - k/2 in [-1/4, 1/4].
struct CosSin {
    double cos, sin;
};

MS_FN CosSin azimuth(double r) {
    // Adding 1.5 * 2^52 rounds to the nearest integer and leaves it in the low bits; works on every instruction set.
    constexpr double kRound = 6755399441055744.0;
    const double shifted = 4.0 * r + kRound;
    const u64 quadrant = bits_of(shifted);
    const double b = 2.0 * r - 0.5 * (shifted - kRound);
    const double s = sin_pi(b), c = cos_pi(b);
    const bool swap = (quadrant & 1) != 0;
    // Quadrants of 2 pi r: cosine c, -s, -c, s; sine s, c, -s, -c. The azimuth wants both negated: sign bits are set
    // directly, since a select on an integer test would need a 64-bit compare that old instruction sets lack.
    const u64 cos_sign = ((((quadrant + 1) >> 1) & 1) ^ 1) << 63;
    const u64 sin_sign = (((quadrant >> 1) & 1) ^ 1) << 63;
    return {from_bits(bits_of(swap ? s : c) ^ cos_sign), from_bits(bits_of(swap ? c : s) ^ sin_sign)};
}

// ln 2 in two parts; the first has 32 trailing zero bits, so that its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;

// ln u + lost for normal u > 0 and a small correction. u = 2^k m with m in [1/sqrt(2), sqrt(2)]; with f = m - 1 and
// s = f/(2 + f), ln m = 2 atanh s = f - f^2/2 + s (f^2/2 + z Q(z)), z = s^2; Q is a Chebyshev interpolant (relative
// error of ln m: 5e-18).
MS_FN double log_corrected(double u, double lost) {
    // Adding the distance from sqrt(1/2) to 1 lets the exponent field change at sqrt(2).
    constexpr u64 kShift = 0x3ff0000000000000ULL - 0x3fe6a09e667f3bcdULL;
    const u64 bits = bits_of(u) + kShift;
    // The exponent as a double: placed into the mantissa of 2^52.
    const double k = from_bits((bits >> 52) | 0x4330000000000000ULL) - (0x1p52 + 1023.0);
    const double f = from_bits((bits & 0x000fffffffffffffULL) + 0x3fe6a09e667f3bcdULL) - 1.0;
    const double s = f * reciprocal(2.0 + f);
    const double z = s * s;
    const double q =
        z * (0x1.5555555555558p-1 +
             z * (0x1.9999999995273p-2 +
                  z * (0x1.2492492dfd86cp-2 +
                       z * (0x1.c71c62d5e53e0p-3 +
                            z * (0x1.7462b91b8df65p-3 + z * (0x1.39fdcceb4bb45p-3 + z * 0x1.2b5f68a50d903p-3))))));
    const double half = 0.5 * f * f;
    return k * kLn2High - ((half - (s * (half + q) + (k * kLn2Low + lost))) - f);
}

// ln(x) for normal x > 0, within 1.5 units in the last place.
MS_FN double natural_log(double x) { return log_corrected(x, 0.0); }

// ln(1 + x) for x > -1 with 1 + x normal, within 1.5 units in the last place: the rounding error of u = 1 + x comes
// back as (x - (u - 1))/u.
MS_FN double log_1p(double x) {
    const double u = 1.0 + x;
    return log_corrected(u, select(u < 2.0, x - (u - 1.0), 1.0 - (u - x)) * reciprocal(u));
}

// e^x = scale (1 + expm1) for |x| < 700. x = k ln 2 + y with |y| <= ln(2)/2, scale = 2^k and expm1 = e^y - 1 =
// y + y^2 E(y) with a Chebyshev interpolant E (relative error 4e-17).
struct ExpParts {
    double scale, expm1;
};

MS_FN ExpParts exp_parts(double x) {
    constexpr double kRound = 6755399441055744.0;  // see azimuth()
    const double shifted = x * 1.4426950408889634 + kRound;
    const double k = shifted - kRound;
    const double high = x - k * kLn2High;
    const double y = high - k * kLn2Low;
    const double lost = (high - y) - k * kLn2Low;
    const double e = 0x1.0000000000001p-1 +
                     y * (0x1.5555555555556p-3 +
                          y * (0x1.5555555553d37p-5 +
                               y * (0x1.11111111109a6p-7 +
                                    y * (0x1.6c16c1789d1d7p-10 +
                                         y * (0x1.a01a01a7cebcdp-13 +
                                              y * (0x1.a019b8ca26fcfp-16 +
                                                   y * (0x1.71de0d85293b8p-19 +
                                                        y * (0x1.2891d4ffbb0f9p-22 + y * 0x1.af390ba7e6f47p-26))))))));
    const double expm1_y = y + (y * y * e + lost);
    const double scale = from_bits((bits_of(shifted) + 1023) << 52);  // 2^k
    return {scale, expm1_y};
}

// e^x - 1 for |x| < 700, within 2 units in the last place.
MS_FN double exp_m1(double x) {
    const ExpParts e = exp_parts(x);
    return e.scale * e.expm1 + (e.scale - 1.0);
}

// e^x for |x| < 700, within 1.5 units in the last place.
MS_FN double exponential(double x) {
    const ExpParts e = exp_parts(x);
    return e.scale * e.expm1 + e.scale;
}

MS_END_NAMESPACE
