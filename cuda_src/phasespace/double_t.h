// Massless p_a + p_b -> p_1 (fixed mass m_1) + a recoil of free mass, sampled in |t_1| = -(p_a - p_1)^2 and
// |t_2| = -(p_b - p_1)^2; and the limits of |t| that floors of transverse energy give.
// MadSpace, arXiv:2602.06895, section 2.2. Measure: d(recoil mass)^2 included, dt_1 dt_2 pi/(2 s).
#pragma once

#include "scattering.h"

MS_BEGIN_NAMESPACE

// The part of [low, high] inside [floor, ceiling], or all of it where nothing would be left.
MS_FN void intersect(double low, double high, double floor, double ceiling, double* out) {
    const double a = at_least(floor, low), b = smaller(ceiling, high);
    const bool some = b > a;
    out[0] = select(some, a, low);
    out[1] = select(some, b, high);
}

// sqrt of a product that is not negative in an open event.
MS_FN double safe_root(double x) { return root(at_least(x, 0.0)); }

// Limits of |t_1|: those of 2 -> 2 with the smallest recoil mass, then s-dependent ones from the floors e_i of particle
// 1 and e_ir of the recoil, from the transverse momentum's rapidities at their ends.
MS_FN void doublet_t1(const FourVector& pa, const FourVector& pb, double m1, double least, double e1, double er,
                      double* out) {
    const Collision c = collide(pa, pb);
    const TransferRange t = transfer_range(c, m1, least);
    const double low = t.low, high = t.high;
    const double e1_2 = e1 * e1, er_2 = er * er;
    const double lambda = (c.m - e1 - er) * (c.m + e1 + er) * ((c.m - e1 + er) * (c.m + e1 - er));
    const double pz = safe_root(lambda) * (0.5 / c.m);
    const double energy = c.m - root(er_2 + pz * pz);
    const bool used = (e1_2 > 0.0) | (er_2 > 0.0);
    double cut[2];
    intersect(low, high, c.m * (energy - pz) - m1 * m1, c.m * (energy + pz) - m1 * m1, cut);
    out[0] = select(used, cut[0], low);
    out[1] = select(used, cut[1], high);
}

// Limits of |t_2| at given |t_1|.
MS_FN void doublet_t2(const FourVector& pa, const FourVector& pb, double m1, double least, double t1, double e1,
                      double er, double* out) {
    const Collision c = collide(pa, pb);
    const double m1_2 = m1 * m1, sum = m1_2 + t1, rest = c.s - sum;
    const double low = select(sum > 0.0, at_least(m1_2 * rest / select(sum > 0.0, sum, 1.0), 0.0), 0.0);
    const double high = at_least(rest - least * least, low);
    const bool used = (e1 > 0.0) | (er > 0.0);
    double cut[2];
    intersect(low, high, c.s * (e1 * e1) / select(sum > 0.0, sum, 1.0) - m1_2,
              c.s * (1.0 - er * er / select(rest > 0.0, rest, 1.0)) - m1_2, cut);
    out[0] = select(used, cut[0], low);
    out[1] = select(used, cut[1], high);
}

// in:  p_a (4), p_b (4), m_1, smallest recoil mass, e_i, e_ir
// out: |t_1|_min, |t_1|_max
struct T1MinMaxDoublet {
    static constexpr int kInputs = 12, kOutputs = 2;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        doublet_t1(four_vector(in), four_vector(in + 4), in[8], in[9], in[10], in[11], out);
    }
};

// in:  p_a (4), p_b (4), p_1 (4), m_1, smallest recoil mass, e_i, e_ir
// out: |t_1|, |t_1|_min, |t_1|_max
struct T1ValueAndMinMaxDoublet {
    static constexpr int kInputs = 16, kOutputs = 3;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector pa = four_vector(in), pb = four_vector(in + 4), p1 = four_vector(in + 8);
        const FourVector rest = (pa + pb) - p1;
        out[0] = momentum_transfer(pa, pb, p1, rest, in[12] * in[12], at_least(mass_2(rest), 0.0));
        doublet_t1(pa, pb, in[12], in[13], in[14], in[15], out + 1);
    }
};

// in:  p_a (4), p_b (4), m_1, smallest recoil mass, |t_1|, e_i, e_ir
// out: |t_2|_min, |t_2|_max
struct T2MinMaxDoublet {
    static constexpr int kInputs = 13, kOutputs = 2;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        doublet_t2(four_vector(in), four_vector(in + 4), in[8], in[9], in[10], in[11], in[12], out);
    }
};

// in:  p_a (4), p_b (4), p_1 (4), m_1, smallest recoil mass, |t_1|, e_i, e_ir
// out: |t_2|, |t_2|_min, |t_2|_max
struct T2ValueAndMinMaxDoublet {
    static constexpr int kInputs = 17, kOutputs = 3;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector pa = four_vector(in), pb = four_vector(in + 4), p1 = four_vector(in + 8);
        const FourVector rest = (pa + pb) - p1;
        out[0] = momentum_transfer(pb, pa, p1, rest, in[12] * in[12], at_least(mass_2(rest), 0.0));
        doublet_t2(pa, pb, in[12], in[13], in[14], in[15], in[16], out + 1);
    }
};

