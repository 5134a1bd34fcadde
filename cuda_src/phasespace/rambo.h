// FastRambo: nearly flat n-body phase space as a chain of 1 -> 1 + rest splittings.
// MadSpace, arXiv:2602.06895, section 2.2; the flat relation: Plaetzer, arXiv:1308.2922.
//
// K_i = M_i - (masses still to come) shrinks by u at each splitting but the last. With x = u^(2 m), m the number of
// mass variables still to draw, the flat relation r = (m+1) x - m x^((m+1)/m) has no closed inverse; it is replaced by
//   r = (x^2 + a x (1-x))/(1 + (a-2) x (1-x)),
// whose slope a at 0 is a least-squares fit over x to the flat relation, exact for m = 1. The weight corrects for the
// difference:
//   det = (pi/2)^(n-1) prod_splittings 2 |p|/M_{i-1} prod_drawn K_0^2 (M_i/K_i)/(m dr/dx).
#pragma once

#include "arithmetic.h"
#include "decays.h"

MS_BEGIN_NAMESPACE

constexpr int kMaxRambo = 12;  // particles

// a for m = 1 .. 10.
MS_FN double rambo_slope(int m) {
    constexpr double kSlopes[] = {2.0,           2.7120013527, 3.08452063869, 3.31307333155, 3.46751197172,
                                  3.57883263585, 3.6628720631, 3.72856064089, 3.78131569022, 3.82461377395};
    return kSlopes[m - 1];
}

// x, 1 - x and dr/dx of the map above. With d = 1 - r and S = sqrt(a^2 d^2 + 4 r d): x = 2 r/D and 1 - x = (a d + S)/D,
// D = a - r (a-2) + S, all terms positive.
struct RamboMap {
    double x, rest, slope;
};

MS_FN double rambo_slope_at(double x, double rest, double a) {
    const double q = x * rest, inverse = 1.0 / (1.0 + (a - 2.0) * q);
    return (2.0 * q + a * (rest * rest)) * (inverse * inverse);
}

MS_FN RamboMap rambo_map(double r_in, double a) {
    // Kept off both ends, where powers of x and the momenta of massive particles would vanish: by less than 2^-53.
    const double r = at_least(clamp_unit(r_in), 1e-30), d = at_least(1.0 - r, 0x1p-54);
    const double s = root(d * (a * a * d + 4.0 * r));
    const double inverse = 1.0 / (a - r * (a - 2.0) + s);
    const double x = 2.0 * r * inverse, rest = (a * d + s) * inverse;
    return {x, rest, rambo_slope_at(x, rest, a)};
}

// in:  energy, sum of all masses, the smallest mass
// out: M_0, K_0, 1 where the masses are to be used (else 0: a closed event, of weight 0), weight
struct RamboStart {
    static constexpr int kInputs = 3, kOutputs = 4;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const Parent p0 = parent(in[0], in[0] - in[1], in[2]);
        out[0] = p0.m0;
        out[1] = select(p0.open > 0.0, in[0] - in[1], p0.m0);
        out[2] = out[3] = select(p0.open > 0.0, 1.0, 0.0);
    }
};

// Splits off one particle. kLast: what is left is a particle as well, of mass `rest`.
//
// in:  r_cos_theta, r_phi, r_mass, m, a, K_0, K_{i-1}, M_{i-1}, m_i, rest (sum of the masses still to come), Q_{i-1}
// (4),
//      weight, 1 or 0 for the masses
// out: p_i (4), Q_i (4), K_i, M_i, weight
template <bool kLast>
struct RamboSplit {
    static constexpr int kInputs = 16, kOutputs = 11;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double m = in[3], k0 = in[5], k_before = in[6], m_before = in[7];
        const double mass = select(in[15] > 0.0, in[8], 0.0), masses = select(in[15] > 0.0, in[9], 0.0);
        double k = 0.0, excess = k_before, factor = 1.0, recoil = masses;
        if constexpr (!kLast) {
            const RamboMap map = rambo_map(in[2], in[4]);
            const double log_x = map.x < 0.5 ? natural_log(map.x) : log_1p(-map.rest);
            const double log_u = log_x * (0.5 / m);
            k = k_before * exponential(log_u);
            excess = -k_before * exp_m1(log_u);
            recoil = k + masses;
            factor = k0 * k0 * (recoil / k) / (m * map.slope) * unit_weight(in[2]);
        }
        const PairKinematics pair = pair_from_excess(m_before, mass, recoil, excess);
        const ThreeVector p = isotropic(in[1], in[0], pair.p);
        boost_pair(p, pair.e1, pair.e2, mass, recoil, four_vector(in + 10), m_before, out);
        out[8] = k;
        out[9] = recoil;
        out[10] = in[14] * factor * pair.weight * unit_weight(in[0]) * unit_weight(in[1]);
    }
};

