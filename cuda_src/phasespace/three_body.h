// 1 -> 3 in two energies and three angles: det = pi^2 dE_1 dE_2 in the measure of decays.h.
// MadSpace, arXiv:2602.06895, section 2.2; Byckling and Kajantie, Particle Kinematics (1973), chapter V.
//
// The range of E_2 at given E_1 is that of a flat cosine c = 2 r_E2 - 1 in the frame where particles 2 and 3 are back
// to back, with respect to the direction in which they fly together. Built there, no energy limit is a difference and
// no cosine needs a clip. With the excess x = m0 - m1 - m2 - m3 and m_23 = m2 + m3:
//   T_1 = E_1 - m1 in [0, x (x + 2 m_23)/(2 m0)],   s_23 - m_23^2 = (1 - r_E1) x (x + 2 m_23),
//   dE_2 = |p_1| sqrt(lambda(s_23, m2^2, m3^2))/s_23 = 2 |p_1| |p*|/sqrt(s_23).
#pragma once

#include "decays.h"

MS_BEGIN_NAMESPACE

// Rotation that takes z to the direction (cos_theta, phi) and x into the plane of z and that direction.
MS_FN ThreeVector rotate_polar(const ThreeVector& p, double cos_theta, double sin_theta, const CosSin& phi) {
    const double x = cos_theta * p.x + sin_theta * p.z;
    return {phi.cos * x - phi.sin * p.y, phi.sin * x + phi.cos * p.y, cos_theta * p.z - sin_theta * p.x};
}

MS_FN ThreeVector rotate_polar_inverse(const ThreeVector& p, double cos_theta, double sin_theta, const CosSin& phi) {
    const double x = phi.cos * p.x + phi.sin * p.y;
    return {cos_theta * x - sin_theta * p.z, phi.cos * p.y - phi.sin * p.x, sin_theta * x + cos_theta * p.z};
}

struct ThreeBodyFrame {
    double m0, m1, m2, m3, det;
    FourVector p1, p2, p3;  // in the parent's frame
};

// in: r_e1, r_e2, r_phi, r_cos_theta, r_beta, m0, m1, m2, m3
MS_FN ThreeBodyFrame three_body_frame(const double* in) {
    const double excess = ((in[5] - in[6]) - in[7]) - in[8];
    const Parent p0 = parent(in[5], excess, smaller(in[6], smaller(in[7], in[8])));
    const double m0 = p0.m0, m1 = select(p0.open > 0.0, in[6], 0.0), m2 = select(p0.open > 0.0, in[7], 0.0),
                 m3 = select(p0.open > 0.0, in[8], 0.0), x = select(p0.open > 0.0, excess, m0);
    const double r1 = clamp_unit(in[0]), r2 = clamp_unit(in[1]), rc = clamp_unit(in[3]);
    const double m23 = m2 + m3, range = x * (x + 2.0 * m23);
    const double width_1 = range * (0.5 / m0);
    const double kinetic = r1 * width_1;
    const double p1 = root(kinetic * (kinetic + 2.0 * m1));
    // The floor keeps massless particles at r_E1 = 1 from having no rest frame; it moves momenta by 1e-20 of m0.
    const double above = at_least((1.0 - r1) * range, 1e-40 * (m0 * m0));
    const double mass = root(m23 * m23 + above);
    const PairKinematics pair = pair_from_excess(mass, m2, m3, above / (mass + m23));
    const double inverse = 1.0 / mass;
    const double energy = root(mass * mass + p1 * p1);
    const double cosine = r2 - (1.0 - r2);
    const double along = energy * (pair.p * cosine), transverse = pair.p * (2.0 * root(r2 * (1.0 - r2)));
    const double z2 = -(along + p1 * pair.e1) * inverse, z3 = (along - p1 * pair.e2) * inverse;

    const double cos_theta = rc - (1.0 - rc), sin_theta = 2.0 * root(rc * (1.0 - rc));
    const CosSin phi = azimuth(clamp_unit(in[2])), beta = azimuth(clamp_unit(in[4]));
    const double tx = transverse * beta.cos, ty = transverse * beta.sin;
    const ThreeVector k1 = rotate_polar({0.0, 0.0, p1}, cos_theta, sin_theta, phi);
    const ThreeVector k2 = rotate_polar({tx, ty, z2}, cos_theta, sin_theta, phi);
    const ThreeVector k3 = rotate_polar({-tx, -ty, z3}, cos_theta, sin_theta, phi);
    const double e2 = (energy * pair.e1 + p1 * (pair.p * cosine)) * inverse;
    const double e3 = (energy * pair.e2 - p1 * (pair.p * cosine)) * inverse;
    const double det = kPi * kPi * width_1 * (2.0 * p1 * pair.p * inverse);
    const double weight = unit_weight(in[0]) * unit_weight(in[1]) * unit_weight(in[2]) * unit_weight(in[3]);
    return {m0,
            m1,
            m2,
            m3,
            select(p0.open > 0.0, det, 0.0) * (weight * unit_weight(in[4])),
            {m1 + kinetic, k1.x, k1.y, k1.z},
            {e2, k2.x, k2.y, k2.z},
            {e3, k3.x, k3.y, k3.z}};
}

