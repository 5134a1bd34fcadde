// Steps of chains that go both ways: forward() keeps what backward() needs to turn the gradients of what the step
// returns into those of all that it takes, in one pass. The chain rule, applied to the step's operations from the last
// to the first: Griewank and Walther, Evaluating Derivatives (2008), chapter 3. `adj_x` is the gradient of x.
//
// The values are those of the steps in t_chain_steps.h and two_to_two.h, with their notation; adjoint.h has adjoints of
// all steps, without formulas of their own, and the tests compare the two. A root has no slope at 0: that is where a
// random number lies at the end of its range or a block at its threshold, and what is under the root has no slope along
// any random number there either.
#pragma once

#include "adjoint.h"

MS_BEGIN_NAMESPACE

// kZero: which inputs are known to be 0 when the kernel is printed, one bit each. in: inputs; out: outputs;
// gradients: of the outputs; result: of the inputs
template <class Step, u64 kZero>
struct TwoWay;

template <u64 kZero, int kInput>
constexpr bool kIsZero = (kZero >> kInput & 1) != 0;

// The gradient of r from that of clamp_unit(r), which is given or r itself: none at 0, at 1 and outside.
MS_FN double inside_unit(double r, double gradient) { return select((r > 0.0) & (r < 1.0), gradient, 0.0); }

// x, from which the compiler computes again instead of keeping what it has computed from it: registers are scarcer than
// operations.
MS_FN double fresh(double x) {
#if MS_GPU
    asm("" : "+d"(x));
#endif
    return x;
}

MS_FN double negated(bool condition, double x) { return select(condition, -x, x); }

template <u64 kZero>
struct TwoWay<dual::RecoilMass, kZero> {
    MS_FN void forward(const double (&in)[5], double (&out)[4]) {
        r = clamp_unit(in[0]), m = in[1], rest = in[2], x = in[3], weight = in[4];
        squares();
        const double recoil = root(recoil_2);
        inverse = reciprocal(recoil + rest), other = reciprocal(x + rest + recoil);
        out[0] = recoil;
        out[1] = above * inverse;
        out[2] = (1.0 - r) * width * other;
        out[3] = weight * width;
    }

    MS_FN void squares() {
        width = x * (x + 2.0 * rest);
        const double product = r * width, floor = 1e-40 * (m * m);
        is_above = product > floor;
        above = select(is_above, product, floor);
        recoil_2 = rest * rest + above;
    }

    MS_FN void backward(const double (&gradients)[4], double (&result)[5]) const {
        TwoWay step = *this;
        step.x = fresh(x);
        step.squares();
        step.back(gradients, result);
    }

    MS_FN void back(const double (&gradients)[4], double (&result)[5]) const {
        const double adj_sum = -gradients[1] * (above * inverse) * inverse;
        const double share = gradients[2] * other;
        const double adj_other = -share * ((1.0 - r) * width * other);
        const double adj_square = 0.5 * ((gradients[0] + adj_sum + adj_other) * inverse_root(recoil_2));
        const double adj_above = gradients[1] * inverse + adj_square;
        const double adj_product = select(is_above, adj_above, 0.0);
        const double adj_width = share * (1.0 - r) + gradients[3] * weight + adj_product * r;
        result[0] = inside_unit(r, (adj_product - share) * width);
        result[1] = select(is_above, 0.0, adj_above) * (2e-40 * m);
        result[2] = adj_sum + adj_other + 2.0 * (adj_square * rest + adj_width * x);
        result[3] = adj_other + 2.0 * (adj_width * (x + rest));
        result[4] = gradients[3] * width;
    }

    double r, m, rest, x, weight, width, above, recoil_2, inverse, other;
    bool is_above;
};

// light_cone() of an energy, p_z and m^2 + p_T^2.
struct ConeTwoWay {
    MS_FN void forward(double e, double z, double m_t_2) {
        backwards = z < 0.0;
        const double large = e + absolute(z);
        inverse = reciprocal(select(large > 0.0, large, 1.0));
        small = m_t_2 * inverse;
        plus = select(backwards, small, large), minus = select(backwards, large, small);
    }

