// Choices by an integer: gather, permutations, discrete sampling, and sums of momenta with given coefficients.
// Registers have no addresses on a GPU, so a choice is a selection repeated over all candidates.
#pragma once

#include "madspace/four_vector.h"
#include "step.h"

MS_BEGIN_NAMESPACE

// in: chosen so far, index, number of the candidate, candidate; out: chosen
struct ChooseOne {
    static constexpr int kInputs = 4, kOutputs = 1;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        out[0] = select(in[1] == in[2], in[3], in[0]);
    }
};

// The candidate value(0) .. value(n-1) that the index names; an index outside takes the nearest end.
struct ClampIndex {
    static constexpr int kInputs = 2, kOutputs = 1;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double i = at_least(in[0], 0.0);
        out[0] = i < in[1] ? i : in[1];
    }
};

template <class Executor, class Value, class Candidate>
MS_FN Value choose_value(Executor& ex, Value index, int n, Candidate candidate) {
    const Value i = ex.template run<ClampIndex>(index, ex.constant(n - 1))[0];
    auto chosen = ex.template accumulators<1>(0.0);
    for (int k = 0; k < n; ++k) ex.template update<ChooseOne>(chosen, i, ex.constant(k), candidate(k));
    return chosen[0];
}

// in: index, n choices of n_out components; out: one choice
struct Gather {
    MS_HOST_FN static bool accepts(int n_in, int n_out) {
        return n_out >= 1 && n_in > n_out && (n_in - 1) % n_out == 0;
    }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int n_out) {
        for (int c = 0; c < n_out; ++c)
            ex.out(c, choose_value(ex, ex.in(0), (n_in - 1) / n_out, [&](int k) { return ex.in(1 + k * n_out + c); }));
    }
};

// in: n values of kComponents, m indices; out: m values
template <int kComponents>
struct Select {
    MS_HOST_FN static bool accepts(int n_in, int n_out) {
        return n_out >= 1 && n_out % kComponents == 0 && n_in > n_out / kComponents &&
               (n_in - n_out / kComponents) % kComponents == 0;
    }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int n_out) {
        const int m = n_out / kComponents, n = (n_in - m) / kComponents;
        for (int j = 0; j < m; ++j)
            for (int c = 0; c < kComponents; ++c)
                ex.out(j * kComponents + c,
                       choose_value(ex, ex.in(n_in - m + j), n, [&](int k) { return ex.in(k * kComponents + c); }));
    }
};

// in: n momenta, permutations (any number of n indices each), index of the permutation; out: n momenta
struct PermuteMomenta {
    MS_HOST_FN static bool accepts(int n_in, int n_out) {
        const int n = n_out / 4;
        return n >= 1 && n_out % 4 == 0 && n_in > n_out + 1 && (n_in - n_out - 1) % n == 0;
    }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int n_out) {
        const int n = n_out / 4, count = (n_in - n_out - 1) / n;
        for (int j = 0; j < n; ++j) {
            const auto from = choose_value(ex, ex.in(n_in - 1), count, [&](int k) { return ex.in(n_out + k * n + j); });
            for (int c = 0; c < 4; ++c)
                ex.out(4 * j + c, choose_value(ex, from, n, [&](int k) { return ex.in(4 * k + c); }));
        }
    }
};

// in: index, number; out: 1 where they are equal
struct IsEqual {
    static constexpr int kInputs = 2, kOutputs = 1;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        out[0] = in[0] == in[1] ? 1.0 : 0.0;
    }
};

// in: index, number of options (that of the outputs); out: 1 at the index, else 0
struct OneHot {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_in == 2 && n_out >= 1; }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int, int n_out) {
        for (int k = 0; k < n_out; ++k) ex.out(k, ex.template run<IsEqual>(ex.in(0), ex.constant(k))[0]);
    }
};

// in: r, number of options; out: index, det
struct SampleDiscrete {
    static constexpr int kInputs = 2, kOutputs = 2;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double last = at_least(in[1] - 1.0, 0.0);
        // Adding and subtracting 2^52 rounds to an integer; half a step down and up makes that the floor.
        const double x = clamp_unit(in[0]) * in[1];
        const double near = (x + 0x1p52) - 0x1p52;
        const double index = near - select(near > x, 1.0, 0.0);
        out[0] = index < last ? index : last;
        out[1] = in[1] * unit_weight(in[0]);
    }
};

// in: index, number of options; out: r, det
struct SampleDiscreteInverse {
    static constexpr int kInputs = 2, kOutputs = 2;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double inverse = 1.0 / at_least(in[1], 1.0);
        out[0] = (in[0] + 0.5) * inverse;
        out[1] = inverse;
    }
};

// in: total, probability; out: total
struct AddProbability {
    static constexpr int kInputs = 2, kOutputs = 1;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        out[0] = in[0] + at_least(in[1], 0.0);
    }
};

// One option of the inverse distribution: the last one with p > 0 that begins at or below r.
// in: index, probability, sum of the ones before, r, total, number of the option, its probability
// out: index, probability, sum
struct DiscreteOption {
    static constexpr int kInputs = 7, kOutputs = 3;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double p = at_least(in[6], 0.0);
        const bool taken = (p > 0.0) & ((in[2] <= in[3] * in[4]) | (in[1] == 0.0));
        out[0] = select(taken, in[5], in[0]);
        out[1] = select(taken, p, in[1]);
        out[2] = in[2] + p;
    }
};

