// One-dimensional maps of a random number r onto an invariant s in [s_min, s_max], and back; det = ds/dr, dr/ds.
//
// An empty range (s_max <= s_min) gives s = s_min with det 0 forwards, r = 0 with det 0 backwards.
// Densities: MadSpace, arXiv:2602.06895, section 2.2.
#pragma once

#include "invariant.h"
#include "madspace/angles.h"
#include "step.h"

MS_BEGIN_NAMESPACE

// q = s - m^2 + kInvariantOffset_2: stays positive for a massless propagator. Upstream's, in GeV^2.
constexpr double kInvariantOffset_2 = 1e-2;

// q_min from s_min and m; where s_min lies below the pole the singularity stays at the lower end.
MS_FN double lowest_q(double s_min, double m) {
    return at_least(s_min - m * m + kInvariantOffset_2, kInvariantOffset_2);
}

MS_FN double range_width(double s_min, double s_max) { return at_least(s_max - s_min, 0.0); }

// s from its distance to the nearer end.
MS_FN double between(double s_min, double s_max, double width, double f, double one_minus_f) {
    return f < 0.5 ? s_min + f * width : select(width > 0.0, s_max, s_min) - one_minus_f * width;
}

// The inverse of a map of invariant.h: r and the slope df/dr there.
struct UnitInverse {
    double r, slope;
};

// above = s - s_min >= 0
struct UniformInverse {
    MS_FN static UnitInverse eval(double above, double, double width, double) { return {above / width, 1.0}; }
};

struct LogInverse {
    MS_FN static UnitInverse eval(double above, double q_min, double width, double) {
        const double l = log_1p(width / q_min);
        return {log_1p(above / q_min) / l, (q_min + above) * l / width};
    }
};

struct PowerInverse {
    MS_FN static UnitInverse eval(double above, double q_min, double width, double nu) {
        const double p = distinct_power(nu);
        const double rise = log_1p(above / q_min), l = log_1p(width / q_min);
        const double g = exp_m1(p * l);
        return {exp_m1(p * rise) / g, q_min * exponential(nu * rise) * (g / p) / width};
    }
};

// in:  r, mass, nu, s_min, s_max
// out: s, det
template <class Map>
MS_FN void sample_invariant(double r_in, double mass, double nu, double s_min, double s_max, double* out) {
    const double width = range_width(s_min, s_max);
    const UnitMap map = Map::eval(clamp_unit(r_in), lowest_q(s_min, mass), width, nu);
    out[0] = between(s_min, s_max, width, map.f, map.one_minus_f);
    out[1] = unit_weight(r_in) * finite_weight(width * map.slope, out[0]);
}

template <class Inverse>
MS_FN void find_random(double s, double mass, double nu, double s_min, double s_max, double* out) {
    const double width = range_width(s_min, s_max);
    const bool open = width > 0.0;
    const double safe_width = select(open, width, 1.0);
    const double above = at_least(s - s_min, 0.0);
    const UnitInverse map =
        Inverse::eval(select(above < safe_width, above, safe_width), lowest_q(s_min, mass), safe_width, nu);
    out[0] = select(open, map.r, 0.0);
    out[1] = select(open && s - s == 0.0, 1.0 / (safe_width * map.slope), 0.0);
}

// in: r or s, s_min, s_max; out: s or r, det
struct UniformInvariant {
    static constexpr int kInputs = 3, kOutputs = 2;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        sample_invariant<UniformMap>(in[0], 0.0, 0.0, in[1], in[2], out);
    }
};

struct UniformInvariantInverse {
    static constexpr int kInputs = 3, kOutputs = 2;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        find_random<UniformInverse>(in[0], 0.0, 0.0, in[1], in[2], out);
    }
};

// in: r or s, mass, s_min, s_max; out: s or r, det. kPower: nu where the map wants one that is known beforehand.
template <class Map>
struct StableInvariant {
    static constexpr int kInputs = 4, kOutputs = 2;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        sample_invariant<Map>(in[0], in[1], 0.0, in[2], in[3], out);
    }
};