    // Adds to the gradients of e, z and m^2 + p_T^2.
    MS_FN void backward(double adj_plus, double adj_minus, double& adj_e, double& adj_z, double& adj_m_t_2) const {
        const double adj_small = select(backwards, adj_plus, adj_minus) * inverse;
        const double adj_large = select(backwards, adj_minus, adj_plus) - adj_small * small;
        adj_m_t_2 += adj_small;
        adj_e += adj_large;
        adj_z += negated(backwards, adj_large);
    }

    double plus, minus, inverse, small;
    bool backwards;
};

template <u64 kZero>
struct TwoWay<dual::LightConeOf, kZero> {
    MS_FN void forward(const double (&in)[5], double (&out)[2]) {
        x = in[1], y = in[2], m = in[4];
        cone.forward(in[0], in[3], m * m + (x * x + y * y));
        out[0] = cone.plus;
        out[1] = cone.minus;
    }

    MS_FN void backward(const double (&gradients)[2], double (&result)[5]) const {
        double adj_m_t_2 = 0.0;
        result[0] = result[3] = 0.0;
        cone.backward(gradients[0], gradients[1], result[0], result[3], adj_m_t_2);
        const double twice = 2.0 * adj_m_t_2;
        result[1] = twice * x;
        result[2] = twice * y;
        result[4] = twice * m;
    }

    double x, y, m;
    ConeTwoWay cone;
};

// A map of invariant.h: f, 1 - f and its slope. Back by one pass over dual numbers per argument.
template <class Map>
struct MapTwoWay {
    MS_FN void forward(double r_at, double q_min, double width_of_q, double nu_in) {
        r = r_at, q = q_min, width = width_of_q, nu = nu_in;
        const dual::UnitMap map = Map::eval(r, q, width, nu);
        f = map.f.value, g = map.one_minus_f.value, slope = map.slope.value;
    }

    MS_FN MapTwoWay again(double) const { return *this; }

    // Gradients of r, q_min, the width and nu.
    MS_FN void backward(double adj_f, double adj_g, double adj_slope, double (&result)[4]) const {
        using dual::Dual;
        const Dual x[4][4] = {{Dual(r, 1.0), q, width, nu},
                              {r, Dual(q, 1.0), width, nu},
                              {r, q, Dual(width, 1.0), nu},
                              {r, q, width, Dual(nu, 1.0)}};
        for (int k = 0; k < 4; ++k) {
            const dual::UnitMap y = Map::eval(x[k][0], x[k][1], x[k][2], x[k][3]);
            result[k] =
                weighted(adj_f, y.f.slope) + weighted(adj_g, y.one_minus_f.slope) + weighted(adj_slope, y.slope.slope);
        }
    }

    double r, q, width, nu, f, g, slope;
};

template <>
struct MapTwoWay<dual::FifthMap> {
    // q^4 + q^3 p + q^2 p^2 + q p^3 + p^4, and its slope along q.
    MS_FN static double quotient(double q, double p) {
        const double q_2 = q * q, p_2 = p * p, qp = q * p;
        return q_2 * q_2 + p_2 * p_2 + qp * (q_2 + p_2 + qp);
    }
    MS_FN static double quotient_slope(double q, double p) {
        return q * q * (4.0 * q + 3.0 * p) + p * p * (2.0 * q + p);
    }

    MS_FN void forward(double r_at, double q, double width_of_q, double) {
        r = r_at, width = width_of_q;
        low = fifth_root(q), high = fifth_root(q + width);
        inverse = reciprocal(quotient(high, low));
        h = low + r * (width * inverse);
        values();
    }

    MS_FN void values() {
        below = quotient(h, low) * inverse, above = quotient(high, h) * inverse;
        f = r * below, g = (1.0 - r) * above;
        slope = 5.0 * ((h * h) * (h * h)) * inverse;
    }

    MS_FN MapTwoWay again(double same_width) const {
        MapTwoWay map;
        map.r = r, map.width = same_width, map.inverse = inverse;
        map.low = fresh(low), map.high = fresh(high), map.h = fresh(h);
        map.values();
        return map;
    }

