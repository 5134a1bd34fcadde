// The steps of a t-channel chain of any length, as ops of programs: what is peeled off first leaves a recoil, which is
// the next block's total. Notation of two_to_two.h; MadSpace, arXiv:2602.06895, section 2.2.8.
//
// Invariants are carried from step to step as they were sampled, and light-cone components p^+- = E +- p_z are added up
// over the particles on one side of a propagator: with A the particles below it and B those above, the lower leg is
// p_A = beam_0 - sum_A p and the upper one beam_1 - sum_B p, so that p_A^- = -sum_A p^-, p_B^+ = -sum_B p^+ and, by
// conservation, p_A^+ = P^+ + sum_B p^+, p_B^- = P^- + sum_A p^-: sums of positive terms all of them.
#pragma once

#include "madspace/angles.h"
#include "t_chain.h"

MS_BEGIN_NAMESPACE

// in: 1 or 0, sum so far, mass; out: 0 as well for a mass that is negative or NaN, sum
struct ChainMass {
    static constexpr int kInputs = 3, kOutputs = 2;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        out[0] = select(in[2] >= 0.0, in[0], 0.0);
        out[1] = in[1] + in[2];
    }
};

// in: 1 or 0, com_energy, sum of masses; out: 1 or 0, com_energy, excess: those of a massless event if faulty
struct ChainEnergy {
    static constexpr int kInputs = 3, kOutputs = 3;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const bool in_range = (in[1] >= 1e-30) & (in[1] <= 1e30);
        const double energy = select(in_range, in[1], 1.0);
        const double excess = in[1] - in[2];
        const bool valid = (in[0] > 0.0) & in_range & (excess >= 0.0);
        out[0] = select(valid, 1.0, 0.0);
        out[1] = energy;
        out[2] = select(valid, excess, energy);
    }
};

// in: flag, x; out: x, or 0 where the flag is
struct ChainKeep {
    static constexpr int kInputs = 2, kOutputs = 1;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        out[0] = select(in[0] > 0.0, in[1], 0.0);
    }
};

// As ChainStart, for any number of particles and without the random numbers.
// in:  com_energy, m_0 .. m_k
// out: weight (1 or 0), com_energy, m_0 .. m_k, com_energy - sum of masses
struct TChainStart {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_in >= 3 && n_out == n_in + 2; }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int) {
        auto flag = ex.template accumulators<1>(1.0);
        auto sums = ex.template run<ChainMass>(flag[0], ex.constant(0.0), ex.in(1));
        for (int i = 2; i < n_in; ++i) sums = ex.template run<ChainMass>(sums[0], sums[1], ex.in(i));
        const auto energy = ex.template run<ChainEnergy>(sums[0], ex.in(0), sums[1]);
        ex.out(0, energy[0]);
        ex.out(1, energy[1]);
        for (int i = 1; i < n_in; ++i) ex.out(1 + i, ex.template run<ChainKeep>(energy[0], ex.in(i))[0]);
        ex.out(n_in + 1, energy[2]);
    }
};

// in: 1 or 0, random number; out: 0 as well if it is outside [0, 1]
struct ChainUnit {
    static constexpr int kInputs = 2, kOutputs = 1;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        out[0] = select((in[1] >= 0.0) & (in[1] <= 1.0), in[0], 0.0);
    }
};

// in: weight, 1 or 0; out: weight, 0 if it is NaN or the flag is 0
struct ChainKeepWeight {
    static constexpr int kInputs = 2, kOutputs = 1;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        out[0] = select((in[1] > 0.0) & (in[0] >= 0.0), in[0], 0.0);
    }
};

// in: weight, random numbers; out: the weight, 0 if it is NaN or a number is outside [0, 1]
struct TChainWeight {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_in >= 2 && n_out == 1; }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int) {
        auto flag = ex.template accumulators<1>(1.0);
        for (int i = 1; i < n_in; ++i) flag = ex.template run<ChainUnit>(flag[0], ex.in(i));
        ex.out(0, ex.template run<ChainKeepWeight>(ex.in(0), flag[0])[0]);
    }
};

// in:  p (4), m
// out: p^+, p^-
struct LightConeOf {
    static constexpr int kInputs = 5, kOutputs = 2;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const LightCone p = light_cone(four_vector(in), in[4] * in[4]);
        out[0] = p.plus;
        out[1] = p.minus;
    }
};

// MomentumTransfer for any pair of legs; the second form for maps that need no power.
//
// in:  r, M, m_1, m_2, x, a, b, nu, weight so far
// out: |t|, E_1, E_2, p_parallel and p_T of particle 1 along p_a in the centre-of-mass frame, weight
struct ChainTransferNu {
    static constexpr int kInputs = 9, kOutputs = 6;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double with_nu[] = {in[0], in[1], in[2], in[3], in[4], in[5], in[6], 1.0 - distinct_power(in[7]), in[8]};
        MomentumTransfer<PowerMap, Virtual::kBoth>::eval(with_nu, out);
    }
};

