// One-dimensional maps of a uniform number r onto an invariant between two limits, sampled as q^-nu.
//
// Written as maps of [0, 1] onto itself: f(r) = (q - q_min)/(q_max - q_min), with 1 - f and f' = df/dr beside it, so
// that no difference of nearly equal numbers is ever formed: f and 1 - f both keep their relative precision.
// In physical terms q = q_min + f (q_max - q_min) and dq/dr = f' (q_max - q_min).
// Source of the densities: MadSpace, arXiv:2602.06895, section 2.2 (nu = 0, nu = 1, otherwise).
#pragma once

#include "madspace/math.h"

MS_BEGIN_NAMESPACE

struct UnitMap {
    double f, one_minus_f, slope;
};

// q^4 + q^3 p + q^2 p^2 + q p^3 + p^4 = (q^5 - p^5)/(q - p), symmetric, all terms positive.
MS_FN double fifth_quotient(double q, double p) {
    const double q_2 = q * q, p_2 = p * p, qp = q * p;
    return q_2 * q_2 + p_2 * p_2 + qp * (q_2 + p_2 + qp);
}

// Each map takes r in [0, 1], q_min > 0, the width q_max - q_min >= 0 and the power nu.

struct UniformMap {  // nu = 0
    MS_FN static UnitMap eval(double r, double, double, double) { return {r, 1.0 - r, 1.0}; }
};

// nu = 4/5: q^(1/5) is uniform. With h = q^(1/5), q - q_min = (h - h_min) Q(h, h_min) where Q is fifth_quotient.
struct FifthMap {
    MS_FN static UnitMap eval(double r, double q_min, double width, double) {
        const double low = fifth_root(q_min), high = fifth_root(q_min + width);
        const double inverse = reciprocal(fifth_quotient(high, low));
        const double h = low + r * (width * inverse);
        const double h_2 = h * h;
        return {r * fifth_quotient(h, low) * inverse, (1.0 - r) * fifth_quotient(high, h) * inverse,
                5.0 * h_2 * h_2 * inverse};
    }
};

// nu = 1: ln q is uniform.
struct LogMap {
    MS_FN static UnitMap eval(double r, double q_min, double width, double) {
        const double z = width * reciprocal(q_min);
        const double l = log_1p(z);
        const bool open = z > 1e-300;
        const double inverse = reciprocal(select(open, z, 1.0));
        const double up = exp_m1(r * l);             // q/q_min - 1
        const double down = -exp_m1((r - 1.0) * l);  // 1 - q/q_max
        return {select(open, up * inverse, r), select(open, down * (1.0 + z) * inverse, 1.0 - r),
                select(open, (1.0 + up) * l * inverse, 1.0)};
    }
};

// p = 1 - nu, kept away from 0, where q^p would say nothing, by the last digit of nu.
MS_FN double distinct_power(double nu) {
    const double p = 1.0 - nu;
    return select(absolute(p) > 0x1p-54, p, 0x1p-53);
}

// Any other nu: q^p with p = 1 - nu is uniform. From the two ends, with g = (q_max/q_min)^p - 1 and
// g' = (q_min/q_max)^p - 1: (q/q_min)^p = 1 + r g and (q/q_max)^p = 1 + (1-r) g'. One of g, g' is negative; where it
// takes more than half of the 1 away, ln q comes from the other end.
struct PowerMap {
    MS_FN static UnitMap eval(double r, double q_min, double width, double nu) {
        const double p = 1.0 - nu;
        const double z = width * reciprocal(q_min);
        const double l = log_1p(z);
        const bool open = z > 1e-300;
        const double inverse = reciprocal(select(open, z, 1.0));
        const double g_low = exp_m1(p * l), g_high = exp_m1(-p * l);
        const double from_low = r * g_low, from_high = (1.0 - r) * g_high;
        const double inverse_p = reciprocal(p);
        const double near_low = log_1p(from_low) * inverse_p, near_high = log_1p(from_high) * inverse_p;
        const bool low_is_bad = from_low < -0.5;
        const double rise = select(low_is_bad, l + near_high, near_low);        // ln(q/q_min)
        const double fall = select(from_high < -0.5, near_low - l, near_high);  // ln(q/q_max)
        // dq/dr = q/p d ln(q^p)/dr, and the last factor is g/(1 + r g) from one end, -g'/(1 + (1-r) g') from the other.
        const double rate =
            select(low_is_bad, -g_high * reciprocal(1.0 + from_high), g_low * reciprocal(1.0 + from_low));
        const double slope = (1.0 + exp_m1(rise)) * rate * inverse_p * inverse;
        return {select(open, exp_m1(rise) * inverse, r), select(open, -exp_m1(fall) * (1.0 + z) * inverse, 1.0 - r),
                select(open, slope, 1.0)};
    }
};

MS_END_NAMESPACE