    MS_FN void backward(double adj_f, double adj_g, double adj_slope, double (&result)[4]) const {
        const double from_f = adj_f * r * inverse, from_g = adj_g * (1.0 - r) * inverse, rise = width * inverse;
        const double adj_h = from_f * quotient_slope(h, low) + from_g * quotient_slope(h, high) +
                             20.0 * (adj_slope * inverse) * (h * h * h);
        const double adj_quotient = -inverse * (adj_f * f + adj_g * g + adj_slope * slope + adj_h * (r * rise));
        const double adj_low = adj_h + from_f * quotient_slope(low, h) + adj_quotient * quotient_slope(low, high);
        const double adj_high = from_g * quotient_slope(high, h) + adj_quotient * quotient_slope(high, low);
        const double low_2 = low * low, high_2 = high * high;
        const double adj_end = 0.2 * (adj_high * reciprocal(high_2 * high_2));
        result[0] = adj_h * rise + adj_f * below - adj_g * above;
        result[1] = adj_end + 0.2 * (adj_low * reciprocal(low_2 * low_2));
        result[2] = adj_end + adj_h * (r * inverse);
        result[3] = 0.0;
    }

    double r, width, low, high, inverse, h, below, above, f, g, slope;
};

// MomentumTransfer. kNoA, kNoB: a or b is known to be 0.
template <class Map, bool kNoA, bool kNoB>
struct TransferTwoWay {
    static constexpr double kHalfPi = 1.5707963267948966;

    MS_FN void forward(const double (&in)[9], double (&out)[6]) {
        m = in[1], m1 = in[2], m2 = in[3], x = in[4], a = in[5], b = in[6], weight = in[8];
        polynomials();
        root_m = root(pair1 * pair2);
        double upper = s * v, product = s * (m1_2 * m2_2);
        if constexpr (!kNoA) {
            upper += a * u1;
            product += a * m2_2 * (u2 + a);
        }
        if constexpr (!kNoB) {
            upper += b * u2;
            product += b * m1_2 * (u1 + b);
        }
        if constexpr (!kNoA && !kNoB) {
            root_a = root(at_least(product_a, 0.0));
            product += a * b * v;
        }
        const double s_t_max = 0.5 * (upper + root_m * root_a);
        open = s_t_max > 1e-290;
        inverse_t = reciprocal(select(open, s_t_max, 1.0));
        t_min = select(open, product * inverse_t, 0.0);
        inverse_s = reciprocal(s);
        products();
        map.forward(clamp_unit(in[0]), t_min + 1e-2, width, in[7]);
        out[0] = t_min + map.f * width;
        out[1] = u2 * half_inverse_m;
        out[2] = u1 * half_inverse_m;
        out[3] = p * (map.g - map.f);
        out[4] = p * (2.0 * root(map.f * map.g));
        out[5] = weight * (kHalfPi * root_m * inverse_s * map.slope);
    }

    MS_FN void polynomials() {
        s = m * m, m1_2 = m1 * m1, m2_2 = m2 * m2;
        sum_2 = x + 2.0 * (m1 + m2);
        pair1 = x * (x + 2.0 * m1), pair2 = (x + 2.0 * m2) * sum_2;
        u1 = (x + m2) * (x + 2.0 * m1 + m2) + m2_2;
        u2 = (x + m1) * (x + 2.0 * m2 + m1) + m1_2;
        v = x * sum_2 + 2.0 * (m1 * m2);
        if constexpr (kNoA || kNoB) {
            root_a = kNoA && kNoB ? s : s + (kNoA ? b : a);
        } else {
            product_a = s * (s + 2.0 * (a + b)) + (a - b) * (a - b);
        }
    }

    MS_FN void products() {
        y = root_m * root_a;
        width = y * inverse_s;
        half_inverse_m = 0.5 * (m * inverse_s);
        p = root_m * half_inverse_m;
    }

    MS_FN void backward(const double (&gradients)[6], double (&result)[9]) const {
        TransferTwoWay step = *this;
        step.m = fresh(m), step.m1 = fresh(m1), step.x = fresh(x);
        step.polynomials();
        step.products();
        step.map = map.again(step.width);
        step.back(gradients, result);
    }

