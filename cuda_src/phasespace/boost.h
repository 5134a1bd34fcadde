// Boosts of what is made in a rest frame.
#pragma once

#include "madspace/four_vector.h"

MS_BEGIN_NAMESPACE

// Two particles back to back, (e1, k) with mass m1 and (e2, -k) with mass m2, from the rest frame of P = total, whose
// mass is m: out[0] .. out[3] and out[4] .. out[7]. The softer of the two is boosted and put on its mass shell, the
// other is the rest, so that momentum is conserved and a soft particle keeps its mass.
MS_FN void boost_pair(const ThreeVector& k, double e1, double e2, double m1, double m2, const FourVector& total,
                      double m, double* out) {
    const double inverse_m = reciprocal(m);
    const double along_total = dot(k, {total.x, total.y, total.z});
    const double e1_lab = (e1 * total.e + along_total) * inverse_m, e2_lab = (e2 * total.e - along_total) * inverse_m;
    const bool first_softer = e1_lab < e2_lab;
    const double sign = first_softer ? 1.0 : -1.0;
    const double e_soft = select(first_softer, e1, e2), m_soft = select(first_softer, m1, m2);
    const double e_lab = select(first_softer, e1_lab, e2_lab);
    const ThreeVector soft = {sign * k.x, sign * k.y, sign * k.z};
    const double factor = (e_soft + e_lab) * reciprocal(m + total.e);
    const ThreeVector boosted = {soft.x + total.x * factor, soft.y + total.y * factor, soft.z + total.z * factor};
    const FourVector softer = {root(m_soft * m_soft + dot(boosted, boosted)), boosted.x, boosted.y, boosted.z};
    const FourVector harder = total - softer;

    out[0] = select(first_softer, softer.e, harder.e);
    out[1] = select(first_softer, softer.x, harder.x);
    out[2] = select(first_softer, softer.y, harder.y);
    out[3] = select(first_softer, softer.z, harder.z);
    out[4] = select(first_softer, harder.e, softer.e);
    out[5] = select(first_softer, harder.x, softer.x);
    out[6] = select(first_softer, harder.y, softer.y);
    out[7] = select(first_softer, harder.z, softer.z);
}

// Boost of k out of the rest frame of P = total, whose mass is m; the energy from the mass shell of mass_k.
MS_FN FourVector boost_from_rest(const FourVector& k, double mass_k, const FourVector& total, double m) {
    const double e = (k.e * total.e + dot(space(k), space(total))) / m;
    const double factor = (k.e + e) / (m + total.e);
    const ThreeVector p = {k.x + total.x * factor, k.y + total.y * factor, k.z + total.z * factor};
    return {root(mass_k * mass_k + dot(p, p)), p.x, p.y, p.z};
}

MS_END_NAMESPACE