// in:  p_i (4), Q_{i-1} (4), Q_i (4), M_{i-1}, K_{i-1}, m_i, rest, m, a, K_0, weight
// out: r_cos_theta, r_phi, r_mass, M_i, K_i, weight
template <bool kLast>
struct RamboPeel {
    static constexpr int kInputs = 20, kOutputs = 6;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector p = four_vector(in), before = four_vector(in + 4);
        const double m_before = in[12], k_before = in[13], mass = in[14], masses = in[15], m = in[16], a = in[17];
        double k = 0.0, excess = k_before, factor = 1.0, recoil = masses, r = 0.0;
        if constexpr (!kLast) {
            k = at_least(root(at_least(mass_2(four_vector(in + 8)), 0.0)) - masses, 1e-150 * m_before);
            recoil = k + masses;
            const double ratio = k / k_before;
            const double u = ratio < 1.0 ? ratio : 1.0;
            const double log_x = 2.0 * m * natural_log(u);
            const double x = exponential(log_x), rest = at_least(-exp_m1(log_x), 0x1p-54);
            r = (x * x + a * (x * rest)) / (1.0 + (a - 2.0) * (x * rest));
            excess = at_least(k_before - k, 0.0);
            factor = in[18] * in[18] * (recoil / k) / (m * rambo_slope_at(x, rest, a));
        }
        const ThreeVector q = boost_to_rest(p, before, m_before);
        const PairKinematics pair = pair_from_excess(m_before, mass, recoil, excess);
        const double length = root(dot(q, q));
        const double volume = factor * pair.weight;
        out[0] = cosine_random(q, length);
        out[1] = azimuth_random(q.y, q.x);
        out[2] = r;
        out[3] = recoil;
        out[4] = k;
        out[5] = select(volume > 0.0, in[19] / select(volume > 0.0, volume, 1.0), 0.0);
    }
};

// in: weight, everything of p; out: weight, 0 where p is not finite
struct FiniteWeight {
    static constexpr int kInputs = 5, kOutputs = 1;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        out[0] = finite_weight(in[0], in[1] + in[2] + in[3] + in[4]);
    }
};

// in:  3 n - 4 random numbers (cos_theta, phi, mass of each splitting; the last one has no mass), energy,
//      n masses (kMassive), Q_0 (4) (unless kCom)
// out: n momenta, det
template <bool kMassive, bool kCom>
struct FastRambo {
    MS_HOST_FN static bool accepts(int n_in, int n_out) {
        const int n = (n_out - 1) / 4;
        return n >= 3 && n <= kMaxRambo && n_out == 4 * n + 1 &&
               n_in == 3 * n - 3 + (kMassive ? n : 0) + (kCom ? 0 : 4);
    }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int n_out) {
        const int n = (n_out - 1) / 4, energy = 3 * n - 4;
        const auto zero = ex.constant(0.0);
        // sums[i]: the masses of particles i .. n-1.
        decltype(ex.constant(0.0)) sums[kMaxRambo + 1];
        sums[n] = zero;
        auto lightest = kMassive ? ex.in(energy + 1) : zero;
        for (int i = n - 1; i >= 0; --i) {
            sums[i] = kMassive ? ex.template run<Add>(ex.in(energy + 1 + i), sums[i + 1])[0] : zero;
            if constexpr (kMassive) lightest = ex.template run<Min>(lightest, ex.in(energy + 1 + i))[0];
        }
        const auto start = ex.template run<RamboStart>(ex.in(energy), sums[0], lightest);
        auto q0 = start[0], q1 = zero, q2 = zero, q3 = zero;
        if constexpr (!kCom) q0 = ex.in(n_in - 4), q1 = ex.in(n_in - 3), q2 = ex.in(n_in - 2), q3 = ex.in(n_in - 1);
        auto k = start[1], mass = start[0], weight = start[3];
        for (int i = 0; i < n - 1; ++i) {
            const auto own = kMassive ? ex.in(energy + 1 + i) : zero;
            const int m = n - 2 - i;
            const auto out =
                m > 0 ? ex.template run<RamboSplit<false>>(ex.in(3 * i), ex.in(3 * i + 1), ex.in(3 * i + 2),
                                                           ex.constant(m), ex.constant(rambo_slope(m)), start[1], k,
                                                           mass, own, sums[i + 1], q0, q1, q2, q3, weight, start[2])
                      : ex.template run<RamboSplit<true>>(ex.in(3 * i), ex.in(3 * i + 1), zero, zero, zero, zero, k,
                                                          mass, own, sums[i + 1], q0, q1, q2, q3, weight, start[2]);
            for (int c = 0; c < 4; ++c) ex.out(4 * i + c, out[c]);
            q0 = out[4], q1 = out[5], q2 = out[6], q3 = out[7];
            k = out[8], mass = out[9], weight = out[10];
        }
        ex.out(4 * n - 4, q0);
        ex.out(4 * n - 3, q1);
        ex.out(4 * n - 2, q2);
        ex.out(4 * n - 1, q3);
        ex.out(4 * n, ex.template run<FiniteWeight>(weight, q0, q1, q2, q3)[0]);
    }
};