// in: total, probability, r; out: det, 1 where nothing has a probability
struct DiscreteDet {
    static constexpr int kInputs = 3, kOutputs = 1;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const bool some = in[1] > 0.0;
        out[0] = select(some, in[0] / select(some, in[1], 1.0), 1.0) * unit_weight(in[2]);
    }
};

// in: r, probabilities; out: index, det
struct SampleDiscreteProbs {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_in >= 2 && n_out == 2; }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int) {
        auto total = ex.template accumulators<1>(0.0);
        for (int k = 1; k < n_in; ++k) ex.template update<AddProbability>(total, ex.in(k));
        const auto r = ex.template run<UnitRandom>(ex.in(0))[0];
        auto found = ex.template accumulators<3>(0.0);
        for (int k = 1; k < n_in; ++k)
            ex.template update<DiscreteOption>(found, r, total[0], ex.constant(k - 1), ex.in(k));
        ex.out(0, found[0]);
        ex.out(1, ex.template run<DiscreteDet>(total[0], found[1], ex.in(0))[0]);
    }

    struct UnitRandom {
        static constexpr int kInputs = 1, kOutputs = 1;
        MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) { out[0] = clamp_unit(in[0]); }
    };
};

// in: sum before the index, probability, index, number of the option, its probability; out: sum before, probability
struct DiscreteBefore {
    static constexpr int kInputs = 5, kOutputs = 2;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double p = at_least(in[4], 0.0);
        out[0] = in[0] + select(in[3] < in[2], p, 0.0);
        out[1] = select(in[3] == in[2], p, in[1]);
    }
};

// in: sum before, probability, total; out: r in the middle of the option, det
struct DiscreteMiddle {
    static constexpr int kInputs = 3, kOutputs = 2;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const bool some = in[2] > 0.0;
        const double inverse = 1.0 / select(some, in[2], 1.0);
        out[0] = select(some, (in[0] + 0.5 * in[1]) * inverse, 0.5);
        out[1] = select(some, in[1] * inverse, 1.0);
    }
};

// in: index, probabilities; out: r, det
struct SampleDiscreteProbsInverse {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_in >= 2 && n_out == 2; }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int) {
        auto total = ex.template accumulators<1>(0.0);
        auto found = ex.template accumulators<2>(0.0);
        for (int k = 1; k < n_in; ++k) {
            ex.template update<AddProbability>(total, ex.in(k));
            ex.template update<DiscreteBefore>(found, ex.in(0), ex.constant(k - 1), ex.in(k));
        }
        const auto r = ex.template run<DiscreteMiddle>(found[0], found[1], total[0]);
        ex.out(0, r[0]);
        ex.out(1, r[1]);
    }
};

// in: sum (4), factor, p (4); out: sum (4)
struct AddMomentum {
    static constexpr int kInputs = 9, kOutputs = 4;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        for (int c = 0; c < 4; ++c) out[c] = in[c] + in[4] * in[5 + c];
    }
};

struct MassSquared {
    static constexpr int kInputs = 4, kOutputs = 1;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) { out[0] = mass_2(four_vector(in)); }
};

// in: n momenta, factors (n_out rows of n); out: squares of the sums
struct InvariantsFromMomenta {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_out >= 1 && n_in >= 4 && n_in % (4 + n_out) == 0; }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int n_out) {
        const int n = n_in / (4 + n_out);
        for (int j = 0; j < n_out; ++j) {
            auto sum = ex.template accumulators<4>(0.0);
            for (int k = 0; k < n; ++k)
                ex.template update<AddMomentum>(sum, ex.in(4 * n + j * n + k), ex.in(4 * k), ex.in(4 * k + 1),
                                                ex.in(4 * k + 2), ex.in(4 * k + 3));
            ex.out(j, ex.template run<MassSquared>(sum[0], sum[1], sum[2], sum[3])[0]);
        }
    }
};

// in: value, mirror; out: the value, its sign changed where mirror is not 0
struct Mirror {
    static constexpr int kInputs = 2, kOutputs = 1;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        out[0] = select(in[1] != 0.0, -in[0], in[0]);
    }
};

// Rotation by pi about the x axis. in: momenta, mirror (0 or 1); out: momenta
struct MirrorMomenta {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_out >= 4 && n_out % 4 == 0 && n_in == n_out + 1; }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int n_out) {
        for (int k = 0; k < n_out; ++k)
            ex.out(k, k % 4 < 2 ? ex.in(k) : ex.template run<Mirror>(ex.in(k), ex.in(n_in - 1))[0]);
    }
};

// in: energy of a beam, energy of both hadrons; out: x
struct EnergyShare {
    static constexpr int kInputs = 2, kOutputs = 1;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) { out[0] = 2.0 * in[0] / in[1]; }
};

// in: momenta, beams first, energy; out: x_1, x_2
struct MomentaToX1X2 {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_in >= 9 && n_in % 4 == 1 && n_out == 2; }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int) {
        for (int k = 0; k < 2; ++k) ex.out(k, ex.template run<EnergyShare>(ex.in(4 * k), ex.in(n_in - 1))[0]);
    }
};

MS_END_NAMESPACE
