// TPropagatorMapping: a chain of 2 -> 2 blocks that resolves one t-channel propagator after the other.
// MadSpace, arXiv:2602.06895, section 2.2.8; Mattelaer and Ostrolenk, arXiv:2102.00773.
#pragma once

#include "step.h"
#include "two_to_two.h"

MS_BEGIN_NAMESPACE

// Checks an event and makes it safe to compute with: a faulty event (a number outside [0, 1], a negative or non-finite
// mass, an energy below threshold or outside [1e-30, 1e30] GeV, NaN anywhere) becomes a massless one with weight 0.
// in:  com_energy, m_0 .. m_k, then the 3 k - 1 random numbers (k = kParticles - 1)
// out: weight (1 or 0), com_energy, m_0 .. m_k, x = com_energy - sum of masses
template <int kParticles>
struct ChainStart {
    static constexpr int kRandoms = 3 * kParticles - 4;
    static constexpr int kInputs = 1 + kParticles + kRandoms, kOutputs = 3 + kParticles;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        double sum = 0.0;
        bool valid = in[0] >= 1e-30 && in[0] <= 1e30;
        for (int i = 0; i < kParticles; ++i) {
            valid = valid && in[1 + i] >= 0.0;
            sum += in[1 + i];
        }
        for (int i = 0; i < kRandoms; ++i) {
            const double r = in[1 + kParticles + i];
            valid = valid && r >= 0.0 && r <= 1.0;
        }
        const double excess = in[0] - sum;
        valid = valid && excess >= 0.0;
        const double energy = select(in[0] >= 1e-30 && in[0] <= 1e30, in[0], 1.0);
        out[0] = select(valid, 1.0, 0.0);
        out[1] = energy;
        for (int i = 0; i < kParticles; ++i) out[2 + i] = select(valid, in[1 + i], 0.0);
        out[2 + kParticles] = select(valid, excess, energy);
    }
};

// The mass of what recoils against the first peeled particle: M_1^2 uniform between (sum of the rest)^2 and (M - m)^2.
// With x = M - m - rest: width D = x (x + 2 rest), M_1^2 = rest^2 + r D, and the two new excesses as quotients instead
// of differences: M_1 - rest = r D/(M_1 + rest), M - m - M_1 = (1 - r) D/(x + rest + M_1).
//
// in:  r, M, rest, x, weight so far
// out: M_1, M_1 - rest, M - m - M_1, weight
struct RecoilMass {
    static constexpr int kInputs = 5, kOutputs = 4;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double r = clamp_unit(in[0]), m = in[1], rest = in[2], x = in[3];
        const double width = x * (x + 2.0 * rest);
        // The floor keeps a massless recoil at r = 0 from having no rest frame; it moves momenta by 1e-20 of M.
        const double above = at_least(r * width, 1e-40 * (m * m));
        const double recoil = root(rest * rest + above);
        out[0] = recoil;
        out[1] = above * reciprocal(recoil + rest);
        out[2] = (1.0 - r) * width * reciprocal(x + rest + recoil);
        out[3] = in[4] * width;
    }
};

// in: two values; out: their sum
struct Sum {
    static constexpr int kInputs = 2, kOutputs = 1;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) { out[0] = in[0] + in[1]; }
};

// in: com_energy; out: the two beams (8)
struct Beams {
    static constexpr int kInputs = 1, kOutputs = 8;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double half = 0.5 * in[0];
        out[0] = out[3] = out[4] = half;
        out[7] = -half;
        out[1] = out[2] = out[5] = out[6] = 0.0;
    }
};

// Two outgoing particles, order [0]. Inputs: r_phi, r_t, com_energy, m_0, m_1.
template <class Map>
struct TChain2 {
    static constexpr int kInputs = 5, kMomenta = 4;