// E_1 = (|t_1| + |t_2| + 2 m_1^2)/(2 sqrt s), p_1z = (|t_2| - |t_1|)/(2 sqrt s) along p_a in the rest frame of P, and
// p_T^2 = (|t_1||t_2| + (|t_1| + |t_2|) m_1^2 + m_1^4 - s m_1^2)/s = ((|t_1| + m_1^2)(|t_2| + m_1^2) - s m_1^2)/s.
//
// in:  r_phi, p_a (4), p_b (4), |t_1|, |t_2|, m_1
// out: p_1 (4), p_2 (4), det
struct DoubleT {
    static constexpr int kInputs = 12, kOutputs = 9;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector pa = four_vector(in + 1), pb = four_vector(in + 5);
        const Collision c = collide(pa, pb);
        const double t1 = in[9], t2 = in[10], m1 = in[11], m1_2 = m1 * m1;
        const double half = 0.5 / c.m;
        const double e1 = (t1 + t2 + 2.0 * m1_2) * half, z = (t2 - t1) * half;
        const double transverse = safe_root((t1 + m1_2) * (t2 + m1_2) - c.s * m1_2) / c.m;
        const double recoil = safe_root(c.s - t1 - t2 - m1_2);
        const CosSin phi = azimuth(clamp_unit(in[0]));
        const ThreeVector n = unit(boost_to_rest(pa, pa + pb, c.m));
        const ThreeVector k = rotate_from_z({transverse * phi.cos, transverse * phi.sin, z}, n);
        boost_pair(k, e1, c.m - e1, m1, recoil, pa + pb, c.m, out);
        const double sum = (out[0] + out[1] + out[2] + out[3]) + (out[4] + out[5] + out[6] + out[7]);
        out[8] = finite_weight(select(c.open, 0.5 * kPi / c.s, 0.0) * unit_weight(in[0]), sum);
    }
};

// in:  p_1 (4), p_2 (4), p_a (4), p_b (4)
// out: r_phi, det
struct DoubleTInverse {
    static constexpr int kInputs = 16, kOutputs = 2;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector p1 = four_vector(in), pa = four_vector(in + 8), pb = four_vector(in + 12);
        const Collision c = collide(pa, pb);
        const ThreeVector n = unit(boost_to_rest(pa, pa + pb, c.m));
        const ThreeVector k = rotate_to_z(boost_to_rest(p1, pa + pb, c.m), n);
        out[0] = azimuth_random(k.y, k.x);
        out[1] = select(c.open, c.s * (2.0 * kInversePi), 0.0);
    }
};

// The range of |t| narrowed by floors e_1 of particle 1 and e_2 of particle 2, which hold where p_a lies along z: with
// the transverse momentum p_T of P, W = sqrt(s + p_T^2) and a = (P_E p_aE - P_z p_az)/W, |t| in a (B -+ R)/W - m_1^2.
// After the AmpliCol program (gen23).
MS_FN void transfer_cut(const FourVector& pa, const FourVector& total, double s, double m1, double m2, double floor_1,
                        double floor_2, double low, double high, double* out) {
    const double pt_2 = transverse_2(total), pt = root(pt_2);
    const double w = root(at_least(s, 0.0) + pt_2);
    const double inverse = 1.0 / select(w > 0.0, w, 1.0);
    const double a = (total.e * pa.e - total.z * pa.z) * inverse;
    const double floor_2_2 = at_least(floor_2 * floor_2 - m2 * m2, 0.0);
    const double away = pt - root(floor_2_2);
    const double e2 = at_least(floor_2, m2);
    const double own = away < 0.0 ? root(m1 * m1 + away * away) : m1;
    const double e1 = at_least(floor_1, own);
    const double b = w * w - e2 * e2 + e1 * e1;
    const double r = safe_root((w - e2 - e1) * (w + e2 - e1) * ((w - e2 + e1) * (w + e2 + e1)));
    double cut[2];
    intersect(low, high, a * (b - r) * inverse - m1 * m1, a * (b + r) * inverse - m1 * m1, cut);
    const bool along = transverse_2(pa) <= 1e-9 * (pa.e * pa.e);
    out[0] = select(along, cut[0], low);
    out[1] = select(along, cut[1], high);
}

// in:  p_a (4), p_b (4), m_1, m_2, floors of the transverse energies
// out: |t|_min, |t|_max
struct TInvMinMaxCut {
    static constexpr int kInputs = 12, kOutputs = 2;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector pa = four_vector(in), pb = four_vector(in + 4);
        const Collision c = collide(pa, pb);
        const TransferRange t = transfer_range(c, in[8], in[9]);
        transfer_cut(pa, pa + pb, c.s, in[8], in[9], in[10], in[11], t.low, t.high, out);
    }
};

// in:  p_a (4), p_b (4), p_1 (4), p_2 (4), floors of the transverse energies
// out: |t|, |t|_min, |t|_max
struct TInvValueAndMinMaxCut {
    static constexpr int kInputs = 18, kOutputs = 3;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector pa = four_vector(in), pb = four_vector(in + 4);
        const FourVector p1 = four_vector(in + 8), p2 = four_vector(in + 12);
        const double m1_2 = particle_mass_2(p1), m2_2 = particle_mass_2(p2), m1 = root(m1_2), m2 = root(m2_2);
        const Collision c = collide(pa, pb);
        const TransferRange t = transfer_range(c, m1, m2);
        out[0] = momentum_transfer(pa, pb, p1, p2, m1_2, m2_2);
        transfer_cut(pa, pa + pb, c.s, m1, m2, in[16], in[17], t.low, t.high, out + 1);
    }
};

MS_END_NAMESPACE
