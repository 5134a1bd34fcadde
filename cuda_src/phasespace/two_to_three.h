// Splits a recoil p_12 = p_a + p_b - p_3 next to a spectator p_3 into p_1 and p_2, in |t_1| = -(p_a - p_1)^2 and
// s_23 = (p_2 + p_3)^2. MadSpace, arXiv:2602.06895, section 2.2; Byckling and Kajantie, Particle Kinematics (1973).
//
// In the rest frame of p_12 with p_a along z and p_3 in the half-plane phi = 0,
//   s_23 = m_2^2 + m_3^2 + 2 (E_2 E_3 + p_1z p_3z) + 2 p_3x p_1T cos(phi),   u = (1 + cos(phi))/2,
// so that u and 1 - u are the distances of s_23 from the ends of its range, and every factor of the range keeps its
// relative precision for soft particles. The measure is ds_23/(2 J), J = 8 sqrt(-G_4) =
// sqrt(lambda(s_12, m_a^2, t_2)) 4 p_3x p_1T 2 sqrt(u (1-u)), for each of the two signs of phi.
#pragma once

#include "invariants_1d.h"
#include "scattering.h"

MS_BEGIN_NAMESPACE

struct SplitFrame {
    double m, root_a;              // sqrt(s_12), sqrt(lambda(s_12, m_a^2, t_2))
    double e1, e2, z, transverse;  // p_1 along and across p_a
    double e3, z3, x3;             // p_3 along and across p_a
    double centre, half, weight;   // of s_23
};

MS_FN SplitFrame split_frame(const FourVector& pa, const FourVector& p12, const FourVector& p3, double t1, double m1,
                             double m2) {
    const FourVector pb = p12 - pa;
    const Collision c = collide(pa, pb);
    const TransferRange t = transfer_range(c, m1, m2);
    const TransferShares share = transfer_shares(t.limits.t_min, t.limits.width, t1);
    const double f = share.f, g = share.g;
    const double half_inverse_m = 0.5 / c.m, p = t.limits.root_m * half_inverse_m;
    const ThreeVector n = unit(boost_to_rest(pa, p12, c.m)), k3 = boost_to_rest(p3, p12, c.m);
    const double z3 = dot(n, k3);
    // |n x p_3|: without a difference of squares.
    const double cx = n.y * k3.z - n.z * k3.y, cy = n.z * k3.x - n.x * k3.z, cz = n.x * k3.y - n.y * k3.x;
    const double x3 = root(cx * cx + cy * cy + cz * cz), m3_2 = particle_mass_2(p3);
    const double e3 = root(m3_2 + dot(k3, k3));
    const double e1 = t.limits.u2 * half_inverse_m, e2 = t.limits.u1 * half_inverse_m;
    const double z = p * (g - f), transverse = p * (2.0 * root(f * g));
    const double centre = m2 * m2 + m3_2 + 2.0 * (e2 * e3 + z * z3);
    return {c.m, t.limits.root_a, e1, e2, z, transverse, e3, z3, x3, centre, 2.0 * x3 * transverse, t.weight};
}

// in:  p_a (4), p_12 (4), p_3 (4), |t_1|, m_1, m_2
// out: smallest and largest s_23
struct S23MinMax {
    static constexpr int kInputs = 15, kOutputs = 2;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const SplitFrame s =
            split_frame(four_vector(in), four_vector(in + 4), four_vector(in + 8), in[12], in[13], in[14]);
        out[0] = s.centre - s.half;
        out[1] = s.centre + s.half;
    }
};

// in:  p_a (4), p_3 (4), |t_1|, p_1 (4), p_2 (4)
// out: s_23, its smallest and largest value
struct S23ValueAndMinMax {
    static constexpr int kInputs = 17, kOutputs = 3;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector p3 = four_vector(in + 4), p1 = four_vector(in + 9), p2 = four_vector(in + 13);
        const SplitFrame s =
            split_frame(four_vector(in), p1 + p2, p3, in[8], root(particle_mass_2(p1)), root(particle_mass_2(p2)));
        out[0] = mass_2(p2 + p3);
        out[1] = s.centre - s.half;
        out[2] = s.centre + s.half;
    }
};

// u and 1 - u of a value between two ends, each from its own difference.
MS_FN void position(double s, double low, double high, double* out) {
    const double width = high - low;
    const double inverse = 1.0 / select(width > 0.0, width, 1.0);
    out[0] = clamp_unit((s - low) * inverse);
    out[1] = clamp_unit((high - s) * inverse);
}

