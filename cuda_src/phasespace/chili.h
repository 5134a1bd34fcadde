// Chili: phase space of hadron collisions in transverse momenta, rapidities and azimuths; momentum shares and
// laboratory momenta come out of it. arXiv:2302.10449; MadSpace, arXiv:2602.06895, section 2.2.
//
// All but the last particle: p_T from its map, y flat in |y| <= y_lim, azimuth relative to that of the sum so far. The
// last one balances the transverse momentum, its rapidity is flat between the limits x_1, x_2 <= 1.
#pragma once

#include "arithmetic.h"
#include "decays.h"

MS_BEGIN_NAMESPACE

// With a cut: 1/p_T^2 is uniform. Without: r = p_T (2 m + p_max)/(p_max (2 m + p_T)), m the mass or 1 GeV. jacobian is
// d(p_T^2)/dr.
struct ChiliPt {
    double pt, jacobian;
};

struct ChiliScale {
    double p_max, mass, below, above;  // below = 1/p_max^2, above = 1/p_min^2
    bool cut;
};

MS_FN ChiliScale chili_scale(double energy, double mass, double pt_min) {
    const double p_max = 0.5 * energy, floor_2 = pt_min * pt_min;
    const bool cut = floor_2 > 1e-9;
    return {p_max, select(mass > kEnergyFloor, mass, 1.0), 1.0 / (p_max * p_max), 1.0 / select(cut, floor_2, 1.0), cut};
}

MS_FN ChiliPt chili_at(const ChiliScale& c, double pt) {
    const double pt_2 = pt * pt, sum = 2.0 * c.mass + pt;
    const double with = pt_2 * pt_2 * (c.above - c.below);
    const double without = pt * c.p_max * (sum * sum) / (c.mass * (2.0 * c.mass + c.p_max));
    return {pt, at_least(select(c.cut, with, without), 0.0)};
}

// Largest rapidity that the energy allows for a transverse mass: ln(h + sqrt(h^2 - 1)) with h = E/(2 m_T), as ln(1 +
// ..).
MS_FN double chili_rapidity(double energy, double mt, double y_max) {
    const double h = 0.5 * energy / select(mt > 0.0, mt, 1.0);
    const double above = at_least(h - 1.0, 0.0);
    const double y = log_1p(above + root(above * (h + 1.0)));
    return smaller(select(mt > 0.0, y, y_max), y_max);
}

// E and p_z of a rapidity: m_T cosh y, m_T sinh y.
MS_FN FourVector from_rapidity(double mt, double x, double y, double rapidity) {
    const double e = exponential(rapidity), inverse = 1.0 / e, m = exp_m1(rapidity);
    return {mt * 0.5 * (e + inverse), x, y, mt * 0.5 * (m + m * inverse)};
}

// in:  r_pt, r_y, r_phi, energy, mass, pt_min, y_max, sum (4), weight
// out: p (4), sum (4), weight
struct ChiliParticle {
    static constexpr int kInputs = 12, kOutputs = 9;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double r = clamp_unit(in[0]), r_y = clamp_unit(in[1]);
        const double energy = in[3], mass = in[4], y_max = in[6];
        const ChiliScale c = chili_scale(energy, mass, in[5]);
        const double with = root(1.0 / (r * c.below + (1.0 - r) * c.above));
        const double without = 2.0 * c.mass * c.p_max * r / (2.0 * c.mass + c.p_max * (1.0 - r));
        const ChiliPt t = chili_at(c, select(c.cut, with, without));
        const double mt = root(t.pt * t.pt + mass * mass);
        const double limit = chili_rapidity(energy, mt, y_max);
        const FourVector sum = four_vector(in + 7);
        const double length = root(transverse_2(sum));
        const double inverse = 1.0 / select(length > 0.0, length, 1.0);
        const double cx = select(length > 0.0, sum.x * inverse, 1.0), cy = sum.y * inverse;
        const CosSin phi = half_turns(2.0 * clamp_unit(in[2]));
        const double x = t.pt * (cx * phi.cos - cy * phi.sin), y = t.pt * (cy * phi.cos + cx * phi.sin);
        const FourVector p = from_rapidity(mt, x, y, limit * (r_y - (1.0 - r_y)));
        store(p, out);
        store(sum + p, out + 4);
        out[8] = in[11] * (t.jacobian * kPi * at_least(limit, 0.0)) * unit_weight(in[0]) * unit_weight(in[1]) *
                 unit_weight(in[2]);
    }
};