// Where a leg still is a beam, its virtuality is no input.
template <class Map, Virtual kVirtual = Virtual::kBoth>
struct ChainTransfer {
    static constexpr bool kHasA = kVirtual == Virtual::kA || kVirtual == Virtual::kBoth;
    static constexpr bool kHasB = kVirtual == Virtual::kB || kVirtual == Virtual::kBoth;
    static constexpr int kInputs = 6 + kHasA + kHasB, kOutputs = 6;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double a = kHasA ? in[5] : 0.0, b = kHasB ? in[5 + kHasA] : 0.0;
        const double with_nu[] = {in[0], in[1], in[2], in[3], in[4], a, b, 0.0, in[kInputs - 1]};
        MomentumTransfer<Map, kVirtual>::eval(with_nu, out);
    }
};

// The part of [|t|_min, |t|_max] that floors of transverse energy leave, where p_a is a beam. From its ends:
// below = lowest - |t|_min, above = |t|_max - highest; 0 and 0 where nothing would be left.
//
// In the frame where P moves across the beam, W^2 = s + P_T^2, both particles get their least transverse energies e_1
// and e_2 at the ends. With the larger light-cone components L_i = (B_i + R)/(2 W), B_1 = W^2 + e_1^2 - e_2^2 and
// R^2 = lambda(W^2, e_1^2, e_2^2), and with |p_1T|^2 = q = e_1^2 - m_1^2,
//   |t| = q + p_1^- (p_2^+ + c/W),   c = b - P_T^2 = p_b^+ P^- >= 0 up to the sign of p_b^+,
// where p_1^- = e_1^2/L_1, p_2^+ = e_2^2/L_2 at the lower end and L_1, L_2 at the upper one: positive terms.
struct FloorCut {
    double below, above;
};

MS_FN FloorCut floor_cut(const TransferLimits& t, double s, double m1, double m2, double et1, double et2, double pt_2,
                         double c) {
    const double q2 = at_least((et2 - m2) * (et2 + m2), 0.0);
    const double missing = root(q2) - root(pt_2);
    const double least = select(missing > 0.0, missing * missing, 0.0);
    const double q1 = at_least((et1 - m1) * (et1 + m1), least);
    const double e1_2 = m1 * m1 + q1, e2_2 = m2 * m2 + q2;
    const double e1 = root(e1_2), e2 = root(e2_2);
    const double w = root(s + pt_2);
    const double y_in = (w - e1) - e2;
    const double y = select(y_in > 0.0, y_in, w);  // something to compute with
    const double sum_2 = y + 2.0 * (e1 + e2);
    const double r = root(y * (y + 2.0 * e1) * ((y + 2.0 * e2) * sum_2));
    const double half_inverse_w = 0.5 / w, across = 2.0 * (c * half_inverse_w);
    const double large1 = ((y + e1) * (y + 2.0 * e2 + e1) + e1_2 + r) * half_inverse_w;
    const double large2 = ((y + e2) * (y + 2.0 * e1 + e2) + e2_2 + r) * half_inverse_w;
    const double low = q1 + e1_2 / large1 * (e2_2 / large2 + across);
    const double high = q1 + large1 * (large2 + across);
    const double below = at_least(low - t.t_min, 0.0);
    const double above = at_least(t.t_min + t.width - high, 0.0);
    const bool used = (y_in > 0.0) & (below + above < t.width);
    return {select(used, below, 0.0), select(used, above, 0.0)};
}

struct CutTransfer {
    TransferLimits limits;
    FloorCut cut;
    double width;  // of what is left
};

// in: M, m_1, m_2, x, b, |p_T|^2 of P, c, floors e_1 and e_2
MS_FN CutTransfer cut_transfer(double m, double m1, double m2, double x, double b, double pt_2, double c, double et1,
                               double et2) {
    const TransferLimits t = transfer_limits<Virtual::kBoth>(m * m, m1, m2, x, 0.0, b);
    const FloorCut cut = floor_cut(t, m * m, m1, m2, et1, et2, pt_2, c);
    return {t, cut, t.width - cut.below - cut.above};
}

