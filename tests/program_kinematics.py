"""Kinematic ops in plain NumPy, for `program_reference`. Four-vectors are arrays (4, batch), units GeV."""

import numpy as np

FLOOR = 1e-2  # of a power map, in GeV^2


def minkowski(p, q):
    return p[0] * q[0] - (p[1:] * q[1:]).sum(0)


def kaellen(x, y, z):
    return (x - y - z) ** 2 - 4 * y * z


def vectors(x, count):
    """Return the first four-vectors of a list of scalars, and the rest."""
    return [np.array(x[4 * i : 4 * i + 4]) for i in range(count)], x[4 * count :]


def scalars(*vectors_):
    return [component for p in vectors_ for component in p]


def boost(k, frame, sign):
    """Boost out of (1) or into (-1) the rest frame of a momentum."""
    mass = np.sqrt(minkowski(frame, frame))
    energy = (k[0] * frame[0] + sign * (k[1:] * frame[1:]).sum(0)) / mass
    return np.array([energy, *(k[1:] + sign * frame[1:] * (k[0] + energy) / (mass + frame[0]))])


def rotate(p, q, sign):
    """Rotate +z to the direction of q (1), or back (-1)."""
    n = q[1:] / np.sqrt((q[1:] ** 2).sum(0))
    s = np.where(n[2] < 0, -1.0, 1.0)
    f = 1 / (1 + np.abs(n[2]))
    matrix = np.array(
        [
            [s * (1 - n[0] ** 2 * f), -n[0] * n[1] * f, n[0]],
            [-s * n[0] * n[1] * f, 1 - n[1] ** 2 * f, n[1]],
            [-n[0], -s * n[1], n[2]],
        ]
    )
    moved = np.einsum("ijn,jn->in" if sign > 0 else "jin,jn->in", matrix, p[1:])
    return np.array([p[0], *moved])


def power_map(nu):
    """Return the integral of the density q^-nu and its inverse function."""
    if np.all(nu == 1):
        return np.log, np.exp
    return (lambda q: q ** (1 - nu) / (1 - nu)), (lambda y: (y * (1 - nu)) ** (1 / (1 - nu)))


def stable_nu(r, mass, nu, low, high):
    to_flat, from_flat = power_map(nu)
    y0, y1 = (to_flat(s - mass**2 + FLOOR) for s in (low, high))
    q = from_flat(y0 + r * (y1 - y0))
    return [q + mass**2 - FLOOR, (y1 - y0) * q**nu]


def stable_nu_inverse(s, mass, nu, low, high):
    to_flat, _ = power_map(nu)
    y0, y1, y = (to_flat(x - mass**2 + FLOOR) for x in (low, high, s))
    return [(y - y0) / (y1 - y0), 1 / ((y1 - y0) * (s - mass**2 + FLOOR) ** nu)]


def breit_wigner(r, mass, width, low, high):
    y0, y1 = (np.arctan((s - mass**2) / (mass * width)) for s in (low, high))
    s = mass**2 + mass * width * np.tan(y0 + r * (y1 - y0))
    return [s, (y1 - y0) * ((s - mass**2) ** 2 + (mass * width) ** 2) / (mass * width)]


def breit_wigner_inverse(s, mass, width, low, high):
    y0, y1, y = (np.arctan((x - mass**2) / (mass * width)) for x in (low, high, s))
    r = (y - y0) / (y1 - y0)
    return [r, 1 / breit_wigner(r, mass, width, low, high)[1]]


def t_range(pa, pb, m1_2, m2_2):
    s, ma_2, mb_2 = minkowski(pa + pb, pa + pb), minkowski(pa, pa), minkowski(pb, pb)
    middle = (s + ma_2 - mb_2) * (s + m1_2 - m2_2)
    spread = np.sqrt(np.maximum(kaellen(s, ma_2, mb_2) * kaellen(s, m1_2, m2_2), 0))
    low, high = (-(ma_2 + m1_2 - (middle + sign * spread) / (2 * s)) for sign in (-1, 1))
    return np.maximum(np.minimum(low, high), 0), np.maximum(low, high)


