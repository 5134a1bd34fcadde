// Dual numbers: a value and its derivative in one direction, with the functions of math.h and angles.h. Headers of
// steps that are read in this mode, between dual_begin.h and dual_end.h, compute with them instead of doubles. Griewank
// and Walther, Evaluating Derivatives (2008), chapter 3.
#pragma once

#include "angles.h"

#if defined(MS_ISA)
#define MS_BEGIN_DUAL_NAMESPACE \
    namespace madspace {        \
    inline namespace MS_ISA {   \
    namespace dual {
#define MS_END_DUAL_NAMESPACE \
    }                         \
    }                         \
    }
#else
#define MS_BEGIN_DUAL_NAMESPACE \
    namespace madspace {        \
    namespace dual {
#define MS_END_DUAL_NAMESPACE \
    }                         \
    }
#endif

MS_BEGIN_DUAL_NAMESPACE

struct Dual {
    double value, slope;

    Dual() = default;
    MS_FN constexpr Dual(double x) : value(x), slope(0.0) {}  // NOLINT: constants are numbers as they are
    MS_FN constexpr Dual(double x, double d) : value(x), slope(d) {}
};

struct DualCosSin {
    Dual cos, sin;
};

MS_FN Dual operator-(Dual a) { return {-a.value, -a.slope}; }
MS_FN Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
MS_FN Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.slope - b.slope}; }
MS_FN Dual operator*(Dual a, Dual b) { return {a.value * b.value, a.slope * b.value + a.value * b.slope}; }
MS_FN Dual operator/(Dual a, Dual b) {
    const double inverse = 1.0 / b.value, q = a.value / b.value;
    return {q, (a.slope - q * b.slope) * inverse};
}
MS_FN Dual& operator+=(Dual& a, Dual b) { return a = a + b; }
MS_FN Dual& operator-=(Dual& a, Dual b) { return a = a - b; }
MS_FN Dual& operator*=(Dual& a, Dual b) { return a = a * b; }
MS_FN Dual& operator/=(Dual& a, Dual b) { return a = a / b; }
MS_FN bool operator<(Dual a, Dual b) { return a.value < b.value; }
MS_FN bool operator>(Dual a, Dual b) { return a.value > b.value; }
MS_FN bool operator<=(Dual a, Dual b) { return a.value <= b.value; }
MS_FN bool operator>=(Dual a, Dual b) { return a.value >= b.value; }
MS_FN bool operator==(Dual a, Dual b) { return a.value == b.value; }
MS_FN bool operator!=(Dual a, Dual b) { return a.value != b.value; }

MS_FN Dual select(bool condition, Dual a, Dual b) {
    return {madspace::select(condition, a.value, b.value), madspace::select(condition, a.slope, b.slope)};
}

MS_FN Dual at_least(Dual x, Dual floor) { return select(x > floor, x, floor); }

MS_FN Dual clamp_unit(Dual x) {
    const Dual y = at_least(x, 0.0);
    return select(y < 1.0, y, 1.0);
}

MS_FN Dual unit_weight(Dual r) { return madspace::unit_weight(r.value); }

MS_FN Dual finite_weight(Dual weight, Dual sum) { return select(sum.value - sum.value == 0.0, weight, 0.0); }

MS_FN Dual absolute(Dual x) { return {madspace::absolute(x.value), x.value < 0.0 ? -x.slope : x.slope}; }

MS_FN Dual reciprocal(Dual x) {
    const double y = madspace::reciprocal(x.value);
    return {y, -(y * y) * x.slope};
}

// The root of a constant 0 is one, though the slope of the root is infinite there.
MS_FN Dual root_of(double y, double slope) { return {y, madspace::select(slope == 0.0, 0.0, 0.5 / y * slope)}; }

MS_FN Dual root(Dual x) { return root_of(madspace::root(x.value), x.slope); }

MS_FN Dual exact_root(Dual x) { return root_of(madspace::exact_root(x.value), x.slope); }

MS_FN Dual fifth_root(Dual x) {
    const double y = madspace::fifth_root(x.value);
    return {y, 0.2 * y / x.value * x.slope};
}

MS_FN Dual natural_log(Dual x) { return {madspace::natural_log(x.value), 1.0 / x.value * x.slope}; }

MS_FN Dual log_1p(Dual x) { return {madspace::log_1p(x.value), 1.0 / (1.0 + x.value) * x.slope}; }

MS_FN Dual exponential(Dual x) {
    const double y = madspace::exponential(x.value);
    return {y, y * x.slope};
}

MS_FN Dual exp_m1(Dual x) { return {madspace::exp_m1(x.value), madspace::exponential(x.value) * x.slope}; }

MS_FN DualCosSin turned(const CosSin& a, double rate) { return {{a.cos, -(a.sin * rate)}, {a.sin, a.cos * rate}}; }

MS_FN DualCosSin azimuth(Dual r) { return turned(madspace::azimuth(r.value), 2.0 * kPi * r.slope); }

MS_FN DualCosSin half_turns(Dual h) { return turned(madspace::half_turns(h.value), kPi * h.slope); }

MS_FN Dual arctan2(Dual y, Dual x) {
    const double norm_2 = x.value * x.value + y.value * y.value;
    const double moment = x.value * y.slope - y.value * x.slope;
    return {madspace::arctan2(y.value, x.value), madspace::select(moment == 0.0, 0.0, 1.0 / norm_2 * moment)};
}

MS_END_DUAL_NAMESPACE