// MomentumTransfer with floors of transverse energy, for a block whose leg p_a is a beam.
//
// in:  r, M, m_1, m_2, x, b, nu, weight so far, P_T^2, p_b^+ P^- (p_b^- P^+ if p_a is the upper beam), floors of
//      transverse energy of particles 1 and 2
// out: |t|, E_1, E_2, p_parallel and p_T of particle 1 along p_a in the centre-of-mass frame, weight
struct CutMomentumTransfer {
    static constexpr int kInputs = 12, kOutputs = 6;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double m = in[1];
        const CutTransfer c = cut_transfer(m, in[2], in[3], in[4], in[5], in[8], in[9], in[10], in[11]);
        const TransferLimits& t = c.limits;
        const UnitMap map =
            PowerMap::eval(clamp_unit(in[0]), t.t_min + c.cut.below + 1e-2, c.width, 1.0 - distinct_power(in[6]));
        const double from_min = c.cut.below + map.f * c.width, from_max = c.cut.above + map.one_minus_f * c.width;
        const bool open = t.width > 0.0;
        const double inverse = 1.0 / select(open, t.width, 1.0);
        const double f = select(open, from_min * inverse, map.f), g = select(open, from_max * inverse, map.one_minus_f);
        const double half_inverse_m = 0.5 * (m * t.inverse_s);
        const double p = t.root_m * half_inverse_m;
        out[0] = t.t_min + from_min;
        out[1] = t.u2 * half_inverse_m;
        out[2] = t.u1 * half_inverse_m;
        out[3] = p * (g - f);
        out[4] = p * (2.0 * root(f * g));
        out[5] = in[7] * (0.5 * kPi * c.width / t.root_a * map.slope);
    }
};

// Direction of the lower leg in the rest frame of P, from the pure boost k = p_A - P (p_A^0 + e)/(M + P^0), where
// e = p_A.P/M is the leg's energy there, multiplied by M + P^0. With light-cone components the z component becomes
//   (P^+ P^- + B P^- + A P^+ + M (P^+ + B + A))/2 - P_z e,   A = sum_A p^-, B = sum_B p^+,
// and M e = (P^+ P^- + B P^- - A P^+)/2 + sum_A p_T.P_T. No term is larger than the result by more than a small factor.
MS_FN ThreeVector leg_direction(const FourVector& total, double m, double lower_minus, double lower_x, double lower_y,
                                double upper_plus) {
    const LightCone p = light_cone(total, m * m);
    const double product = 0.5 * (m * m + transverse_2(total));
    const double from_upper = 0.5 * (upper_plus * p.minus), from_lower = 0.5 * (lower_minus * p.plus);
    const double along = lower_x * total.x + lower_y * total.y;
    const double e = (product + from_upper - from_lower + along) / m;
    const double leg_energy = 0.5 * (p.plus + upper_plus - lower_minus);
    const double factor = m + total.e, pull = leg_energy + e;
    return unit({-lower_x * factor - total.x * pull, -lower_y * factor - total.y * pull,
                 product + from_upper + from_lower + 0.5 * (m * (p.plus + upper_plus + lower_minus)) - total.z * e});
}

// Momenta of a block of a chain.
//
// in:  r_phi, E_1, E_2, p_parallel, p_T, M, m_1, m_2, P (4), sum_A p^-, sum_A p_x, sum_A p_y, sum_B p^+,
//      1 if p_a is the lower leg, -1 if it is the upper one
// out: p_1 (4), p_2 (4)
struct ChainScatter {
    static constexpr int kInputs = 17, kOutputs = 8;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        FourVector total = four_vector(in + 8);
        total.e = root(in[5] * in[5] + dot(space(total), space(total)));
        const ThreeVector n = leg_direction(total, in[5], in[12], in[13], in[14], in[15]);
        const double sign = in[16];
        const CosSin phi = azimuth(clamp_unit(in[0]));
        const ThreeVector k =
            rotate_from_z({in[4] * phi.cos, in[4] * phi.sin, in[3]}, {sign * n.x, sign * n.y, sign * n.z});
        boost_pair(k, in[1], in[2], in[6], in[7], total, in[5], out);
    }
};

// ChainScatter for the first block of a chain, whose total is at rest and whose legs are beams.
//
// in:  r_phi, E_1, E_2, p_parallel, p_T, sign as there
// out: p_1 (4), p_2 (4)
struct ChainScatterStart {
    static constexpr int kInputs = 6, kOutputs = 8;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        scatter_along_beam(in[5], in[0], in[1], in[2], in[3], in[4], out);
    }
};

// ChainScatter for a block one of whose legs still is a beam: the lower one, or the upper one. Its direction needs no
// more than the total.
//
// in:  r_phi, E_1, E_2, p_parallel, p_T, M, m_1, m_2, P (4), sign as there
// out: p_1 (4), p_2 (4)
template <bool kLower>
struct ChainScatterBeam {
    static constexpr int kInputs = 13, kOutputs = 8;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        FourVector total = four_vector(in + 8);
        total.e = root(in[5] * in[5] + dot(space(total), space(total)));
        const ThreeVector n = beam_direction<kLower ? 1 : -1>(total, in[5], kLower ? in[12] : -in[12]);
        const CosSin phi = azimuth(clamp_unit(in[0]));
        const ThreeVector k = rotate_from_z({in[4] * phi.cos, in[4] * phi.sin, in[3]}, n);
        boost_pair(k, in[1], in[2], in[6], in[7], total, in[5], out);
    }
};

MS_END_NAMESPACE