// in:  r_e1, r_e2, r_phi, r_cos_theta, r_beta, m0, m1, m2, m3
// out: p1 (4), p2 (4), p3 (4), det
struct ThreeBodyDecayCom {
    static constexpr int kInputs = 9, kOutputs = 13;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const ThreeBodyFrame frame = three_body_frame(in);
        store(frame.p1, out);
        store(frame.p2, out + 4);
        store(frame.p3, out + 8);
        out[12] = frame.det;
    }
};

MS_FN FourVector choose(bool condition, const FourVector& a, const FourVector& b) {
    return {select(condition, a.e, b.e), select(condition, a.x, b.x), select(condition, a.y, b.y),
            select(condition, a.z, b.z)};
}

// The particle that is hardest in the laboratory is the parent minus the others, which are put on their mass shells.
//
// in:  as ThreeBodyDecayCom, then p0 (4)
// out: p1 (4), p2 (4), p3 (4), det
struct ThreeBodyDecay {
    static constexpr int kInputs = 13, kOutputs = 13;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const ThreeBodyFrame frame = three_body_frame(in);
        const FourVector total = four_vector(in + 9);
        const FourVector p1 = boost_from_rest(frame.p1, frame.m1, total, frame.m0);
        const FourVector p2 = boost_from_rest(frame.p2, frame.m2, total, frame.m0);
        const FourVector p3 = boost_from_rest(frame.p3, frame.m3, total, frame.m0);
        const bool first = (p1.e > p2.e) & (p1.e > p3.e);
        const bool second = !first & (p2.e > p3.e);
        const bool third = !first & !second;
        const FourVector rest = total - (choose(first, p2, p1) + choose(third, p2, p3));
        store(choose(first, rest, p1), out);
        store(choose(second, rest, p2), out + 4);
        store(choose(third, rest, p3), out + 8);
        out[12] = finite_weight(frame.det, (p1.e + p2.e + p3.e) + (rest.e + rest.x + rest.y + rest.z));
    }
};

// in:  p1 (4), p2 (4), p3 (4)
// out: r_e1, r_e2, r_phi, r_cos_theta, r_beta, m0, m1, m2, m3, p0 (4) where kParent, det
template <bool kParent>
struct ThreeBodyDecayInverse {
    static constexpr int kInputs = 12, kOutputs = kParent ? 14 : 10;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector p1 = four_vector(in), p2 = four_vector(in + 4), p3 = four_vector(in + 8);
        const FourVector p23 = p2 + p3, p0 = p1 + p23;
        const double m0 = root(at_least(mass_2(p0), kEnergyFloor * kEnergyFloor));
        const double m1 = root(particle_mass_2(p1)), m2 = root(particle_mass_2(p2)), m3 = root(particle_mass_2(p3));
        const double m23 = m2 + m3;
        const double x = at_least(((m0 - m1) - m2) - m3, 0.0);
        const double width_1 = x * (x + 2.0 * m23) * (0.5 / m0);
        const double s23 = at_least(mass_2(p23), 1e-40 * (m0 * m0));
        const double mass = root(s23);

        ThreeVector k1 = space(p1), k2 = space(p2);
        if constexpr (kParent) {
            k1 = boost_to_rest(p1, p0, m0);
            k2 = boost_to_rest(p2, p0, m0);
        }
        const double length_2 = dot(k1, k1), length = root(length_2);
        const double transverse = root(k1.x * k1.x + k1.y * k1.y);
        const bool tilted = transverse > 0.0;
        const double inverse_t = 1.0 / select(tilted, transverse, 1.0);
        const double inverse = 1.0 / select(length > 0.0, length, 1.0);
        const CosSin phi = {select(tilted, k1.x * inverse_t, 1.0), k1.y * inverse_t};
        const double cos_theta = select(length > 0.0, k1.z * inverse, 1.0), sin_theta = transverse * inverse;
        const FourVector recoil = {root(s23 + length_2), -k1.x, -k1.y, -k1.z};
        const FourVector q2 = {root(m2 * m2 + dot(k2, k2)), k2.x, k2.y, k2.z};
        const ThreeVector k = rotate_polar_inverse(boost_to_rest(q2, recoil, mass), cos_theta, sin_theta, phi);
        const double p = root(dot(k, k));

        const double kinetic = length_2 / (root(m1 * m1 + length_2) + select(length > 0.0, m1, 1.0));
        const double width_2 = 2.0 * length * p / mass;
        const double volume = width_1 * width_2;
        out[0] = select(width_1 > 0.0, kinetic / select(width_1 > 0.0, width_1, 1.0), 0.0);
        out[1] = cosine_random({k.x, k.y, -k.z}, p);
        out[2] = azimuth_random(k1.y, k1.x);
        out[3] = cosine_random(k1, length);
        out[4] = azimuth_random(k.y, k.x);
        out[5] = m0;
        out[6] = m1;
        out[7] = m2;
        out[8] = m3;
        if constexpr (kParent) store(p0, out + 9);
        out[kOutputs - 1] = select(volume > 0.0, 1.0 / (kPi * kPi * select(volume > 0.0, volume, 1.0)), 0.0);
    }
};

MS_END_NAMESPACE
