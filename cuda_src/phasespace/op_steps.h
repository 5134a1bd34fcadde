// All ops by name, program::op_NAME, and what runs them on values in registers.
#pragma once

#ifdef MS_WITH_ADJOINTS
#include "op_steps_dual.h"
#else
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

MS_BEGIN_NAMESPACE

namespace program {

#define MS_OPS_ALL
#define MS_OP(name, n_in, n_out, ...)          \
    struct op_##name {                         \
        using Step = __VA_ARGS__;              \
        static constexpr bool kIsList = false; \
    };
#define MS_LIST_OP(name, ...)                 \
    struct op_##name {                        \
        using Step = __VA_ARGS__;             \
        static constexpr bool kIsList = true; \
    };
#include "ops.def"
#undef MS_OP
#undef MS_LIST_OP

}  // namespace program

MS_END_NAMESPACE
#endif

MS_BEGIN_NAMESPACE

namespace program {

// What the executors of list steps have in common where a value is a double.
struct ListExecutor {
    using Value = double;

    MS_FN static double constant(double x) { return x; }

    template <class Step, class... V>
    MS_FN static Values<double, Step::kOutputs> run(V... values) {
        return run_step<Step>(values...);
    }

    template <int n>
    MS_FN static Values<double, n> accumulators(double x) {
        Values<double, n> sums;
        for (int k = 0; k < n; ++k) sums.item[k] = x;
        return sums;
    }

    template <class Step, class... V>
    MS_FN static void update(Values<double, Step::kOutputs>& sums, V... values) {
        constexpr int n = Step::kOutputs;
        static_assert(n + sizeof...(V) == Step::kInputs, "a step takes exactly its inputs");
        const double more[] = {values...};
        double in[Step::kInputs];
        for (int k = 0; k < Step::kInputs; ++k) in[k] = k < n ? sums.item[k] : more[k < n ? 0 : k - n];
        Step::eval(in, sums.item);
    }
};

}  // namespace program

MS_END_NAMESPACE
