// Arithmetic on scalars. int32 values are held exactly in float64, so their sums are the same step.
#pragma once

#include "madspace/math.h"
#include "step.h"

MS_BEGIN_NAMESPACE

#define MS_UNARY(Name, expression)                                        \
    struct Name {                                                         \
        static constexpr int kInputs = 1, kOutputs = 1;                   \
        MS_FN static void eval(const double (&in)[1], double (&out)[1]) { \
            const double a = in[0];                                       \
            out[0] = (expression);                                        \
        }                                                                 \
    };
#define MS_BINARY(Name, expression)                                       \
    struct Name {                                                         \
        static constexpr int kInputs = 2, kOutputs = 1;                   \
        MS_FN static void eval(const double (&in)[2], double (&out)[1]) { \
            const double a = in[0], b = in[1];                            \
            out[0] = (expression);                                        \
        }                                                                 \
    };

MS_BINARY(Add, a + b)
MS_BINARY(Sub, a - b)
MS_BINARY(Mul, a* b)
MS_BINARY(Div, a / b)
MS_BINARY(Min, select(a < b, a, b))
MS_BINARY(Max, select(a > b, a, b))
MS_UNARY(Negative, -a)
MS_UNARY(Absolute, absolute(a))
MS_UNARY(Square, a* a)
MS_UNARY(SquareRoot, exact_root(a))

#undef MS_UNARY
#undef MS_BINARY

// in: any number of values; out: their sum
struct ReduceSum {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_in >= 1 && n_out == 1; }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int) {
        auto sum = ex.in(0);
        for (int k = 1; k < n_in; ++k) sum = ex.template run<Add>(sum, ex.in(k))[0];
        ex.out(0, sum);
    }
};

// in: any number of values; out: their product
struct ReduceProduct {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_in >= 1 && n_out == 1; }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int) {
        auto product = ex.in(0);
        for (int k = 1; k < n_in; ++k) product = ex.template run<Mul>(product, ex.in(k))[0];
        ex.out(0, product);
    }
};

// in: any number of vectors of n_out components; out: their sum
struct ReduceSumVector {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_out >= 1 && n_in >= n_out && n_in % n_out == 0; }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int n_out) {
        for (int c = 0; c < n_out; ++c) {
            auto sum = ex.in(c);
            for (int k = c + n_out; k < n_in; k += n_out) sum = ex.template run<Add>(sum, ex.in(k))[0];
            ex.out(c, sum);
        }
    }
};

MS_END_NAMESPACE
