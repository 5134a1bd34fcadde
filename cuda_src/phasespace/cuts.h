// Cuts as factors 0 or 1, scales of an event, and what is told to networks about it. MadSpace, arXiv:2602.06895.
#pragma once

#include "observables.h"

MS_BEGIN_NAMESPACE

// in: value, min, max; out: 1 inside, ends included
struct CutOne {
    static constexpr int kInputs = 3, kOutputs = 1;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        out[0] = (in[0] >= in[1]) & (in[0] <= in[2]) ? 1.0 : 0.0;
    }
};

// in: result so far, value, min, max
template <bool kAll>
struct CutMore {
    static constexpr int kInputs = 4, kOutputs = 1;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const bool inside = (in[1] >= in[2]) & (in[1] <= in[3]);
        out[0] = kAll ? select(inside, in[0], 0.0) : select(inside, 1.0, in[0]);
    }
};

// in: n values, min, max; out: 1 where all (any) are inside
template <bool kAll>
struct CutList {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_in >= 3 && n_out == 1; }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int) {
        auto result = ex.template accumulators<1>(kAll ? 1.0 : 0.0);
        for (int k = 0; k < n_in - 2; ++k)
            ex.template update<CutMore<kAll>>(result, ex.in(k), ex.in(n_in - 2), ex.in(n_in - 1));
        ex.out(0, result[0]);
    }
};

// in: weight, value; out: weight, 0 where the value is not finite
struct KeepFinite {
    static constexpr int kInputs = 2, kOutputs = 1;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        out[0] = finite_weight(in[0], in[1]);
    }
};

// in: weight, x; out: weight, 0 where x is not in [0, 1] or the weight is not finite
struct KeepUnit {
    static constexpr int kInputs = 2, kOutputs = 1;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        out[0] = (in[1] >= 0.0) & (in[1] <= 1.0) & (in[0] - in[0] == 0.0) ? in[0] : 0.0;
    }
};

// in: weight, momenta, x_1, x_2; out: weight, 0 where anything is not finite or an x is outside [0, 1]
struct CutUnphysical {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_in >= 3 && (n_in - 3) % 4 == 0 && n_out == 1; }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int) {
        const auto weight = ex.template run<KeepUnit>(ex.in(0), ex.in(n_in - 2));
        auto result = ex.template run<KeepUnit>(weight[0], ex.in(n_in - 1));
        for (int k = 1; k < n_in - 2; ++k) ex.template update<KeepFinite>(result, ex.in(k));
        ex.out(0, result[0]);
    }
};

enum class Scale { kTransverseEnergy, kTransverseMass, kHalfTransverseMass };

// in: sum, p (4); out: sum
template <Scale kScale>
struct AddScale {
    static constexpr int kInputs = 5, kOutputs = 1;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector p = four_vector(in + 1);
        const double length = magnitude(p);
        if constexpr (kScale == Scale::kTransverseEnergy)
            out[0] = in[0] + p.e * transverse(p) / select(length > 0.0, length, 1.0);
        else
            out[0] =
                in[0] + (kScale == Scale::kTransverseMass ? 1.0 : 0.5) * root(at_least((p.e - p.z) * (p.e + p.z), 0.0));
    }
};

// in: the momenta of an event, beams first; out: a sum over the outgoing ones
template <Scale kScale>
struct ScaleSum {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_in >= 8 && n_in % 4 == 0 && n_out == 1; }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int) {
        auto sum = ex.template accumulators<1>(0.0);
        for (int k = 8; k < n_in; k += 4)
            ex.template update<AddScale<kScale>>(sum, ex.in(k), ex.in(k + 1), ex.in(k + 2), ex.in(k + 3));
        ex.out(0, sum[0]);
    }
};

// in: two momenta; out: sqrt(E^2 - p_z^2) of their sum
struct LongitudinalMass {
    static constexpr int kInputs = 8, kOutputs = 1;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector p = four_vector(in) + four_vector(in + 4);
        out[0] = root(at_least((p.e - p.z) * (p.e + p.z), 0.0));
    }
};

struct ScalePartonicEnergy {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_in >= 8 && n_in % 4 == 0 && n_out == 1; }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int, int) {
        ex.out(0, ex.template run<LongitudinalMass>(ex.in(0), ex.in(1), ex.in(2), ex.in(3), ex.in(4), ex.in(5),
                                                    ex.in(6), ex.in(7))[0]);
    }
};

// in: p (4); out: ln(p_T^2 + 1e-6)/2, phi, atanh(p_z/|p|)
struct PtEtaPhi {
    static constexpr int kInputs = 4, kOutputs = 3;
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector p = four_vector(in);
        out[0] = 0.5 * natural_log(transverse_2(p) + 1e-6);
        out[1] = arctan2(p.y, p.x);
        out[2] = pseudorapidity(p);
    }
};

// in: the momenta of an event, beams first, x_1, x_2; out: x_1, x_2, then PtEtaPhi of each outgoing one
struct PtEtaPhiX {
    MS_HOST_FN static bool accepts(int n_in, int n_out) {
        return n_in >= 10 && (n_in - 2) % 4 == 0 && n_out == 2 + 3 * ((n_in - 10) / 4);
    }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int) {
        ex.out(0, ex.in(n_in - 2));
        ex.out(1, ex.in(n_in - 1));
        for (int k = 8, to = 2; k < n_in - 2; k += 4, to += 3) {
            const auto p = ex.template run<PtEtaPhi>(ex.in(k), ex.in(k + 1), ex.in(k + 2), ex.in(k + 3));
            for (int c = 0; c < 3; ++c) ex.out(to + c, p[c]);
        }
    }
};

MS_END_NAMESPACE