struct StableInvariantInverse {
    static constexpr int kInputs = 4, kOutputs = 2;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        find_random<LogInverse>(in[0], in[1], 1.0, in[2], in[3], out);
    }
};

// in: r or s, mass, nu, s_min, s_max; out: s or r, det
struct StableInvariantNu {
    static constexpr int kInputs = 5, kOutputs = 2;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        // 1 - nu as distinct_power() has it.
        sample_invariant<PowerMap>(in[0], in[1], 1.0 - distinct_power(in[2]), in[3], in[4], out);
    }
};

struct StableInvariantNuInverse {
    static constexpr int kInputs = 5, kOutputs = 2;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        find_random<PowerInverse>(in[0], in[1], in[2], in[3], in[4], out);
    }
};

// A Breit-Wigner: the angle y = atan((s - m^2)/(m G)) is uniform. With a and b the values of (s - m^2)/(m G) at the
// ends, dy = y_max - y_min = atan2(b - a, 1 + a b), and from the lower end, with x = r dy,
//   s - s_min = m G sin x (1 + a^2)/(cos x - a sin x),   1 + tan^2 y = (1 + a^2)/(cos x - a sin x)^2;
// the same from the upper end with x = (1-r) dy and a -> -b. Below the peak the lower end is taken and above it the
// upper one: there all terms are positive. Far from the ends s comes from tan y instead, since s_max can be much larger
// than s.
struct Resonance {
    double scale, a, b, dy;  // scale = m G

    MS_FN static Resonance make(double mass, double width, double s_min, double s_max) {
        const double scale = at_least(mass * width, 1e-30);
        const double a = (s_min - mass * mass) / scale, b = (s_max - mass * mass) / scale;
        return {scale, a, b, arctan2(range_width(s_min, s_max) / scale, 1.0 + a * b)};
    }
};

// in:  r, mass, width, s_min, s_max
// out: s, det
struct BreitWigner {
    static constexpr int kInputs = 5, kOutputs = 2;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double r = clamp_unit(in[0]), s_min = in[3], s_max = in[4];
        const Resonance y = Resonance::make(in[1], in[2], s_min, s_max);
        const CosSin low = half_turns(r * y.dy * kInversePi), high = half_turns((1.0 - r) * y.dy * kInversePi);
        const bool below = y.a < 0.0 && low.cos > 0.0 && low.sin <= -y.a * low.cos;
        const double end = below ? -y.a : y.b;
        const double sin = select(below, low.sin, high.sin), cos = select(below, low.cos, high.cos);
        const double ratio = 1.0 / (cos + end * sin);
        const double spread = y.scale * (1.0 + end * end) * ratio;
        const double distance = sin * spread;
        const double tangent = (end * cos - sin) * ratio;
        const double sign = below ? 1.0 : -1.0;
        const double from_end = (below ? s_min : select(y.dy > 0.0, s_max, s_min)) + sign * distance;
        const double from_peak = in[1] * in[1] - sign * (y.scale * tangent);
        out[0] = distance < 0.5 * (y.scale * end) ? from_end : select(y.dy > 0.0, from_peak, s_min);
        out[1] = unit_weight(in[0]) * finite_weight(y.dy * spread * ratio, out[0]);
    }
};

// in:  s, mass, width, s_min, s_max
// out: r, det
struct BreitWignerInverse {
    static constexpr int kInputs = 5, kOutputs = 2;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const Resonance y = Resonance::make(in[1], in[2], in[3], in[4]);
        const double c = (in[0] - in[1] * in[1]) / y.scale;
        const bool open = y.dy > 0.0;
        const double dy = select(open, y.dy, 1.0);
        out[0] = select(open, arctan2(at_least(in[0] - in[3], 0.0) / y.scale, 1.0 + y.a * c) / dy, 0.0);
        out[1] = select(open && c - c == 0.0, 1.0 / (dy * y.scale * (1.0 + c * c)), 0.0);
    }
};

MS_END_NAMESPACE
