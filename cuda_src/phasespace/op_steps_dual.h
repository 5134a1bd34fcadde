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

namespace dual {
namespace program {

#define MS_OPS_ALL
#define MS_OP(name, n_in, n_out, ...)          \
    struct op_##name {                         \
        using Step = ValueStep<__VA_ARGS__>;   \
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

}  // namespace program
}  // namespace dual

namespace program {

using namespace dual::program;

}  // namespace program

MS_END_NAMESPACE
