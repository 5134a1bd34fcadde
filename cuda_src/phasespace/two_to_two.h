// The 2 -> 2 block p_a + p_b -> p_1 + p_2 sampled in t = (p_a - p_1)^2.
//
// Notation: s = M^2 = (p_a + p_b)^2, incoming virtualities -p_a^2 = a >= 0 and -p_b^2 = b >= 0, outgoing masses m_1 and
// m_2, and the excess x = M - m_1 - m_2 >= 0. t is handled as |t| = -t. Sources: MadSpace, arXiv:2602.06895,
// section 2.2; Byckling and Kajantie, Particle Kinematics (1973), chapters II and IV.
//
// Every quantity is a sum of non-negative terms in (x, m_1, m_2, a, b), so nothing cancels at threshold, for unequal
// masses or at high energy, and FMA contraction changes nothing beyond rounding.
#pragma once

#include "boost.h"
#include "invariant.h"
#include "madspace/four_vector.h"

MS_BEGIN_NAMESPACE

// Which incoming legs are off the light cone: known when a mapping is compiled, and terms that vanish are left out.
enum class Virtual { kNone, kA, kB, kBoth };

// |t|_min |t|_max and |t|_max come from expanding the textbook limits into positive terms:
//   2 s |t|_max        = s v + a u_1 + b u_2 + Y
//   s |t|_min |t|_max  = s m_1^2 m_2^2 + a b v + a m_2^2 (u_2 + a) + b m_1^2 (u_1 + b)
// with u_1 = s - m_1^2 + m_2^2, u_2 = s + m_1^2 - m_2^2, v = s - m_1^2 - m_2^2 and
// Y = sqrt(lambda(s, -a, -b) lambda(s, m_1^2, m_2^2)) = s (|t|_max - |t|_min).
//   lambda(s, m_1^2, m_2^2) = x (x + 2 m_1)(x + 2 m_2)(x + 2 m_1 + 2 m_2)
//   lambda(s, -a, -b)       = s^2 + 2 s (a + b) + (a - b)^2
//
// The width vanishes where an excess x <= 0 closes the block; a and b may be negative with Virtual::kBoth alone.
struct TransferLimits {
    double t_min, width, inverse_s, root_a, root_m, u1, u2;
};

template <Virtual kVirtual>
MS_FN TransferLimits transfer_limits(double s, double m1, double m2, double x, double a, double b) {
    constexpr bool has_a = kVirtual == Virtual::kA || kVirtual == Virtual::kBoth;
    constexpr bool has_b = kVirtual == Virtual::kB || kVirtual == Virtual::kBoth;
    const double m1_2 = m1 * m1, m2_2 = m2 * m2;
    const double sum_2 = x + 2.0 * (m1 + m2);
    const double root_m = root(x * (x + 2.0 * m1) * ((x + 2.0 * m2) * sum_2));
    const double u1 = (x + m2) * (x + 2.0 * m1 + m2) + m2_2;
    const double u2 = (x + m1) * (x + 2.0 * m2 + m1) + m1_2;
    const double v = x * sum_2 + 2.0 * (m1 * m2);

    double root_a = s;  // sqrt(lambda(s, -a, -b)) = s + a + b while one of a, b is 0
    double upper = s * v;
    double product = s * (m1_2 * m2_2);
    if constexpr (has_a) {
        root_a += a;
        upper += a * u1;
        product += a * m2_2 * (u2 + a);
    }
    if constexpr (has_b) {
        root_a += b;
        upper += b * u2;
        product += b * m1_2 * (u1 + b);
    }
    if constexpr (has_a && has_b) {
        root_a = root(at_least(s * (s + 2.0 * (a + b)) + (a - b) * (a - b), 0.0));
        product += a * b * v;
    }
    const double y = root_m * root_a;
    const double s_t_max = 0.5 * (upper + y);
    // Far down a chain a closed block may leave numbers whose reciprocal is infinite.
    constexpr double least = 1e-290;
    const double t_min = select(s_t_max > least, product * reciprocal(select(s_t_max > least, s_t_max, 1.0)), 0.0);
    const double inverse_s = reciprocal(s);
    const double width = y * inverse_s;
    return {t_min, width, inverse_s, root_a, root_m, u1, u2};
}

