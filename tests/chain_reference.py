"""Textbook evaluation of a t-channel chain in arbitrary precision (mpmath), independent of the library's formulas.

Limits of t from the roots of the Gram determinant, momenta by explicit boosts and rotations, differences taken as they
come: at 50 digits nothing of that matters. Conventions of MadSpace (arXiv:2602.06895, section 2.2): beams along +z and
-z, azimuth pi (2 r - 1), angles measured from the leg a, q = |t| + 0.01 GeV^2.
"""

from mpmath import cos, log, mp, mpf, pi, sin, sqrt

OFFSET = mpf(1) / 100


def kaellen(x, y, z):
    return (x - y - z) ** 2 - 4 * y * z


def minkowski(p, q):
    return p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3]


def add(p, q, sign=1):
    return [a + sign * b for a, b in zip(p, q, strict=True)]


def boost(p, frame, mass, sign):
    """Boost p out of (sign +1) or into (-1) the rest frame of `frame`."""
    along = sum(p[i] * frame[i] for i in (1, 2, 3))
    energy = (p[0] * frame[0] + sign * along) / mass
    factor = (p[0] + energy) / (mass + frame[0])
    return [energy] + [p[i] + sign * frame[i] * factor for i in (1, 2, 3)]


def rotate(p, direction):
    """Rotation of MadSpace that takes +z to `direction`."""
    norm = sqrt(sum(d * d for d in direction))
    nx, ny, nz = (d / norm for d in direction)
    sign = -1 if nz < 0 else 1
    a = sign * p[0]
    d = nx * a + ny * p[1]
    k = p[2] - d / (1 + abs(nz))
    return [a + nx * k, p[1] + ny * k, nz * p[2] - sign * d]


def invariant(r, low, high, nu):
    """Map r to |t|, with the Jacobian."""
    q_low, q_high = low + OFFSET, high + OFFSET
    if nu == 1:
        q = q_low * (q_high / q_low) ** r
        return q - OFFSET, q * log(q_high / q_low)
    p = 1 - nu
    q = (r * q_high**p + (1 - r) * q_low**p) ** (1 / p)
    return q - OFFSET, (q_high**p - q_low**p) / p * q**nu


def floor_limits(low, high, m1, m2, pa, pb, floors):
    """Limits of |t| with floors of transverse energy of p_1 and p_2, for a massless p_a along z."""
    p = add(pa, pb)
    et1, et2 = floors
    pt = sqrt(p[1] ** 2 + p[2] ** 2)
    w = sqrt(minkowski(p, p) + pt**2)
    energy_a = (p[0] * pa[0] - p[3] * pa[3]) / w
    floor_2 = et2**2 - m2**2
    e2 = max(et2, m2)
    e1 = max(et1, sqrt(m1**2 + (pt - sqrt(floor_2)) ** 2) if pt**2 < floor_2 else m1)
    root_2 = (w - e2 - e1) * (w + e2 - e1) * (w - e2 + e1) * (w + e2 + e1)
    if root_2 <= 0 or w < e1 + e2:
        return low, high
    b = w**2 - e2**2 + e1**2
    cut_low = max(low, energy_a * (b - sqrt(root_2)) / w - m1**2)
    cut_high = min(high, energy_a * (b + sqrt(root_2)) / w - m1**2)
    return (cut_low, cut_high) if cut_high > cut_low else (low, high)


def two_to_two(r_phi, r_t, m1, m2, pa, pb, nu, floors=None):
    """p_1, p_2, |t| and the Jacobian of the 2 -> 2 block."""
    total = add(pa, pb)
    s = minkowski(total, total)
    ma_2, mb_2 = minkowski(pa, pa), minkowski(pb, pb)
    a = (s + ma_2 - mb_2) * (s + m1**2 - m2**2)
    y = sqrt(kaellen(s, ma_2, mb_2) * kaellen(s, m1**2, m2**2))
    low = -(ma_2 + m1**2 - (a - y) / (2 * s))
    high = -(ma_2 + m1**2 - (a + y) / (2 * s))
    if floors:
        low, high = floor_limits(low, high, m1, m2, pa, pb, floors)
    t, jacobian = invariant(r_t, low, high, nu)
    mass = sqrt(s)
    e1 = (s + m1**2 - m2**2) / (2 * mass)
    p1 = sqrt(kaellen(s, m1**2, m2**2)) / (2 * mass)
    ea = (s + ma_2 - mb_2) / (2 * mass)
    p_a = sqrt(kaellen(s, ma_2, mb_2)) / (2 * mass)
    parallel = -(m1**2 + ma_2 + t - 2 * e1 * ea) / (2 * p_a)
    transverse_2 = p1**2 - parallel**2
    transverse = sqrt(transverse_2) if transverse_2 > 0 else mpf(0)
    phi = pi * (2 * r_phi - 1)
    frame_a = boost(pa, total, mass, -1)
    k = rotate([transverse * cos(phi), transverse * sin(phi), parallel], frame_a[1:])
    first = boost([e1, *k], total, mass, 1)
    return first, add(total, first, -1), t, jacobian * pi / (2 * sqrt(kaellen(s, ma_2, mb_2)))


def t_chain(order, nu, randoms, energy, masses, digits=60, pt_min=()):
    """Momenta (beams first) and det of a chain with any number of particles, inputs taken as exact numbers."""
    with mp.workdps(digits):
        nu = mpf(str(nu))
        randoms, energy, masses = [mpf(r) for r in randoms], mpf(energy), [mpf(m) for m in masses]
        n_steps = len(order)
        sides = []
        low, high = 0, n_steps - 1
        for index in order:
            sides.append(1 if index == high else 0)
            low, high = (low, high - 1) if index == high else (low + 1, high)
        peeled = [index + side for index, side in zip(order, sides, strict=True)]

        det = mpf(1)
        recoils, left, mass = [], set(range(n_steps + 1)), energy
        for j in range(n_steps - 1):
            left.discard(peeled[j])
            s_min, s_max = sum(masses[i] for i in left) ** 2, (mass - masses[peeled[j]]) ** 2
            mass = sqrt(s_min + randoms[j] * (s_max - s_min))
            det *= s_max - s_min
            recoils.append(mass)
        recoils.append(masses[order[-1]])

        beams = [[energy / 2, mpf(0), mpf(0), sign * energy / 2] for sign in (1, -1)]
        legs, momenta = list(beams), {}
        for j in range(n_steps):
            first, second = (0, 1) if sides[j] == 1 else (1, 0)
            r_phi, r_t = randoms[n_steps - 1 + 2 * j : n_steps + 1 + 2 * j]
            floors = None
            if pt_min and legs[first] is beams[first]:
                et = [sqrt(m**2 + mpf(pt) ** 2) for m, pt in zip(masses, pt_min, strict=True)]
                floors = sum(et[i] for i in (*peeled[j + 1 :], order[-1])), et[peeled[j]]
            recoil, out, _, weight = two_to_two(
                r_phi, r_t, recoils[j], masses[peeled[j]], legs[first], legs[second], nu, floors
            )
            momenta[peeled[j]] = out
            legs[second] = add(legs[second], out, -1)
            det *= weight
        momenta[order[-1]] = recoil
        return beams + [momenta[i] for i in range(n_steps + 1)], det
