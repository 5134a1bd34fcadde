// 1 -> 2: isotropic decays. Measure d^3p_1/(2 E_1) d^3p_2/(2 E_2) delta^4, without factors of 2 pi.
// MadSpace, arXiv:2602.06895, section 2.2; angles phi = pi (2 r_phi - 1), cos(theta) = 2 r_c - 1.
#pragma once

#include "boost.h"
#include "madspace/angles.h"
#include "step.h"

MS_BEGIN_NAMESPACE

constexpr double kEnergyFloor = 1e-12;  // GeV: stands in for a parent's mass that is not positive, with weight 0

// Energies and momentum in the parent's frame. With the excess x = m0 - m1 - m2, from sums of non-negative terms:
//   lambda(m0^2, m1^2, m2^2) = x (x + 2 m1)(x + 2 m2)(x + 2 m1 + 2 m2),   |p| = sqrt(lambda)/(2 m0),
//   m0^2 + m1^2 - m2^2       = (x + m1)(x + 2 m2 + m1) + m1^2             = 2 m0 E_1.
// A closed point (x <= 0, or a mass that is none) gets weight 0 and the momenta of a massless pair, so that nothing
// spacelike reaches the next boost.
struct PairKinematics {
    double m0, m1, m2, e1, e2, p, weight;  // weight = pi |p|/m0, the two-body volume
};

// Of an open point with m0 > 0, from its excess.
MS_FN PairKinematics pair_from_excess(double m0, double m1, double m2, double x) {
    const double inverse = 0.5 / m0;
    const double p = root(x * (x + 2.0 * m1) * ((x + 2.0 * m2) * (x + 2.0 * (m1 + m2)))) * inverse;
    const double e1 = ((x + m1) * (x + 2.0 * m2 + m1) + m1 * m1) * inverse;
    const double e2 = ((x + m2) * (x + 2.0 * m1 + m2) + m2 * m2) * inverse;
    return {m0, m1, m2, e1, e2, p, kPi * p / m0};
}

// A parent's mass that can be divided by, and whether the masses of its children, excess left over, can be made from
// it.
struct Parent {
    double m0, open;  // 1 or 0: a bool beside a double would stay in memory
};

// No short circuits here: they are branches, which would keep the loop over events scalar.
MS_FN Parent parent(double m0, double excess, double lightest) {
    const bool open = (excess > 0.0) & (lightest >= 0.0) & (m0 < 1e150);
    const bool positive = (m0 > kEnergyFloor) & (m0 < 1e150);
    return {select(open | positive, m0, kEnergyFloor), select(open, 1.0, 0.0)};
}

MS_FN double smaller(double a, double b) { return select(a < b, a, b); }

MS_FN PairKinematics pair_kinematics(double m0_in, double m1_in, double m2_in) {
    const double excess = (m0_in - m1_in) - m2_in;
    const Parent p0 = parent(m0_in, excess, smaller(m1_in, m2_in));
    PairKinematics pair = pair_from_excess(p0.m0, select(p0.open > 0.0, m1_in, 0.0), select(p0.open > 0.0, m2_in, 0.0),
                                           select(p0.open > 0.0, excess, p0.m0));
    pair.weight = select(p0.open > 0.0, pair.weight, 0.0);
    return pair;
}

// A vector of length p in the direction of (r_phi, r_c): cos = r - (1-r), sin = 2 sqrt(r (1-r)).
MS_FN ThreeVector isotropic(double r_phi, double r_cos, double p) {
    const double r = clamp_unit(r_cos);
    const CosSin phi = azimuth(clamp_unit(r_phi));
    const double transverse = p * (2.0 * root(r * (1.0 - r)));
    return {transverse * phi.cos, transverse * phi.sin, p * (r - (1.0 - r))};
}

// (1 + cos(theta))/2 of a vector, with its relative precision at both ends; `length` is its own.
MS_FN double cosine_random(const ThreeVector& k, double length) {
    const double along = length + absolute(k.z);
    const double inverse = 0.5 / select(length > 0.0, length, 1.0);
    const double away = (k.x * k.x + k.y * k.y) / select(along > 0.0, along, 1.0);
    return select(k.z < 0.0, away, along) * inverse;
}

MS_FN double azimuth_random(double y, double x) { return 0.5 + arctan2(y, x) * (0.5 * kInversePi); }

// in:  r_phi, r_cos_theta, m0, m1, m2
// out: p1 (4), p2 (4), det
struct TwoBodyDecayCom {
    static constexpr int kInputs = 5, kOutputs = 9;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const PairKinematics pair = pair_kinematics(in[2], in[3], in[4]);
        const ThreeVector k = isotropic(in[0], in[1], pair.p);
        store({pair.e1, k.x, k.y, k.z}, out);
        store({pair.e2, -k.x, -k.y, -k.z}, out + 4);
        out[8] = pair.weight * unit_weight(in[0]) * unit_weight(in[1]);
    }
};

// in:  r_phi, r_cos_theta, m0, m1, m2, p0 (4)
// out: p1 (4), p2 (4), det
struct TwoBodyDecay {
    static constexpr int kInputs = 9, kOutputs = 9;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const PairKinematics pair = pair_kinematics(in[2], in[3], in[4]);
        const ThreeVector k = isotropic(in[0], in[1], pair.p);
        boost_pair(k, pair.e1, pair.e2, pair.m1, pair.m2, four_vector(in + 5), pair.m0, out);
        out[8] = finite_weight(pair.weight * unit_weight(in[0]) * unit_weight(in[1]),
                               (out[0] + out[1] + out[2] + out[3]) + (out[4] + out[5] + out[6] + out[7]));
    }
};

// in:  p1 (4), p2 (4)
// out: r_phi, r_cos_theta, m0, m1, m2, p0 (4) where kParent, det
template <bool kParent>
struct TwoBodyDecayInverse {
    static constexpr int kInputs = 8, kOutputs = kParent ? 10 : 6;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector p1 = four_vector(in), p2 = four_vector(in + 4), p0 = p1 + p2;
        const double m0 = root(at_least(mass_2(p0), kEnergyFloor * kEnergyFloor));
        ThreeVector k = space(p1);
        if constexpr (kParent) k = boost_to_rest(p1, p0, m0);
        const double p = root(dot(k, k));
        out[0] = azimuth_random(k.y, k.x);
        out[1] = cosine_random(k, p);
        out[2] = m0;
        out[3] = root(particle_mass_2(p1));
        out[4] = root(particle_mass_2(p2));
        if constexpr (kParent) store(p0, out + 5);
        out[kOutputs - 1] = select(p > 0.0, m0 / (kPi * select(p > 0.0, p, 1.0)), 0.0);
    }
};

MS_END_NAMESPACE
