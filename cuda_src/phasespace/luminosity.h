// From hadrons to partons: shares of the beams' energy, the boost to the laboratory, the cross section.
#pragma once

#include "madspace/angles.h"
#include "madspace/four_vector.h"
#include "step.h"

MS_BEGIN_NAMESPACE

// x_1 = tau^r and x_2 = tau^(1-r) with tau = s_hat/s_lab; dx_1 dx_2 = |ln tau|/s_lab ds_hat dr.
// MadSpace, arXiv:2602.06895, section 2.2.
//
// in:  r, s_hat, s_lab
// out: x_1, x_2, det
struct RToX1X2 {
    static constexpr int kInputs = 3, kOutputs = 3;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const double r = clamp_unit(in[0]);
        const bool valid = in[1] > 0.0 && in[1] <= in[2];
        const double log_tau = natural_log(select(valid, in[1] / in[2], 1.0));
        out[0] = exponential(r * log_tau);
        out[1] = exponential((1.0 - r) * log_tau);
        out[2] = unit_weight(in[0]) * select(valid, -log_tau / in[2], 0.0);
    }
};

// in:  x_1, x_2, s_lab
// out: r, det
struct X1X2ToR {
    static constexpr int kInputs = 3, kOutputs = 2;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const bool valid = in[0] > 0.0 && in[1] > 0.0 && in[0] <= 1.0 && in[1] <= 1.0;
        const double log_1 = natural_log(select(valid, in[0], 1.0)), log_2 = natural_log(select(valid, in[1], 1.0));
        const double log_tau = log_1 + log_2;
        const bool open = log_tau < 0.0;
        const double inverse = 1.0 / select(open, log_tau, -1.0);
        out[0] = select(open, log_1 * inverse, 0.5);
        out[1] = select(open, -in[2] * inverse, 0.0);
    }
};

// Boost along z that takes two beams of equal energy to the shares x_1 and x_2; kInverse undoes it. Light-cone
// components are multiplied by sqrt(x_1/x_2) and its inverse. A mass below 0 stands for the momentum's own.
//
// in:  p (4), mass, x_1, x_2
// out: p (4)
template <bool kInverse>
struct BoostBeam {
    static constexpr int kInputs = 7, kOutputs = 4;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        const FourVector p = four_vector(in);
        const double up = exact_root(kInverse ? in[6] / in[5] : in[5] / in[6]), down = 1.0 / up;
        const double own = (p.e - absolute(p.z)) * (p.e + absolute(p.z)) - transverse_2(p);
        const LightCone k = light_cone(p, select(in[4] < 0.0, own, in[4] * in[4]));
        const double plus = k.plus * up, minus = k.minus * down;
        out[0] = 0.5 * (plus + minus);
        out[1] = p.x;
        out[2] = p.y;
        out[3] = 0.5 * (plus - minus);
    }
};

// in:  n momenta (4 n), n masses, x_1, x_2
// out: n momenta
template <bool kInverse>
struct BoostBeamList {
    MS_HOST_FN static bool accepts(int n_in, int n_out) {
        return n_out >= 4 && n_out % 4 == 0 && n_in == n_out + n_out / 4 + 2;
    }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int n_out) {
        for (int k = 0; k < n_out / 4; ++k) {
            const auto p =
                ex.template run<BoostBeam<kInverse>>(ex.in(4 * k), ex.in(4 * k + 1), ex.in(4 * k + 2), ex.in(4 * k + 3),
                                                     ex.in(n_out + k), ex.in(n_in - 2), ex.in(n_in - 1));
            for (int c = 0; c < 4; ++c) ex.out(4 * k + c, p[c]);
        }
    }
};

// in:  x_1, x_2, pdf_1, pdf_2, matrix element, s_lab
// out: cross section in pb
struct DiffCrossSection {
    static constexpr int kInputs = 6, kOutputs = 1;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        constexpr double kPicobarn = 0.38937937217186e9;  // (hbar c)^2 in pb GeV^2
        const double x12 = in[0] * in[1];
        const double flux = 2.0 * in[5] * (x12 * x12);
        out[0] = select(flux > 0.0, kPicobarn * in[4] * (in[2] * in[3]) / select(flux > 0.0, flux, 1.0), 0.0);
    }
};

MS_END_NAMESPACE
