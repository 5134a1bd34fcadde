// Observables of momenta (E, px, py, pz). MadSpace, arXiv:2602.06895.
#pragma once

#include "madspace/angles.h"
#include "madspace/four_vector.h"
#include "step.h"

MS_BEGIN_NAMESPACE

// Stands for infinity where a momentum lies along the beam or vanishes.
constexpr double kLargestRapidity = 99.0;

MS_FN double transverse(const FourVector& p) { return root(transverse_2(p)); }

MS_FN double magnitude(const FourVector& p) { return root(transverse_2(p) + p.z * p.z); }

// ln((E + |p_z|)/(E - |p_z|))/2 with the sign of p_z, as ln(1 + 2 |p_z|/(E - |p_z|))/2.
MS_FN double rapidity(const FourVector& p) {
    const double z = absolute(p.z);
    const double away = p.e - z;
    const double y = 0.5 * log_1p(2.0 * z / select(away > 0.0, away, 1.0));
    return (p.z < 0.0 ? -1.0 : 1.0) * select(away > 0.0, y, kLargestRapidity);
}

// The same with |p| for E; |p| - |p_z| = p_T^2/(|p| + |p_z|).
MS_FN double pseudorapidity(const FourVector& p) {
    const double z = absolute(p.z), t_2 = transverse_2(p);
    const bool inside = t_2 > 1e-60 * (z * z) && t_2 > 1e-290;
    const double y = 0.5 * log_1p(2.0 * z * (root(t_2 + z * z) + z) / select(inside, t_2, 1.0));
    return (p.z < 0.0 ? -1.0 : 1.0) * select(inside, y, kLargestRapidity);
}

// phi_1 - phi_2 in [-pi, pi): the angle of p_1 seen from p_2, without a difference of angles.
MS_FN double delta_phi(const FourVector& p1, const FourVector& p2) {
    const double angle = arctan2(p1.y * p2.x - p1.x * p2.y, p1.x * p2.x + p1.y * p2.y);
    return angle >= kPi ? -kPi : angle;
}

MS_FN double delta_eta(const FourVector& p1, const FourVector& p2) { return pseudorapidity(p1) - pseudorapidity(p2); }

MS_FN double delta_r(const FourVector& p1, const FourVector& p2) {
    const double eta = delta_eta(p1, p2), phi = delta_phi(p1, p2);
    return root(eta * eta + phi * phi);
}

#define MS_OBSERVABLE(Name, expression)                                                \
    struct Name {                                                                      \
        static constexpr int kInputs = 4, kOutputs = 1;                                \
        MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) { \
            const FourVector p = four_vector(in);                                      \
            out[0] = (expression);                                                     \
        }                                                                              \
    };
#define MS_PAIR_OBSERVABLE(Name, expression)                                           \
    struct Name {                                                                      \
        static constexpr int kInputs = 8, kOutputs = 1;                                \
        MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) { \
            const FourVector p1 = four_vector(in), p2 = four_vector(in + 4);           \
            out[0] = (expression);                                                     \
        }                                                                              \
    };

MS_OBSERVABLE(ObsE, p.e)
MS_OBSERVABLE(ObsPx, p.x)
MS_OBSERVABLE(ObsPy, p.y)
MS_OBSERVABLE(ObsPz, p.z)
MS_OBSERVABLE(ObsMass, root(at_least(mass_2(p), 0.0)))
MS_OBSERVABLE(ObsPt, transverse(p))
MS_OBSERVABLE(ObsPMag, magnitude(p))
MS_OBSERVABLE(ObsPhi, arctan2(p.y, p.x))
MS_OBSERVABLE(ObsTheta, arctan2(transverse(p), p.z))
MS_OBSERVABLE(ObsY, rapidity(p))
MS_OBSERVABLE(ObsYAbs, absolute(rapidity(p)))
MS_OBSERVABLE(ObsEta, pseudorapidity(p))
MS_OBSERVABLE(ObsEtaAbs, absolute(pseudorapidity(p)))
MS_PAIR_OBSERVABLE(ObsDeltaEta, delta_eta(p1, p2))
MS_PAIR_OBSERVABLE(ObsDeltaPhi, delta_phi(p1, p2))
MS_PAIR_OBSERVABLE(ObsDeltaR, delta_r(p1, p2))
MS_PAIR_OBSERVABLE(ObsPairMass, root(at_least(mass_2(p1 + p2), 0.0)))

#undef MS_OBSERVABLE
#undef MS_PAIR_OBSERVABLE

// in: momenta of an event, the two beams first; out: the mass of the beams together
struct ObsSqrtS {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_in >= 8 && n_in % 4 == 0 && n_out == 1; }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int, int) {
        ex.out(0, ex.template run<ObsPairMass>(ex.in(0), ex.in(1), ex.in(2), ex.in(3), ex.in(4), ex.in(5), ex.in(6),
                                               ex.in(7))[0]);
    }
};

MS_END_NAMESPACE