// Range of the last rapidity.
struct ChiliLimits {
    double low, width, mt;
};

MS_FN ChiliLimits chili_limits(const FourVector& sum, double energy, double mass, double y_max) {
    const double mt = root(transverse_2(sum) + mass * mass);
    const double inverse = 1.0 / select(mt > 0.0, mt, 1.0);
    const double minus = (energy - (sum.e - sum.z)) * inverse, plus = (energy - (sum.e + sum.z)) * inverse;
    const bool open = (minus > 0.0) & (plus > 0.0) & (mt > 0.0);
    const double low = at_least(-natural_log(select(open, minus, 1.0)), -y_max);
    const double high = smaller(natural_log(select(open, plus, 1.0)), y_max);
    return {low, select(open, at_least(high - low, 0.0), 0.0), mt};
}

// in:  r_y, energy, mass, y_max, sum (4), weight
// out: beams (8), p (4), det
struct ChiliLast {
    static constexpr int kInputs = 9, kOutputs = 13;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double energy = in[1];
        const FourVector sum = four_vector(in + 4);
        const ChiliLimits y = chili_limits(sum, energy, in[2], in[3]);
        const FourVector p = from_rapidity(y.mt, -sum.x, -sum.y, y.low + clamp_unit(in[0]) * y.width);
        const double plus = 0.5 * ((sum.e + sum.z) + (p.e + p.z)), minus = 0.5 * ((sum.e - sum.z) + (p.e - p.z));
        store({plus, 0.0, 0.0, plus}, out);
        store({minus, 0.0, 0.0, -minus}, out + 4);
        store(p, out + 8);
        const bool open = (2.0 * plus < energy) & (2.0 * minus < energy);
        const double det = in[8] * y.width / (energy * energy) * unit_weight(in[0]);
        out[12] = finite_weight(select(open, det, 0.0), plus + minus + p.x + p.y);
    }
};

// in:  3 n - 2 random numbers (n - 1 p_T, n - 1 y, y of the last one, n - 1 phi), energy, n masses, n pt_min, n y_max
// out: beams, n momenta, det
struct ChiliForward {
    MS_HOST_FN static bool accepts(int n_in, int n_out) {
        const int n = (n_out - 9) / 4;
        return n >= 2 && n_out == 4 * n + 9 && n_in == 6 * n - 1;
    }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int, int n_out) {
        const int n = (n_out - 9) / 4, energy = 3 * n - 2, mass = energy + 1, pt_min = mass + n, y_max = pt_min + n;
        auto weight = ex.constant(1.0);
        auto s0 = ex.constant(0.0), s1 = s0, s2 = s0, s3 = s0;
        for (int i = 0; i < n - 1; ++i) {
            const auto p = ex.template run<ChiliParticle>(ex.in(i), ex.in(n - 1 + i), ex.in(2 * n - 1 + i),
                                                          ex.in(energy), ex.in(mass + i), ex.in(pt_min + i),
                                                          ex.in(y_max + i), s0, s1, s2, s3, weight);
            for (int c = 0; c < 4; ++c) ex.out(8 + 4 * i + c, p[c]);
            s0 = p[4], s1 = p[5], s2 = p[6], s3 = p[7], weight = p[8];
        }
        const auto last = ex.template run<ChiliLast>(ex.in(2 * n - 2), ex.in(energy), ex.in(mass + n - 1),
                                                     ex.in(y_max + n - 1), s0, s1, s2, s3, weight);
        for (int c = 0; c < 8; ++c) ex.out(c, last[c]);
        for (int c = 0; c < 5; ++c) ex.out(4 * n + 4 + c, last[8 + c]);
    }
};