// in: s_23, smallest, largest; out: u, 1 - u
struct S23Position {
    static constexpr int kInputs = 3, kOutputs = 2;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) { position(in[0], in[1], in[2], out); }
};

// in:  sign of phi (0 or 1: negative), p_a (4), p_12 (4), p_3 (4), u, 1 - u, |t_1|, m_1, m_2
// out: p_1 (4), p_2 (4), det
struct TwoToThree {
    static constexpr int kInputs = 18, kOutputs = 9;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector pa = four_vector(in + 1), p12 = four_vector(in + 5), p3 = four_vector(in + 9);
        const double u = clamp_unit(in[13]), rest = clamp_unit(in[14]), m1 = in[16], m2 = in[17];
        const SplitFrame s = split_frame(pa, p12, p3, in[15], m1, m2);
        const double wave = 2.0 * root(u * rest);  // |sin(phi)|
        const double along_x = s.transverse * (u - rest), along_y = s.transverse * (in[0] > 0.5 ? -wave : wave);
        const ThreeVector n = unit(boost_to_rest(pa, p12, s.m)), k3 = boost_to_rest(p3, p12, s.m);
        // p_3 turned into the frame where p_a is along z: its transverse direction there is that of phi = 0.
        const ThreeVector q = rotate_to_z(k3, n);
        const double length = root(q.x * q.x + q.y * q.y);
        const double inverse = 1.0 / select(length > 0.0, length, 1.0);
        const double cx = select(length > 0.0, q.x * inverse, 1.0), cy = q.y * inverse;
        const ThreeVector k = rotate_from_z({cx * along_x - cy * along_y, cy * along_x + cx * along_y, s.z}, n);
        boost_pair(k, s.e1, s.e2, select(s.weight > 0.0, m1, 0.0), select(s.weight > 0.0, m2, 0.0), p12, s.m, out);
        const double jacobian = 2.0 * s.root_a * (2.0 * s.half) * wave;
        const bool open = (jacobian > 0.0) & (s.weight > 0.0);
        out[8] = finite_weight(select(open, 1.0 / select(open, jacobian, 1.0), 0.0),
                               (out[0] + out[1] + out[2] + out[3]) + (out[4] + out[5] + out[6] + out[7]));
    }
};

// sin^2(theta) sampling: theta = phi/2 is flat between theta_a and theta_b, the part of [0, pi/2] that the allowed
// range covers; differences of sin^2 are products of sines.
struct ArcsineRange {
    double a, width, denominator;
};

MS_FN ArcsineRange arcsine_range(double s_min, double s_max, double low, double high) {
    double first[2], last[2];
    position(s_min, low, high, first);
    position(s_max, low, high, last);
    const double a = arctan2(root(first[0]), root(first[1]));
    const double width = at_least(arctan2(root(last[0]), root(last[1])) - a, 0.0);
    return {a, width, half_turns(width * kInversePi).sin * half_turns((2.0 * a + width) * kInversePi).sin};
}

// in:  r, s_min, s_max, physical s_min, s_max, power, mass
// out: u, 1 - u, det
struct S23ArcsineSample {
    static constexpr int kInputs = 7, kOutputs = 3;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double r = clamp_unit(in[0]), s_min = in[1], s_max = in[2], low = in[3], high = in[4];
        const ArcsineRange t = arcsine_range(s_min, s_max, low, high);
        const bool open = (t.denominator > 0.0) & (high > low);
        const double inverse = 1.0 / select(open, t.denominator, 1.0);
        const double up = t.width * r, down = t.width * (1.0 - r);
        const double x = half_turns(up * kInversePi).sin * half_turns((2.0 * t.a + up) * kInversePi).sin * inverse;
        const double y = half_turns(down * kInversePi).sin * half_turns((2.0 * t.a + t.width + up) * kInversePi).sin *
                         inverse;  // 1 - x
        const double slope = t.width * half_turns((2.0 * t.a + 2.0 * up) * kInversePi).sin * inverse;
        const double width = range_width(s_min, s_max), power = in[5];
        const UnitMap map = PowerMap::eval(clamp_unit(x), lowest_q(s_min, in[6]), width, 1.0 - distinct_power(power));
        const bool flat = power == 0.0;
        const double f = select(flat, x, map.f), g = select(flat, y, map.one_minus_f);
        const double inverse_range = 1.0 / select(open, high - low, 1.0);
        out[0] = clamp_unit(((s_min - low) + f * width) * inverse_range);
        out[1] = clamp_unit(((high - s_max) + g * width) * inverse_range);
        const double det = at_least(slope, 0.0) * width * select(flat, 1.0, map.slope);
        out[2] = finite_weight(select(open, det, 0.0) * unit_weight(in[0]), out[0] + out[1]);
    }
};

