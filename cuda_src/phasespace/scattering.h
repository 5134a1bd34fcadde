// p_a + p_b -> p_1 + p_2 from momenta alone: the limits of |t| = -(p_a - p_1)^2, the block at given |t|, and back.
// What carries invariants from step to step instead keeps more digits: two_to_two.h.
#pragma once

#include "decays.h"
#include "two_to_two.h"

MS_BEGIN_NAMESPACE

// Two incoming legs, virtual ones included, and what they make.
struct Collision {
    double m, s;
    double a, b;  // -p_a^2 and -p_b^2
    bool open;
};

MS_FN Collision collide(const FourVector& pa, const FourVector& pb) {
    const double s_in = mass_2(pa + pb);
    const bool open = (s_in > 0.0) & (s_in < 1e300);
    const double s = select(open, s_in, 1.0);
    return {root(s), s, -mass_2(pa), -mass_2(pb), open};
}

struct TransferRange {
    TransferLimits limits;
    // What is sampled: not below 0, as upstream, which matters for a timelike incoming leg; empty for a closed point.
    double low, high;
    double weight;  // 1, or 0 for a closed point, whose masses are taken as 0
    double m1, m2;
};

// cos(theta) = g - f from |t|: f and g are the distances from the kinematic limits over their sum.
struct TransferShares {
    double f, g;
};

MS_FN TransferShares transfer_shares(double t_min, double width, double t) {
    const double inverse = 1.0 / select(width > 0.0, width, 1.0);
    return {clamp_unit((t - t_min) * inverse), clamp_unit((t_min + width - t) * inverse)};
}

MS_FN TransferRange transfer_range(const Collision& c, double m1_in, double m2_in) {
    const double excess = (c.m - m1_in) - m2_in;
    const bool open = c.open & (excess > 0.0) & (m1_in >= 0.0) & (m2_in >= 0.0);
    const double m1 = select(open, m1_in, 0.0), m2 = select(open, m2_in, 0.0);
    const double a = select(c.open, c.a, 0.0), b = select(c.open, c.b, 0.0);
    const TransferLimits limits = transfer_limits<Virtual::kBoth>(c.s, m1, m2, select(open, excess, c.m), a, b);
    const double low = at_least(limits.t_min, 0.0);
    const double high = at_least(limits.t_min + limits.width, low);
    return {limits, low, select(open, high, low), select(open, 1.0, 0.0), m1, m2};
}

// in:  p_a (4), p_b (4), m_1, m_2
// out: |t|_min, |t|_max; a closed block has an empty range
struct TInvMinMax {
    static constexpr int kInputs = 10, kOutputs = 2;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const TransferRange t = transfer_range(collide(four_vector(in), four_vector(in + 4)), in[8], in[9]);
        out[0] = t.low;
        out[1] = t.high;
    }
};

// |t| = q_T^2 - q^+ q^- with q = p_a - p_1 = p_2 - p_b, each light-cone component from the pair whose terms are
// smaller: for beams along z one of them vanishes, and nothing cancels.
MS_FN double momentum_transfer(const FourVector& pa, const FourVector& pb, const FourVector& p1, const FourVector& p2,
                               double m1_2, double m2_2) {
    const LightCone a = light_cone(pa, mass_2(pa)), b = light_cone(pb, mass_2(pb));
    const LightCone k1 = light_cone(p1, m1_2), k2 = light_cone(p2, m2_2);
    const double plus = absolute(a.plus) + k1.plus < k2.plus + absolute(b.plus) ? a.plus - k1.plus : k2.plus - b.plus;
    const double minus =
        absolute(a.minus) + k1.minus < k2.minus + absolute(b.minus) ? a.minus - k1.minus : k2.minus - b.minus;
    const double x = pa.x - p1.x, y = pa.y - p1.y;
    return x * x + y * y - plus * minus;
}

// in:  p_a (4), p_b (4), p_1 (4), p_2 (4)
// out: |t|, |t|_min, |t|_max
struct TInvValueAndMinMax {
    static constexpr int kInputs = 16, kOutputs = 3;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector pa = four_vector(in), pb = four_vector(in + 4);
        const FourVector p1 = four_vector(in + 8), p2 = four_vector(in + 12);
        const double m1_2 = particle_mass_2(p1), m2_2 = particle_mass_2(p2);
        const TransferRange t = transfer_range(collide(pa, pb), root(m1_2), root(m2_2));
        out[0] = momentum_transfer(pa, pb, p1, p2, m1_2, m2_2);
        out[1] = t.low;
        out[2] = t.high;
    }
};

// kCom: p_a + p_b is at rest.
//
// in:  r_phi, p_a (4), p_b (4), |t|, m_1, m_2
// out: p_1 (4), p_2 (4), det
template <bool kCom>
struct TwoToTwo {
    static constexpr int kInputs = 12, kOutputs = 9;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector pa = four_vector(in + 1), pb = four_vector(in + 5);
        const Collision c = collide(pa, pb);
        const TransferRange t = transfer_range(c, in[10], in[11]);
        const TransferShares share = transfer_shares(t.limits.t_min, t.limits.width, in[9]);
        const double f = share.f, g = share.g;
        const double half_inverse_m = 0.5 / c.m;
        const double p = t.limits.root_m * half_inverse_m;
        const double e1 = t.limits.u2 * half_inverse_m, e2 = t.limits.u1 * half_inverse_m;
        const double transverse = p * (2.0 * root(f * g));
        const CosSin phi = azimuth(clamp_unit(in[0]));
        const ThreeVector n = unit(kCom ? space(pa) : boost_to_rest(pa, pa + pb, c.m));
        const ThreeVector k = rotate_from_z({transverse * phi.cos, transverse * phi.sin, p * (g - f)}, n);
        if constexpr (kCom) {
            store({e1, k.x, k.y, k.z}, out);
            store({e2, -k.x, -k.y, -k.z}, out + 4);
        } else {
            boost_pair(k, e1, e2, t.m1, t.m2, pa + pb, c.m, out);
        }
        const bool valid = (t.weight > 0.0) & (t.limits.root_a > 0.0) & (in[9] - in[9] == 0.0);
        const double det = 0.5 * kPi / select(valid, t.limits.root_a, 1.0);
        out[8] = finite_weight(select(valid, det, 0.0) * unit_weight(in[0]),
                               (out[0] + out[1] + out[2] + out[3]) + (out[4] + out[5] + out[6] + out[7]));
    }
};

// in:  p_1 (4), p_2 (4), p_a (4), p_b (4)
// out: r_phi, m_1, m_2, det
template <bool kCom>
struct TwoToTwoInverse {
    static constexpr int kInputs = 16, kOutputs = 4;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector p1 = four_vector(in), p2 = four_vector(in + 4), pa = four_vector(in + 8);
        const FourVector pb = four_vector(in + 12);
        const Collision c = collide(pa, pb);
        const ThreeVector n = unit(kCom ? space(pa) : boost_to_rest(pa, pa + pb, c.m));
        const ThreeVector k = rotate_to_z(kCom ? space(p1) : boost_to_rest(p1, pa + pb, c.m), n);
        const double root_a = root(at_least(c.s * (c.s + 2.0 * (c.a + c.b)) + (c.a - c.b) * (c.a - c.b), 0.0));
        out[0] = azimuth_random(k.y, k.x);
        out[1] = root(particle_mass_2(p1));
        out[2] = root(particle_mass_2(p2));
        out[3] = select(c.open, root_a * (2.0 * kInversePi), 0.0);
    }
};

MS_END_NAMESPACE