// in:  n momenta, energy, n masses (kMassive)
// out: 3 n - 4 random numbers, Q_0 (4), det
template <bool kMassive>
struct FastRamboInverse {
    MS_HOST_FN static bool accepts(int n_in, int n_out) {
        const int n = (n_out - 1) / 3;
        return n >= 3 && n <= kMaxRambo && n_out == 3 * n + 1 && n_in == (kMassive ? 5 : 4) * n + 1;
    }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int, int n_out) {
        const int n = (n_out - 1) / 3;
        const auto zero = ex.constant(0.0);
        using Value = decltype(ex.constant(0.0));
        Value sums[kMaxRambo + 1], q[kMaxRambo + 1][4];
        sums[n] = zero;
        auto lightest = kMassive ? ex.in(4 * n + 1) : zero;
        for (int i = n - 1; i >= 0; --i) {
            sums[i] = kMassive ? ex.template run<Add>(ex.in(4 * n + 1 + i), sums[i + 1])[0] : zero;
            if constexpr (kMassive) lightest = ex.template run<Min>(lightest, ex.in(4 * n + 1 + i))[0];
            for (int c = 0; c < 4; ++c)
                q[i][c] = i == n - 1 ? ex.in(4 * i + c) : ex.template run<Add>(ex.in(4 * i + c), q[i + 1][c])[0];
        }
        const auto start = ex.template run<RamboStart>(ex.in(4 * n), sums[0], lightest);
        Value k = start[1], mass = start[0], weight = start[3];
        for (int i = 0; i < n - 1; ++i) {
            const auto own = kMassive ? ex.in(4 * n + 1 + i) : zero;
            const int m = n - 2 - i;
            const Value a = ex.constant(m > 0 ? rambo_slope(m) : 0.0), count = ex.constant(m);
            const auto out =
                m > 0 ? peel<false>(ex, i, q[i], q[i + 1], mass, k, own, sums[i + 1], count, a, start[1], weight)
                      : peel<true>(ex, i, q[i], q[i + 1], mass, k, own, sums[i + 1], count, a, start[1], weight);
            ex.out(3 * i, out[0]);
            ex.out(3 * i + 1, out[1]);
            if (m > 0) ex.out(3 * i + 2, out[2]);
            mass = out[3], k = out[4], weight = out[5];
        }
        for (int c = 0; c < 4; ++c) ex.out(3 * n - 4 + c, q[0][c]);
        ex.out(3 * n, weight);
    }

private:
    template <bool kLast, class Executor, class Value, class... V>
    MS_FN static Values<Value, 6> peel(Executor& ex, int i, const Value (&before)[4], const Value (&after)[4],
                                       V... values) {
        return ex.template run<RamboPeel<kLast>>(ex.in(4 * i), ex.in(4 * i + 1), ex.in(4 * i + 2), ex.in(4 * i + 3),
                                                 before[0], before[1], before[2], before[3], after[0], after[1],
                                                 after[2], after[3], values...);
    }
};

MS_END_NAMESPACE