    MS_FN void back(const double (&gradients)[6], double (&result)[9]) const {
        const double f = map.f, g = map.g, fg = f * g;
        const double along = p * gradients[3], across = p * gradients[4] * inverse_root(fg);
        const double volume = kHalfPi * (root_m * inverse_s) * gradients[5];
        double back[4];
        map.backward(gradients[0] * width - along + across * g, along + across * f, volume * weight, back);
        result[0] = inside_unit(map.r, back[0]);
        result[7] = back[3];
        result[8] = volume * map.slope;

        const double adj_t_min = select(open, gradients[0] + back[1], 0.0);
        const double adj_width = gradients[0] * f + back[2];
        const double adj_p = gradients[3] * (g - f) + gradients[4] * (2.0 * root(fg));
        const double adj_half = gradients[1] * u2 + gradients[2] * u1 + adj_p * root_m;
        const double adj_weight = kHalfPi * gradients[5] * weight * map.slope;
        double adj_u1 = gradients[2] * half_inverse_m, adj_u2 = gradients[1] * half_inverse_m;

        const double adj_product = adj_t_min * inverse_t, adj_upper = -0.5 * (adj_product * t_min);
        const double adj_y = adj_upper + adj_width * inverse_s;
        const double adj_root_m = adj_p * half_inverse_m + adj_weight * inverse_s + adj_y * root_a;
        const double adj_root_a = adj_y * root_m;
        double adj_s = adj_upper * v + adj_product * (m1_2 * m2_2) -
                       (adj_width * y + adj_weight * root_m) * (inverse_s * inverse_s);
        double adj_v = adj_upper * s, adj_m1_2 = adj_product * (s * m2_2), adj_m2_2 = adj_product * (s * m1_2);
        result[5] = result[6] = 0.0;
        if constexpr (!kNoA) {
            result[5] = adj_upper * u1 + adj_product * (m2_2 * (u2 + 2.0 * a));
            adj_u1 += adj_upper * a;
            adj_u2 += adj_product * (a * m2_2);
            adj_m2_2 += adj_product * (a * (u2 + a));
        }
        if constexpr (!kNoB) {
            result[6] = adj_upper * u2 + adj_product * (m1_2 * (u1 + 2.0 * b));
            adj_u2 += adj_upper * b;
            adj_u1 += adj_product * (b * m1_2);
            adj_m1_2 += adj_product * (b * (u1 + b));
        }
        if constexpr (!kNoA && !kNoB) {
            const double lift = adj_root_a * inverse_root(product_a);
            const double ab = a - b;
            adj_s += lift * (s + (a + b));
            adj_v += adj_product * (a * b);
            result[5] += lift * (s + ab) + adj_product * (b * v);
            result[6] += lift * (s - ab) + adj_product * (a * v);
        } else {
            adj_s += adj_root_a;
            result[5] += adj_root_a;
            result[6] += adj_root_a;
        }
        result[1] = 2.0 * (adj_s * m) - 0.5 * (adj_half * inverse_s);

        const double half = 0.5 * (adj_root_m * inverse_root(pair1 * pair2));
        const double adj_pair1 = half * pair2, adj_pair2 = half * pair1;
        const double from_pair2 = adj_pair2 * ((x + 2.0 * m2) + sum_2), sum = sum_2 + x;
        result[4] = adj_pair1 * ((x + 2.0 * m1) + x) + from_pair2 + (adj_u1 + adj_u2 + adj_v) * sum;
        result[2] = 2.0 * (adj_pair1 * x + adj_pair2 * (x + 2.0 * m2) + adj_m1_2 * m1 + (adj_u1 + adj_v) * (x + m2)) +
                    adj_u2 * (sum + 2.0 * m1);
        result[3] = 2.0 * (from_pair2 + adj_m2_2 * m2 + (adj_u2 + adj_v) * (x + m1)) + adj_u1 * (sum + 2.0 * m2);
    }

    double m, m1, m2, x, a, b, weight, s, m1_2, m2_2, sum_2, pair1, pair2, root_m, u1, u2, v, product_a, root_a, y;
    double inverse_t, t_min, inverse_s, width, half_inverse_m, p;
    MapTwoWay<Map> map;
    bool open;
};

template <u64 kZero>
struct TwoWay<dual::ChainTransferNu, kZero> {
    MS_FN void forward(const double (&in)[9], double (&out)[6]) {
        const double nu = 1.0 - dual::distinct_power(in[7]).value;
        transfer.forward({in[0], in[1], in[2], in[3], in[4], in[5], in[6], nu, in[8]}, out);
    }

    MS_FN void backward(const double (&gradients)[6], double (&result)[9]) const {
        transfer.backward(gradients, result);
    }

    TransferTwoWay<dual::PowerMap, kIsZero<kZero, 5>, kIsZero<kZero, 6>> transfer;
};