    template <class Executor, class Value = typename Executor::Value>
    MS_FN static void eval(Executor& ex, const Value (&in)[kInputs], Value nu) {
        const auto start = ex.template run<ChainStart<2>>(in[2], in[3], in[4], in[0], in[1]);
        const Value energy = start[1], m0 = start[2], m1 = start[3];
        const auto t = ex.template run<MomentumTransfer<Map, Virtual::kNone>>(in[1], energy, m0, m1, start[4],
                                                                              ex.zero(), ex.zero(), nu, start[0]);
        ex.det(t[5]);
        const auto beams = ex.template run<Beams>(energy);
        ex.momentum(0, beams, 0);
        ex.momentum(1, beams, 4);
        const auto p = ex.template run<ScatterAlongBeam<1>>(in[0], t[1], t[2], t[3], t[4]);
        ex.momentum(2, p, 0);
        ex.momentum(3, p, 4);
    }
};

// Three outgoing particles. kUpperFirst: order [1, 0], particle 2 is peeled off beam 1 first, then 1 from 0;
// else order [0, 1], particle 0 is peeled off beam 0 first, then 2 from 1.
// Inputs: r_recoil, r_phi0, r_t0, r_phi1, r_t1, com_energy, m_0, m_1, m_2.
template <class Map, bool kUpperFirst>
struct TChain3 {
    static constexpr int kInputs = 9, kMomenta = 5;

    template <class Executor, class Value = typename Executor::Value>
    MS_FN static void eval(Executor& ex, const Value (&in)[kInputs], Value nu) {
        constexpr int kPeeled = kUpperFirst ? 2 : 0;  // by the first step
        constexpr int kRest = kUpperFirst ? 0 : 1;    // particles 1 and 2 of the second step
        constexpr int kSecond = kUpperFirst ? 1 : 2;
        const auto start =
            ex.template run<ChainStart<3>>(in[5], in[6], in[7], in[8], in[0], in[1], in[2], in[3], in[4]);
        const Value energy = start[1];
        const Value m_peeled = start[2 + kPeeled], m_rest = start[2 + kRest], m_second = start[2 + kSecond];
        const auto rest = ex.template run<Sum>(m_rest, m_second);
        const auto recoil = ex.template run<RecoilMass>(in[0], energy, rest[0], start[5], start[0]);

        const auto beams = ex.template run<Beams>(energy);
        ex.momentum(0, beams, 0);
        ex.momentum(1, beams, 4);

        // The recoil is measured from the beam that the peeled particle is not next to.
        const auto t0 = ex.template run<MomentumTransfer<Map, Virtual::kNone>>(
            in[2], energy, recoil[0], m_peeled, recoil[2], ex.zero(), ex.zero(), nu, recoil[3]);
        const auto p0 = ex.template run<ScatterAlongBeam<(kUpperFirst ? 1 : -1)>>(in[1], t0[1], t0[2], t0[3], t0[4]);
        ex.momentum(2 + kPeeled, p0, 4);

        // Second step: p_a is the side of beam 0. With order [1, 0] it still is beam 0 and p_b = beam 1 - peeled;
        // with [0, 1] p_a = beam 0 - peeled and p_b still is beam 1.
        constexpr Virtual kLegs = kUpperFirst ? Virtual::kB : Virtual::kA;
        const Value a = kUpperFirst ? ex.zero() : t0[0], b = kUpperFirst ? t0[0] : ex.zero();
        const auto t1 = ex.template run<MomentumTransfer<Map, kLegs>>(in[4], recoil[0], m_rest, m_second, recoil[1], a,
                                                                      b, nu, t0[5]);
        ex.det(t1[5]);
        const auto p1 = ex.template run<ScatterFromBeam<(kUpperFirst ? 1 : -1), kUpperFirst>>(
            in[3], t1[1], t1[2], t1[3], t1[4], recoil[0], m_rest, m_second, p0[0], p0[1], p0[2], p0[3]);
        ex.momentum(2 + kRest, p1, 0);
        ex.momentum(2 + kSecond, p1, 4);
    }
};

MS_END_NAMESPACE
