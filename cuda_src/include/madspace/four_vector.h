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

MS_FN double dot(const ThreeVector& a, const ThreeVector& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

MS_FN FourVector operator-(const FourVector& a, const FourVector& b) {
    return {a.e - b.e, a.x - b.x, a.y - b.y, a.z - b.z};
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

MS_END_NAMESPACE