template <class Map, u64 kZero>
struct TwoWay<dual::ChainTransfer<Map>, kZero> {
    MS_FN void forward(const double (&in)[8], double (&out)[6]) {
        transfer.forward({in[0], in[1], in[2], in[3], in[4], in[5], in[6], 0.0, in[7]}, out);
    }

    MS_FN void backward(const double (&gradients)[6], double (&result)[8]) const {
        double all[9];
        transfer.backward(gradients, all);
        for (int k = 0; k < 7; ++k) result[k] = all[k];
        result[7] = all[8];
    }

    TransferTwoWay<Map, kIsZero<kZero, 5>, kIsZero<kZero, 6>> transfer;
};

struct ThreeNumbers {
    double x, y, z;
};

// leg_direction() times a sign. kNoA, kNoB: nothing is below the lower leg, or above the upper one.
template <bool kNoA, bool kNoB>
struct DirectionTwoWay {
    // in: as ChainScatter; e: energy of P
    MS_FN ThreeNumbers forward(const double (&in)[17], double e) {
        m = in[5], x = in[9], y = in[10], z = in[11], minus_a = in[12], x_a = in[13], y_a = in[14], plus_b = in[15];
        sign = in[16];
        inverse_m = reciprocal(m);
        const double m_t_2 = m * m + (x * x + y * y);
        cone.forward(e, z, m_t_2);
        factor = m + e;
        const double product = 0.5 * m_t_2;
        double numerator = product, leg_lab = 0.5 * cone.plus, d_z = product;
        cones = cone.plus;
        if constexpr (!kNoA) {
            const double from_a = 0.5 * (minus_a * cone.plus);
            numerator += x_a * x + y_a * y - from_a;
            leg_lab -= 0.5 * minus_a;
            d_z += from_a;
            cones += minus_a;
        }
        if constexpr (!kNoB) {
            const double from_b = 0.5 * (plus_b * cone.minus);
            numerator += from_b;
            leg_lab += 0.5 * plus_b;
            d_z += from_b;
            cones += plus_b;
        }
        leg_e = numerator * inverse_m;
        pull = leg_lab + leg_e;
        d_z += 0.5 * (m * cones) - z * leg_e;
        double d_x = -x * pull, d_y = -y * pull;
        if constexpr (!kNoA) {
            d_x -= x_a * factor;
            d_y -= y_a * factor;
        }
        const double d_2 = d_x * d_x + d_y * d_y + d_z * d_z;
        is_known = d_2 > 1e-300;
        inverse_d = select(is_known, inverse_root(d_2), 1.0);
        n = {d_x * inverse_d, d_y * inverse_d, select(is_known, d_z * inverse_d, 1.0)};
        return {sign * n.x, sign * n.y, sign * n.z};
    }

    // Sets result[12] to result[16] and adds to the gradients of m, P and m^2 + p_T^2.
    MS_FN void backward(ThreeNumbers adj_n, double (&result)[17], double& adj_m, double& adj_e, ThreeNumbers& adj_p,
                        double& adj_m_t_2) const {
        result[16] = adj_n.x * n.x + adj_n.y * n.y + adj_n.z * n.z;
        adj_n = {sign * adj_n.x, sign * adj_n.y, sign * adj_n.z};
        const double radial = sign * result[16];
        const double adj_x = (adj_n.x - radial * n.x) * inverse_d, adj_y = (adj_n.y - radial * n.y) * inverse_d;
        const double adj_z = select(is_known, (adj_n.z - radial * n.z) * inverse_d, 0.0);
        const double adj_pull = -(adj_x * x + adj_y * y);
        const double per_m = (adj_pull - adj_z * z) * inverse_m;
        const double adj_cones = 0.5 * (adj_z * m), half_pull = 0.5 * adj_pull;
        const double adj_above = adj_z + per_m, adj_below = adj_z - per_m;
        adj_p.x -= adj_x * pull;
        adj_p.y -= adj_y * pull;
        adj_p.z -= adj_z * leg_e;
        adj_m += 0.5 * (adj_z * cones) - per_m * leg_e;
        adj_m_t_2 += 0.5 * adj_above;
        double adj_plus = half_pull + adj_cones, adj_minus = 0.0;
        result[12] = result[13] = result[14] = result[15] = 0.0;
        if constexpr (!kNoA) {
            const double adj_factor = -(adj_x * x_a + adj_y * y_a);
            adj_e += adj_factor;
            adj_m += adj_factor;
            adj_p.x += per_m * x_a;
            adj_p.y += per_m * y_a;
            adj_plus += 0.5 * (minus_a * adj_below);
            result[12] = adj_cones - half_pull + 0.5 * (cone.plus * adj_below);
            result[13] = per_m * x - adj_x * factor;
            result[14] = per_m * y - adj_y * factor;
        }
        if constexpr (!kNoB) {
            adj_minus = 0.5 * (plus_b * adj_above);
            result[15] = half_pull + adj_cones + 0.5 * (cone.minus * adj_above);
        }
        cone.backward(adj_plus, adj_minus, adj_e, adj_p.z, adj_m_t_2);
    }