def t_inv_min_max(*x):
    (pa, pb), (m1, m2) = vectors(x, 2)
    return list(t_range(pa, pb, m1**2, m2**2))


def t_inv_value_and_min_max(*x):
    (pa, pb, p1, p2), _ = vectors(x, 4)
    return [-minkowski(pa - p1, pa - p1), *t_range(pa, pb, minkowski(p1, p1), minkowski(p2, p2))]


def t_inv_min_max_cut(*x):
    (pa, pb), (m1, m2, et1, et2) = vectors(x, 2)
    low, high = t_range(pa, pb, m1**2, m2**2)
    p = pa + pb
    pt = np.hypot(p[1], p[2])
    w = np.sqrt(np.maximum(minkowski(p, p), 0) + pt**2)
    a = (p[0] * pa[0] - p[3] * pa[3]) / w
    floor_2 = et2**2 - m2**2
    e2 = np.maximum(et2, m2)
    e1 = np.maximum(et1, np.where(pt**2 < floor_2, np.hypot(m1, pt - np.sqrt(np.maximum(floor_2, 0))), m1))
    b = w**2 - e2**2 + e1**2
    r = np.sqrt(np.maximum((w - e2 - e1) * (w + e2 - e1) * (w - e2 + e1) * (w + e2 + e1), 0))
    cut_low, cut_high = np.maximum(low, a * (b - r) / w - m1**2), np.minimum(high, a * (b + r) / w - m1**2)
    use = (pa[1] ** 2 + pa[2] ** 2 <= 1e-9 * pa[0] ** 2) & (cut_high > cut_low)
    return [np.where(use, cut_low, low), np.where(use, cut_high, high)]


def two_to_two(is_com):
    def op(r_phi, *x):
        (pa, pb), (t, m1, m2) = vectors(x, 2)
        total = pa + pb
        s, ma_2 = minkowski(total, total), minkowski(pa, pa)
        a = pa if is_com else boost(pa, total, -1)
        e1 = (s + m1**2 - m2**2) / (2 * np.sqrt(s))
        along = -(m1**2 + ma_2 + t - 2 * e1 * a[0]) / (2 * np.sqrt((a[1:] ** 2).sum(0)))
        across = np.sqrt(np.maximum(kaellen(s, m1**2, m2**2) / (4 * s) - along**2, 0))
        phi = np.pi * (2 * r_phi - 1)
        p1 = rotate(np.array([e1, across * np.cos(phi), across * np.sin(phi), along]), a, 1)
        if not is_com:
            p1 = boost(p1, total, 1)
        det = np.pi / (2 * np.sqrt(kaellen(s, ma_2, minkowski(pb, pb))))
        return [*scalars(p1, total - p1), det]

    return op


def two_to_two_inverse(is_com):
    def op(*x):
        (p1, p2, pa, pb), _ = vectors(x, 4)
        total = pa + pb
        s = minkowski(total, total)
        a, q = (pa, p1) if is_com else (boost(pa, total, -1), boost(p1, total, -1))
        q = rotate(q, a, -1)
        r_phi = (np.arctan2(q[2], q[1]) / np.pi + 1) / 2
        det = 2 * np.sqrt(kaellen(s, minkowski(pa, pa), minkowski(pb, pb))) / np.pi
        return [r_phi, *(np.sqrt(np.maximum(minkowski(p, p), 0)) for p in (p1, p2)), det]

    return op


def two_body_decay_com(r_phi, r_cos, m0, m1, m2):
    energy = (m0**2 + m1**2 - m2**2) / (2 * m0)
    p = np.sqrt(kaellen(m0**2, m1**2, m2**2)) / (2 * m0)
    phi, cos = np.pi * (2 * r_phi - 1), 2 * r_cos - 1
    sin = np.sqrt(1 - cos**2)
    p1 = np.array([energy, p * sin * np.cos(phi), p * sin * np.sin(phi), p * cos])
    return [*scalars(p1, np.array([m0, 0 * m0, 0 * m0, 0 * m0]) - p1), np.pi * p / m0]


