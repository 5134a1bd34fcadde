// The steps of a t-channel chain backwards: from momenta, energy and masses to random numbers.
//
// Momenta are rounded, masses and energy are known. So invariants come from sums of positive terms over pairs of
// particles, in which the masses are those given: nothing is lost at threshold or where particles are fast.
#pragma once

#include "decays.h"
#include "invariants_1d.h"
#include "t_chain_steps.h"

MS_BEGIN_NAMESPACE

// p^+- of a particle, and p^+- - m with the digits of its velocity: for p_z < 0 the smaller component minus m is
// (p_T^2 - m T - m |p_z|)/(E + |p_z|), T = E - m = |p|^2/(E + m).
struct ConeExcess {
    double plus, minus, plus_excess, minus_excess;
};

MS_FN ConeExcess cone_excess(const FourVector& p, double m) {
    const LightCone cone = light_cone(p, m * m);
    const double pt_2 = transverse_2(p), z = absolute(p.z);
    const double sum = p.e + m, large = p.e + z;
    const double kinetic = (pt_2 + z * z) / select(sum > 0.0, sum, 1.0);
    const double small = (pt_2 - m * (kinetic + z)) / select(large > 0.0, large, 1.0);
    const bool down = p.z < 0.0;
    return {cone.plus, cone.minus, select(down, small, kinetic + z), select(down, kinetic + z, small)};
}

// 2 (p_i.p_j - m_i m_j) = ((m_i p_j^+ - m_j p_i^+)^2 + |p_iT p_j^+ - p_jT p_i^+|^2)/(p_i^+ p_j^+), the same with p^-.
// The pair of larger components is taken; both vanish only for two massless particles along opposite beams.
//
// in:  p_i (4), m_i, p_j (4), m_j
// out: (p_i + p_j)^2 - (m_i + m_j)^2
struct PairExcess {
    static constexpr int kInputs = 10, kOutputs = 1;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const ConeExcess i = cone_excess(four_vector(in), in[4]), j = cone_excess(four_vector(in + 5), in[9]);
        const bool up = i.plus * j.plus > i.minus * j.minus;
        const double a = select(up, i.plus, i.minus), b = select(up, j.plus, j.minus);
        const double x = in[1] * b - in[6] * a, y = in[2] * b - in[7] * a;
        const double m =
            in[4] * select(up, j.plus_excess, j.minus_excess) - in[9] * select(up, i.plus_excess, i.minus_excess);
        const double product = a * b;
        const bool regular = product > 0.0;
        out[0] = select(regular, (x * x + y * y + m * m) / select(regular, product, 1.0),
                        i.plus * j.minus + i.minus * j.plus);
    }
};

// in:  excess of the recoil (M_1^2 - rest^2), M, rest, x = M - m - rest, inverse weight so far
// out: r, M_1, M_1 - rest, M - m - M_1, inverse weight
struct RecoilMassInverse {
    static constexpr int kInputs = 5, kOutputs = 5;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double m = in[1], rest = in[2], x = in[3];
        const double width = x * (x + 2.0 * rest);
        const double above_in = at_least(in[0], 1e-40 * (m * m));
        const double above = above_in < width ? above_in : at_least(width, 1e-40 * (m * m));
        const double recoil = root(rest * rest + above);
        const bool open = width > 0.0;
        const double safe_width = select(open, width, 1.0);
        out[0] = select(open, clamp_unit(above / safe_width), 0.0);
        out[1] = recoil;
        out[2] = above / (recoil + rest);
        out[3] = at_least(width - above, 0.0) / (x + rest + recoil);
        out[4] = select(open, in[4] / safe_width, 0.0) + 0.0 * in[0];
    }
};

// Distance of |t| from its lower limit: by the angle f = (1 - cos(theta))/2 where the limits nearly agree, as for slow
// particles, else by |t| itself, which keeps more digits of small angles.
MS_FN double above_lowest(const TransferLimits& t, double t_abs, double f) {
    return select(t.t_min > 30.0 * t.width, f * t.width, t_abs - t.t_min);
}

// The random number and the weight of a distance from the lower end, in a range of q that begins at q_min.
MS_FN void find_transfer(double above_in, double q_min, double width, double nu, double phase_space, double weight,
                         double* out) {
    const bool open = width > 0.0;
    const double safe_width = select(open, width, 1.0);
    const double floored = at_least(above_in, 0.0);
    const double above = select(floored < safe_width, floored, safe_width);
    const UnitInverse map = PowerInverse::eval(above, q_min, safe_width, nu);
    out[0] = select(open, clamp_unit(map.r), 0.0);
    const double forward = phase_space * map.slope;
    out[1] = select(open & (forward > 0.0), weight / select(forward > 0.0, forward, 1.0), 0.0) + 0.0 * above_in;
}

// in:  |t|, f, M, m_1, m_2, x, a, b, nu, inverse weight so far
// out: r, inverse weight
struct MomentumTransferInverse {
    static constexpr int kInputs = 10, kOutputs = 2;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const TransferLimits t = transfer_limits<Virtual::kBoth>(in[2] * in[2], in[3], in[4], in[5], in[6], in[7]);
        find_transfer(above_lowest(t, in[0], in[1]), t.t_min + 1e-2, t.width, in[8], 0.5 * kPi * t.root_m * t.inverse_s,
                      in[9], out);
    }
};

// in:  |t|, f, then as CutMomentumTransfer from M on
// out: r, inverse weight
struct CutMomentumTransferInverse {
    static constexpr int kInputs = 13, kOutputs = 2;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const CutTransfer c = cut_transfer(in[2], in[3], in[4], in[5], in[6], in[9], in[10], in[11], in[12]);
        find_transfer(above_lowest(c.limits, in[0], in[1]) - c.cut.below, c.limits.t_min + c.cut.below + 1e-2, c.width,
                      in[7], 0.5 * kPi * c.width / c.limits.root_a, in[8], out);
    }
};

// The direction of particle 1 around p_a in the rest frame of P. The slower particle is boosted there.
//
// in:  p_1 (4), p_2 (4), M, P (4), sum_A p^-, sum_A p_x, sum_A p_y, sum_B p^+, sign (see ChainScatter)
// out: r_phi, f = (1 - cos(theta))/2
struct ChainScatterInverse {
    static constexpr int kInputs = 18, kOutputs = 2;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector p1 = four_vector(in), p2 = four_vector(in + 4), total = four_vector(in + 9);
        const ThreeVector n = leg_direction(total, in[8], in[13], in[14], in[15], in[16]);
        const bool first_softer = p1.e < p2.e;
        const FourVector soft = {select(first_softer, p1.e, p2.e), select(first_softer, p1.x, p2.x),
                                 select(first_softer, p1.y, p2.y), select(first_softer, p1.z, p2.z)};
        const ThreeVector boosted = boost_to_rest(soft, total, in[8]);
        const double sign = in[17], toward = first_softer ? 1.0 : -1.0;
        const ThreeVector k = rotate_to_z(boosted, {sign * n.x, sign * n.y, sign * n.z});
        const double length = root(dot(k, k));
        out[0] = clamp_unit(azimuth_random(toward * k.y, toward * k.x));
        out[1] = select(length > 0.0, 0.5 - 0.5 * (toward * k.z) / select(length > 0.0, length, 1.0), 0.0);
    }
};

MS_END_NAMESPACE