    double m, x, y, z, minus_a, x_a, y_a, plus_b, sign, inverse_m, factor, cones, leg_e, pull, inverse_d;
    ThreeNumbers n;
    ConeTwoWay cone;
    bool is_known;
};

template <u64 kZero>
struct TwoWay<dual::ChainScatter, kZero> {
    static constexpr bool kNoA = kIsZero<kZero, 12> && kIsZero<kZero, 13> && kIsZero<kZero, 14>;
    // P at rest, and no leg across: the legs lie along z, and the sign is 1 or -1.
    static constexpr bool kAtRest =
        kIsZero<kZero, 9> && kIsZero<kZero, 10> && kIsZero<kZero, 11> && kIsZero<kZero, 13> && kIsZero<kZero, 14>;

    MS_FN void forward(const double (&in)[17], double (&out)[8]) {
        r = clamp_unit(in[0]), k_t = in[4], k_z = in[3], m = in[5];
        phi = azimuth(r);
        p_x = k_t * phi.cos, p_y = k_t * phi.sin;
        if constexpr (kAtRest) {
            e = m;
            flipped = in[16] < 0.0;
            s = {negated(flipped, p_x), p_y, negated(flipped, k_z)};
            first = in[1] < in[2];
        } else {
            p = {in[9], in[10], in[11]};
            e_2 = m * m + (p.x * p.x + p.y * p.y + p.z * p.z);
            e = root(e_2);
            n = direction.forward(in, e);
            flipped = n.z < 0.0;
            r_x = negated(flipped, p_x);
            inverse_n = reciprocal(1.0 + absolute(n.z));
            const double dot_t = n.x * r_x + n.y * p_y;
            ratio = dot_t * inverse_n;
            r_z = k_z - ratio;
            s = {r_x + n.x * r_z, p_y + n.y * r_z, n.z * k_z - negated(flipped, dot_t)};
            const double along = s.x * p.x + s.y * p.y + s.z * p.z;
            const double e1_lab = (in[1] * e + along) * direction.inverse_m;
            const double e2_lab = (in[2] * e - along) * direction.inverse_m;
            first = e1_lab < e2_lab;
            e_lab = select(first, e1_lab, e2_lab);
        }
        // The softer one in the rest frame, then in the other.
        s = {negated(!first, s.x), negated(!first, s.y), negated(!first, s.z)};
        e_soft = select(first, in[1], in[2]), m_soft = select(first, in[6], in[7]);
        b = s;
        if constexpr (!kAtRest) {
            inverse_f = reciprocal(m + e);
            share = (e_soft + e_lab) * inverse_f;
            b = {s.x + p.x * share, s.y + p.y * share, s.z + p.z * share};
        }
        soft_2 = m_soft * m_soft + (b.x * b.x + b.y * b.y + b.z * b.z);
        const double soft[4] = {root(soft_2), b.x, b.y, b.z};
        double hard[4] = {e - soft[0], -b.x, -b.y, -b.z};
        if constexpr (!kAtRest) {
            hard[1] = p.x - b.x;
            hard[2] = p.y - b.y;
            hard[3] = p.z - b.z;
        }
        for (int c = 0; c < 4; ++c) {
            out[c] = select(first, soft[c], hard[c]);
            out[4 + c] = select(first, hard[c], soft[c]);
        }
    }