// In the centre-of-mass frame |t| is linear in cos(theta): with f = (|t| - |t|_min)/(|t|_max - |t|_min),
// cos(theta) = (1-f) - f and sin(theta) = 2 sqrt(f (1-f)); the Jacobian d|t|/dr pi/(2 sqrt(lambda(s, -a, -b))) becomes
// f'(r) pi sqrt(lambda(s, m_1^2, m_2^2))/(2 s): the two-body volume times the slope of the unit map.
//
// in:  r, M, m_1, m_2, x, a, b, nu, weight so far
// out: |t|, E_1, E_2, p_parallel and p_T of particle 1 along p_a in the centre-of-mass frame, weight
template <class Map, Virtual kVirtual>
struct MomentumTransfer {
    static constexpr int kInputs = 9, kOutputs = 6;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        // Keeps the map finite for massless particles, as upstream's: q = |t| + 0.01 GeV^2.
        constexpr double kOffset_2 = 1e-2;
        constexpr double kHalfPi = 1.5707963267948966;

        const double r = clamp_unit(in[0]);
        const double m = in[1], m1 = in[2], m2 = in[3], x = in[4], a = in[5], b = in[6], nu = in[7];
        const TransferLimits t = transfer_limits<kVirtual>(m * m, m1, m2, x, a, b);

        const UnitMap map = Map::eval(r, t.t_min + kOffset_2, t.width, nu);
        const double half_inverse_m = 0.5 * (m * t.inverse_s);
        const double p = t.root_m * half_inverse_m;
        out[0] = t.t_min + map.f * t.width;
        out[1] = t.u2 * half_inverse_m;
        out[2] = t.u1 * half_inverse_m;
        out[3] = p * (map.one_minus_f - map.f);
        out[4] = p * (2.0 * root(map.f * map.one_minus_f));
        out[5] = in[8] * (kHalfPi * t.root_m * t.inverse_s * map.slope);
    }
};

// Momenta of a block in its own frame, p_a along z times sign.
MS_FN void scatter_along_beam(double sign, double r_phi, double e1, double e2, double along, double across,
                              double (&out)[8]) {
    const CosSin phi = azimuth(clamp_unit(r_phi));
    const double px = sign * across * phi.cos, py = across * phi.sin, pz = sign * along;
    out[0] = e1;
    out[1] = px;
    out[2] = py;
    out[3] = pz;
    out[4] = e2;
    out[5] = -px;
    out[6] = -py;
    out[7] = -pz;
}

// The first step of a chain.
// in:  r_phi, E_1, E_2, p_parallel, p_T
// out: p_1 (4), p_2 (4)
template <int kSign>
struct ScatterAlongBeam {
    static constexpr int kInputs = 5, kOutputs = 8;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        scatter_along_beam(kSign, in[0], in[1], in[2], in[3], in[4], out);
    }
};

// The direction n in the rest frame of P, mass m, of a beam along z times kBeam, multiplied by sign: a stereographic
// projection. With light-cone component P^- = P_E - kBeam P_z and w = P_T/(M + P^-), n_T = -2 w/(1 + w^2),
// n_z = kBeam (1 - w^2)/(1 + w^2) (boost of a light-like vector, written out). The smaller of P^+ and P^- comes from
// M_T^2 over the larger, so no digit is lost for a fast P.
template <int kBeam>
MS_FN ThreeVector beam_direction(const FourVector& total, double m, double sign) {
    const double pt_2 = transverse_2(total);
    const double along = kBeam * total.z;
    const double large = total.e + absolute(total.z);
    const double minus = select(along > 0.0, (m * m + pt_2) * reciprocal(large), large);
    const double g = m + minus, g_2 = g * g;
    const double inverse = sign * reciprocal(g_2 + pt_2);
    const double transverse = -2.0 * g * inverse;
    return {transverse * total.x, transverse * total.y, kBeam * (g_2 - pt_2) * inverse};
}

// Momenta of the block in the frame where P = p_a + p_b moves, one incoming leg still being a beam: a massless momentum
// along z times kBeam. kFirst: that leg is p_a, else it is p_b.
//
// in:  r_phi, E_1, E_2, p_parallel, p_T, M, m_1, m_2, P (4)
// out: p_1 (4), p_2 (4)
template <int kBeam, bool kFirst>
struct ScatterFromBeam {
    static constexpr int kInputs = 12, kOutputs = 8;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector total = four_vector(in + 8);
        const CosSin phi = azimuth(clamp_unit(in[0]));
        const ThreeVector n = beam_direction<kBeam>(total, in[5], kFirst ? 1.0 : -1.0);
        const ThreeVector k = rotate_from_z({in[4] * phi.cos, in[4] * phi.sin, in[3]}, n);
        boost_pair(k, in[1], in[2], in[6], in[7], total, in[5], out);
    }
};

MS_END_NAMESPACE