// in:  u, 1 - u, s_min, s_max, physical s_min, s_max, power, mass
// out: r, det
struct S23ArcsineSampleInverse {
    static constexpr int kInputs = 8, kOutputs = 2;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double s_min = in[2], s_max = in[3], low = in[4], high = in[5], power = in[6];
        const ArcsineRange t = arcsine_range(s_min, s_max, low, high);
        const double width = range_width(s_min, s_max);
        const bool open = (t.denominator > 0.0) & (high > low) & (width > 0.0);
        const double safe = select(open, width, 1.0), inverse = 1.0 / safe;
        // The importance map first: x and 1 - x of s_23.
        const double above = at_least(in[0] * (high - low) - (s_min - low), 0.0);
        const UnitInverse map =
            PowerInverse::eval(smaller(above, safe), lowest_q(s_min, in[7]), safe, 1.0 - distinct_power(power));
        const bool flat = power == 0.0;
        const double x = clamp_unit(select(flat, above * inverse, map.r));
        const double y = flat ? clamp_unit((in[1] * (high - low) - (high - s_max)) * inverse) : 1.0 - x;
        // Then sin^2 and cos^2 of theta between those of its ends.
        const double sin_a = half_turns(t.a * kInversePi).sin, cos_b = half_turns((t.a + t.width) * kInversePi).cos;
        const double sin_2 = sin_a * sin_a + x * t.denominator, cos_2 = cos_b * cos_b + y * t.denominator;
        const double theta = arctan2(root(at_least(sin_2, 0.0)), root(at_least(cos_2, 0.0)));
        const double slope = t.width * (2.0 * root(at_least(sin_2 * cos_2, 0.0)));
        const double det = slope * safe * select(flat, 1.0, map.slope);
        const bool valid = open & (det > 0.0);
        out[0] = select(open, (theta - t.a) / select(open, t.width, 1.0), 0.0);
        out[1] = select(valid, t.denominator / select(valid, det, 1.0), 0.0);
    }
};

// in:  p_1 (4), p_2 (4), p_3 (4), p_a (4), p_12 (4), |t_1|
// out: m_1, m_2, sign of phi, u, 1 - u, det
struct TwoToThreeInverse {
    static constexpr int kInputs = 21, kOutputs = 6;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector p1 = four_vector(in), p2 = four_vector(in + 4), p3 = four_vector(in + 8);
        const FourVector pa = four_vector(in + 12), p12 = four_vector(in + 16);
        const double m1 = root(particle_mass_2(p1)), m2 = root(particle_mass_2(p2));
        const SplitFrame s = split_frame(pa, p12, p3, in[20], m1, m2);
        const ThreeVector n = unit(boost_to_rest(pa, p12, s.m));
        const ThreeVector q = rotate_to_z(boost_to_rest(p3, p12, s.m), n);
        const ThreeVector k = rotate_to_z(boost_to_rest(p1, p12, s.m), n);
        // Half angles of phi from p_3's transverse direction to p_1's: 1 +- cos without a cancellation.
        const double cosine = q.x * k.x + q.y * k.y, sine = q.x * k.y - q.y * k.x;
        const double length = root(cosine * cosine + sine * sine), near = length + absolute(cosine);
        const double inverse = 0.5 / select(length > 0.0, length, 1.0);
        const double large = near * inverse, small = sine * sine / select(near > 0.0, near, 1.0) * inverse;
        const double u = select(cosine < 0.0, small, large), rest = select(cosine < 0.0, large, small);
        out[0] = m1;
        out[1] = m2;
        out[2] = sine < 0.0 ? 1.0 : 0.0;
        out[3] = u;
        out[4] = rest;
        out[5] = select(s.weight > 0.0, 2.0 * s.root_a * (2.0 * s.half) * (2.0 * root(u * rest)), 0.0);
    }
};

MS_END_NAMESPACE