def two_body_decay(r_phi, r_cos, m0, m1, m2, *p0):
    *x, det = two_body_decay_com(r_phi, r_cos, m0, m1, m2)
    p0 = np.array(p0)
    p1 = boost(np.array(x[:4]), p0, 1)
    return [*scalars(p1, p0 - p1), det]


def r_to_x1x2(r, s_hat, s_lab):
    tau = s_hat / s_lab
    return [tau**r, tau ** (1 - r), np.abs(np.log(tau)) / s_lab]


def boost_beam(*x):
    n = (len(x) - 2) // 5
    momenta, rest = vectors(x, n)
    masses, x1, x2 = rest[:n], *rest[n:]
    rapidity = np.log(x1 / x2) / 2
    results = []
    for (e, px, py, pz), mass in zip(momenta, masses, strict=True):
        along = pz * np.cosh(rapidity) + e * np.sinh(rapidity)
        own = np.where(mass < 0, e**2 - px**2 - py**2 - pz**2, mass**2)
        results += [np.sqrt(own + px**2 + py**2 + along**2), px, py, along]
    return results


def cut_unphysical(w, *x):
    *p, x1, x2 = x
    good = np.all(~np.isnan([w, *p, x1, x2]), axis=0) & (x1 >= 0) & (x1 <= 1) & (x2 >= 0) & (x2 <= 1)
    return [np.where(good, w, 0.0)]


def mirror_momenta(*x):
    *p, mirror = x
    signs = np.where(mirror == 1, -1.0, 1.0)
    return [component * signs if i % 4 >= 2 else component for i, component in enumerate(p)]


def pt(e, x, y, z):
    return np.hypot(x, y)


def eta(e, x, y, z):
    return np.arcsinh(z / np.hypot(x, y))


def phi(e, x, y, z):
    return np.arctan2(y, x)


def delta_r(*x):
    p, q = x[:4], x[4:]
    delta = np.remainder(phi(*p) - phi(*q) + np.pi, 2 * np.pi) - np.pi
    return np.hypot(eta(*p) - eta(*q), delta)


KINEMATICS = {
    "uniform_invariant": lambda r, low, high: [low + r * (high - low), high - low],
    "uniform_invariant_inverse": lambda s, low, high: [(s - low) / (high - low), 1 / (high - low)],
    "stable_invariant": lambda r, mass, low, high: stable_nu(r, mass, np.array(1.0), low, high),
    "stable_invariant_inverse": lambda s, mass, low, high: stable_nu_inverse(s, mass, np.array(1.0), low, high),
    "stable_invariant_nu": stable_nu,
    "stable_invariant_nu_inverse": stable_nu_inverse,
    "breit_wigner_invariant": breit_wigner,
    "breit_wigner_invariant_inverse": breit_wigner_inverse,
    "com_p_in": lambda e: [e / 2, 0 * e, 0 * e, e / 2, e / 2, 0 * e, 0 * e, -e / 2],
    "t_inv_min_max": t_inv_min_max,
    "t_inv_min_max_cut": t_inv_min_max_cut,
    "t_inv_value_and_min_max": t_inv_value_and_min_max,
    "two_to_two_particle_scattering": two_to_two(False),
    "two_to_two_particle_scattering_com": two_to_two(True),
    "two_to_two_particle_scattering_inverse": two_to_two_inverse(False),
    "two_to_two_particle_scattering_com_inverse": two_to_two_inverse(True),
    "two_body_decay": two_body_decay,
    "two_body_decay_com": two_body_decay_com,
    "r_to_x1x2": r_to_x1x2,
    "boost_beam": boost_beam,
    "cut_unphysical": cut_unphysical,
    "mirror_momenta": mirror_momenta,
    "obs_pt": lambda *p: [pt(*p)],
    "obs_eta": lambda *p: [eta(*p)],
    "obs_phi": lambda *p: [phi(*p)],
    "obs_y": lambda e, x, y, z: [np.log((e + z) / (e - z)) / 2],
    "obs_mass": lambda e, x, y, z: [np.sqrt(np.maximum(e**2 - x**2 - y**2 - z**2, 0))],
    "obs_delta_r": lambda *x: [delta_r(*x)],
}
