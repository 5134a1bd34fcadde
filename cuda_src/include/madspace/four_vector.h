// Four-momenta (E, px, py, pz) in GeV, metric (+, -, -, -).
#pragma once

#include "math.h"

MS_BEGIN_NAMESPACE

struct FourVector {
    double e, x, y, z;
};

struct ThreeVector {
    double x, y, z;
};

// The components at in[0] .. in[3].
MS_FN FourVector four_vector(const double* in) { return {in[0], in[1], in[2], in[3]}; }

MS_FN void store(const FourVector& p, double* out) {
    out[0] = p.e;
    out[1] = p.x;
    out[2] = p.y;
    out[3] = p.z;
}

MS_FN ThreeVector space(const FourVector& p) { return {p.x, p.y, p.z}; }

MS_FN double dot(const ThreeVector& a, const ThreeVector& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

MS_FN FourVector operator-(const FourVector& a, const FourVector& b) {
    return {a.e - b.e, a.x - b.x, a.y - b.y, a.z - b.z};
}

MS_FN FourVector operator+(const FourVector& a, const FourVector& b) {
    return {a.e + b.e, a.x + b.x, a.y + b.y, a.z + b.z};
}

MS_FN double transverse_2(const FourVector& p) { return p.x * p.x + p.y * p.y; }

// p^2 from light-cone components: exact 0 for a massless momentum along z.
MS_FN double mass_2(const FourVector& p) { return (p.e - p.z) * (p.e + p.z) - transverse_2(p); }

// p^2 of a particle that is not virtual: what rounding of its components could have made is 0.
MS_FN double particle_mass_2(const FourVector& p) {
    const double m_2 = mass_2(p);
    return select(m_2 > 0x1p-49 * (p.e * p.e), m_2, 0.0);
}

// p^+ = E + p_z and p^- = E - p_z; the smaller one as m_T^2 over the larger, so that it keeps its digits.
struct LightCone {
    double plus, minus;
};

MS_FN LightCone light_cone(const FourVector& p, double m_2) {
    const double large = p.e + absolute(p.z);
    const double small = (m_2 + transverse_2(p)) / select(large > 0.0, large, 1.0);
    return {select(p.z < 0.0, small, large), select(p.z < 0.0, large, small)};
}

// Boost of k into the rest frame of P, whose mass is m: the space part there.
MS_FN ThreeVector boost_to_rest(const FourVector& k, const FourVector& total, double m) {
    const double e = (k.e * total.e - dot(space(k), space(total))) / m;
    const double factor = (k.e + e) / (m + total.e);
    return {k.x - total.x * factor, k.y - total.y * factor, k.z - total.z * factor};
}

MS_FN ThreeVector unit(const ThreeVector& p) {
    const double length = root(dot(p, p));
    const double inverse = reciprocal(select(length > 0.0, length, 1.0));
    return {p.x * inverse, p.y * inverse, select(length > 0.0, p.z * inverse, 1.0)};
}

// Rotation that takes +z to the unit vector n, applied to p. Without a transverse norm, so without a degenerate
// direction: with sg = sign(n_z), a = sg p_x, d = n_x a + n_y p_y and k = p_z - d / (1 + |n_z|) the result is
// (a + n_x k, p_y + n_y k, n_z p_z - sg d). For n = -z it is the rotation by pi about the y axis.
MS_FN ThreeVector rotate_from_z(const ThreeVector& p, const ThreeVector& n) {
    const double sign = n.z < 0.0 ? -1.0 : 1.0;
    const double a = sign * p.x;
    const double d = n.x * a + n.y * p.y;
    const double k = p.z - d * reciprocal(1.0 + absolute(n.z));
    return {a + n.x * k, p.y + n.y * k, n.z * p.z - sign * d};
}

// The inverse of rotate_from_z.
MS_FN ThreeVector rotate_to_z(const ThreeVector& p, const ThreeVector& n) {
    const double sign = n.z < 0.0 ? -1.0 : 1.0;
    const double d = n.x * p.x + n.y * p.y;
    const double k = d * reciprocal(1.0 + absolute(n.z));
    return {sign * (p.x - n.x * k) - n.x * p.z, p.y - n.y * k - sign * (n.y * p.z), d + n.z * p.z};
}

MS_END_NAMESPACE