    MS_FN void backward(const double (&gradients)[8], double (&result)[17]) const {
        // The harder one is P without the softer one.
        double adj_hard[4], adj_soft[4];
        for (int c = 0; c < 4; ++c) {
            adj_hard[c] = select(first, gradients[4 + c], gradients[c]);
            adj_soft[c] = negated(!first, gradients[c] - gradients[4 + c]);
        }
        const double on_shell = adj_soft[0] * inverse_root(soft_2);
        const double adj_m_soft = on_shell * m_soft;
        result[6] = select(first, adj_m_soft, 0.0);
        result[7] = select(first, 0.0, adj_m_soft);
        for (int k = 8; k < 17; ++k) result[k] = 0.0;
        if constexpr (kAtRest) {
            // The momentum of the softer one is that along z up to signs.
            const double x = k_t * phi.cos, y = k_t * phi.sin;
            const double adj_x = negated(first == flipped, adj_soft[1]) + on_shell * x;
            const double adj_y = negated(!first, adj_soft[2]) + on_shell * y;
            result[0] = inside_unit(r, 2.0 * kPi * (adj_y * x - adj_x * y));
            result[1] = result[2] = 0.0;
            result[3] = negated(first == flipped, adj_soft[3]) + on_shell * k_z;
            result[4] = adj_x * phi.cos + adj_y * phi.sin;
            result[5] = adj_hard[0];
        } else {
            const ThreeNumbers adj_b = {adj_soft[1] + on_shell * b.x, adj_soft[2] + on_shell * b.y,
                                        adj_soft[3] + on_shell * b.z};
            const double adj_sum = (adj_b.x * p.x + adj_b.y * p.y + adj_b.z * p.z) * inverse_f;
            const double adj_lab = adj_sum * direction.inverse_m, adj_f = -adj_sum * share;
            const double adj_e_soft = adj_sum + adj_lab * e;
            ThreeNumbers adj_p = {adj_hard[1] + adj_b.x * share + adj_lab * s.x,
                                  adj_hard[2] + adj_b.y * share + adj_lab * s.y,
                                  adj_hard[3] + adj_b.z * share + adj_lab * s.z};
            double adj_e = adj_hard[0] + adj_lab * e_soft + adj_f, adj_m = adj_f - adj_lab * e_lab;
            result[1] = select(first, adj_e_soft, 0.0);
            result[2] = select(first, 0.0, adj_e_soft);

            // Back through the rotation.
            const ThreeNumbers adj_k = {negated(!first, adj_b.x + adj_lab * p.x),
                                        negated(!first, adj_b.y + adj_lab * p.y),
                                        negated(!first, adj_b.z + adj_lab * p.z)};
            const double adj_z = adj_k.x * n.x + adj_k.y * n.y;
            const double adj_ratio = adj_z * inverse_n;
            const double adj_dot = -adj_ratio - negated(flipped, adj_k.z);
            const double adj_x = negated(flipped, adj_k.x + adj_dot * n.x), adj_y = adj_k.y + adj_dot * n.y;
            result[0] = inside_unit(r, 2.0 * kPi * (adj_y * p_x - adj_x * p_y));
            result[3] = adj_z + adj_k.z * n.z;
            result[4] = adj_x * phi.cos + adj_y * phi.sin;
            const ThreeNumbers adj_n = {adj_k.x * r_z + adj_dot * r_x, adj_k.y * r_z + adj_dot * p_y,
                                        adj_k.z * k_z + negated(flipped, adj_ratio * ratio)};
            double adj_m_t_2 = 0.0;
            direction.backward(adj_n, result, adj_m, adj_e, adj_p, adj_m_t_2);
            const double on_mass = adj_e * inverse_root(e_2), twice = on_mass + 2.0 * adj_m_t_2;
            result[5] = adj_m + twice * m;
            result[9] = adj_p.x + twice * p.x;
            result[10] = adj_p.y + twice * p.y;
            result[11] = adj_p.z + on_mass * p.z;
        }
    }

    double r, k_t, k_z, m, p_x, p_y, e_2, e, r_x, inverse_n, ratio, r_z, e_lab, e_soft, m_soft, inverse_f, share,
        soft_2;
    ThreeNumbers p, n, s, b;
    CosSin phi;
    DirectionTwoWay<kNoA, kIsZero<kZero, 15>> direction;
    bool flipped, first;
};

MS_END_NAMESPACE