// in:  p (4), energy, mass, pt_min, y_max, sum (4), weight
// out: r_pt, r_y, r_phi, sum (4), weight
struct ChiliParticleInverse {
    static constexpr int kInputs = 13, kOutputs = 8;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector p = four_vector(in), sum = four_vector(in + 8);
        const double energy = in[4], mass = in[5], y_max = in[7];
        const ChiliScale c = chili_scale(energy, mass, in[6]);
        const ChiliPt t = chili_at(c, root(transverse_2(p)));
        const double pt_2 = t.pt * t.pt;
        const double with = (c.above - 1.0 / select(pt_2 > 0.0, pt_2, 1.0)) / (c.above - c.below);
        const double without = t.pt * (2.0 * c.mass + c.p_max) / (c.p_max * (2.0 * c.mass + t.pt));
        const double mt = root(pt_2 + mass * mass);
        const double limit = chili_rapidity(energy, mt, y_max);
        const bool open = (limit > 0.0) & (t.jacobian > 0.0);
        const double safe = select(open, limit, 1.0);
        // y = asinh(p_z/m_T)
        const double z = absolute(p.z) / select(mt > 0.0, mt, 1.0);
        const double size = log_1p(z + z * z / (1.0 + root(1.0 + z * z)));
        const double turn = arctan2(p.y * sum.x - p.x * sum.y, p.x * sum.x + p.y * sum.y);
        const bool first = transverse_2(sum) > 0.0;
        const double angle = (first ? turn : arctan2(p.y, p.x)) * (0.5 * kInversePi);
        out[0] = select(c.cut, with, without);
        out[1] = 0.5 + 0.5 * select(p.z < 0.0, -size, size) / safe;
        out[2] = angle < 0.0 ? angle + 1.0 : angle;
        store(sum + p, out + 3);
        out[7] = select(open, in[12] / (select(open, t.jacobian, 1.0) * kPi * safe), 0.0);
    }
};

// in:  p (4), energy, mass, y_max, sum (4), weight
// out: r_y, det
struct ChiliLastInverse {
    static constexpr int kInputs = 12, kOutputs = 2;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector p = four_vector(in);
        const double energy = in[4];
        const ChiliLimits y = chili_limits(four_vector(in + 7), energy, in[5], in[6]);
        const double z = absolute(p.z) / select(y.mt > 0.0, y.mt, 1.0);
        const double size = log_1p(z + z * z / (1.0 + root(1.0 + z * z)));
        const bool open = y.width > 0.0;
        const double inverse = 1.0 / select(open, y.width, 1.0);
        out[0] = (select(p.z < 0.0, -size, size) - y.low) * inverse;
        out[1] = select(open, in[11] * (energy * energy) * inverse, 0.0);
    }
};

// in:  beams, n momenta, energy, n masses, n pt_min, n y_max
// out: 3 n - 2 random numbers, det
struct ChiliInverse {
    MS_HOST_FN static bool accepts(int n_in, int n_out) {
        const int n = (n_out + 1) / 3;
        return n >= 2 && n_out == 3 * n - 1 && n_in == 7 * n + 9;
    }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int, int n_out) {
        const int n = (n_out + 1) / 3, energy = 4 * n + 8, mass = energy + 1, pt_min = mass + n, y_max = pt_min + n;
        auto weight = ex.constant(1.0);
        auto s0 = ex.constant(0.0), s1 = s0, s2 = s0, s3 = s0;
        for (int i = 0; i < n - 1; ++i) {
            const int at = 8 + 4 * i;
            const auto r = ex.template run<ChiliParticleInverse>(ex.in(at), ex.in(at + 1), ex.in(at + 2), ex.in(at + 3),
                                                                 ex.in(energy), ex.in(mass + i), ex.in(pt_min + i),
                                                                 ex.in(y_max + i), s0, s1, s2, s3, weight);
            ex.out(i, r[0]);
            ex.out(n - 1 + i, r[1]);
            ex.out(2 * n - 1 + i, r[2]);
            s0 = r[3], s1 = r[4], s2 = r[5], s3 = r[6], weight = r[7];
        }
        const int at = 4 * n + 4;
        const auto last =
            ex.template run<ChiliLastInverse>(ex.in(at), ex.in(at + 1), ex.in(at + 2), ex.in(at + 3), ex.in(energy),
                                              ex.in(mass + n - 1), ex.in(y_max + n - 1), s0, s1, s2, s3, weight);
        ex.out(2 * n - 2, last[0]);
        ex.out(3 * n - 2, last[1]);
    }
};

MS_END_NAMESPACE
