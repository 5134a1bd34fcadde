// All ops by name as op_steps.h has them, and their adjoints, program::op_NAME_vjp. Steps are read with dual numbers;
// an op itself takes their values, and the compiler drops the slopes.
#pragma once

#include "madspace/dual_begin.h"
//
#include "arithmetic.h"
#include "chili.h"
#include "cuts.h"
#include "decays.h"
#include "double_t.h"
#include "indexing.h"
#include "invariants_1d.h"
#include "luminosity.h"
#include "observables.h"
#include "rambo.h"
#include "scattering.h"
#include "t_chain_inverse.h"
#include "three_body.h"
#include "two_to_three.h"
//
#include "madspace/dual_end.h"
//
#include "adjoint.h"
#include "two_way.h"

MS_BEGIN_NAMESPACE

// The values of a step over dual numbers.
template <class Step>
struct ValueStep {
    static constexpr int kInputs = Step::kInputs, kOutputs = Step::kOutputs;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        dual::Dual x[kInputs], y[kOutputs];
        for (int k = 0; k < kInputs; ++k) x[k] = in[k];
        Step::eval(x, y);
        for (int k = 0; k < kOutputs; ++k) out[k] = y[k].value;
    }
};

template <class Executor>
struct ValueExecutor {
    using Value = typename Executor::Value;
    Executor& ex;

    MS_FN Value in(int k) const { return ex.in(k); }
    MS_FN void out(int k, Value value) { ex.out(k, value); }
    MS_FN Value constant(dual::Dual x) { return ex.constant(x.value); }

    template <class Step, class... V>
    MS_FN Values<Value, Step::kOutputs> run(V... values) {
        return ex.template run<ValueStep<Step>>(values...);
    }

    template <int n>
    MS_FN Values<Value, n> accumulators(dual::Dual x) {
        return ex.template accumulators<n>(x.value);
    }

    template <class Step, class... V>
    MS_FN void update(Values<Value, Step::kOutputs>& sums, V... values) {
        ex.template update<ValueStep<Step>>(sums, values...);
    }
};

template <class Step>
struct ValueList {
    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int n_out) {
        ValueExecutor<Executor> values{ex};
        Step::eval(values, n_in, n_out);
    }
};

// The slopes of a step's outputs. in: inputs, their slopes; out: slopes
template <class Step>
struct Tangent {
    static constexpr int kInputs = 2 * Step::kInputs, kOutputs = Step::kOutputs;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        double both[2 * kOutputs];
        DualStep<Step>::eval(in, both);
        for (int k = 0; k < kOutputs; ++k) out[k] = both[kOutputs + k];
    }
};

template <class Executor>
class TangentExecutor : public DualExecutor<Executor> {
public:
    using Value = typename DualExecutor<Executor>::Value;

    MS_FN TangentExecutor(Executor& ex, int n_in)
        : DualExecutor<Executor>(ex, ex.constant(0.0), ex.constant(1.0), n_in), ex_(ex), n_in_(n_in) {}

    MS_FN Value in(int k) const { return {ex_.in(k), ex_.in(n_in_ + k)}; }
    MS_FN void out(int k, Value value) { ex_.out(k, value.slope); }

private:
    Executor& ex_;
    int n_in_;
};

template <class Step>
struct TangentList {
    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int n_out) {
        TangentExecutor<Executor> twice(ex, n_in / 2);
        Step::eval(twice, n_in / 2, n_out);
    }
};

namespace dual {
namespace program {

#define MS_OPS_ALL
#define MS_OP(name, n_in, n_out, ...)          \
    struct op_##name {                         \
        using Step = ValueStep<__VA_ARGS__>;   \
        using Original = __VA_ARGS__;          \
        static constexpr bool kIsList = false; \
    };
#define MS_LIST_OP(name, ...)                 \
    struct op_##name {                        \
        using Step = ValueList<__VA_ARGS__>;  \
        static constexpr bool kIsList = true; \
    };
#include "ops.def"
#undef MS_OP
#undef MS_LIST_OP

#define MS_OP(name, n_in, n_out, ...)         \
    struct op_##name##_vjp {                  \
        using Step = Adjoint<__VA_ARGS__>;    \
        static constexpr bool kIsList = true; \
    };
#define MS_LIST_OP(name, ...)                  \
    struct op_##name##_vjp {                   \
        using Step = ListAdjoint<__VA_ARGS__>; \
        static constexpr bool kIsList = true;  \
    };
#include "smooth_ops.def"
#undef MS_OP
#undef MS_LIST_OP

#define MS_OP(name, n_in, n_out, ...)          \
    struct op_##name##_jvp {                   \
        using Step = Tangent<__VA_ARGS__>;     \
        static constexpr bool kIsList = false; \
    };
#define MS_LIST_OP(name, ...)                  \
    struct op_##name##_jvp {                   \
        using Step = TangentList<__VA_ARGS__>; \
        static constexpr bool kIsList = true;  \
    };
#define MS_OPS_ALL
#include "ops.def"
#undef MS_OP
#undef MS_LIST_OP

}  // namespace program
}  // namespace dual

namespace program {

using namespace dual::program;

}  // namespace program

MS_END_NAMESPACE
