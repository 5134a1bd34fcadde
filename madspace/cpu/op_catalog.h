// Names, numbers of values and rules of the ops, for the checks before a program runs.
#pragma once

#include "phasespace/arithmetic.h"
#include "phasespace/chili.h"
#include "phasespace/cuts.h"
#include "phasespace/decays.h"
#include "phasespace/double_t.h"
#include "phasespace/indexing.h"
#include "phasespace/invariants_1d.h"
#include "phasespace/luminosity.h"
#include "phasespace/observables.h"
#include "phasespace/rambo.h"
#include "phasespace/scattering.h"
#include "phasespace/t_chain_inverse.h"
#include "phasespace/three_body.h"
#include "phasespace/two_to_three.h"
#include "program.h"

namespace madspace {

struct OpInfo {
    const char* name;
    int n_in, n_out;                       // -1: any number that `accepts` takes
    bool (*accepts)(int n_in, int n_out);  // list ops only
    bool is_adjoint;                       // keeps twice as many rows, and must not write to its inputs
};

#define MS_OPS_ALL
inline const OpInfo kOpCatalog[] = {
#define MS_OP(name, n_in, n_out, ...) {#name, n_in, n_out, nullptr, false},
#define MS_LIST_OP(name, ...) \
    {#name, -1, -1, [](int n_in, int n_out) -> bool { return __VA_ARGS__::accepts(n_in, n_out); }, false},
#include "phasespace/ops.def"
#undef MS_OP
#undef MS_LIST_OP
// Adjoints (phasespace/adjoint.h), of a fixed number of values and of a list.
#define MS_OP(name, n_values, n_results, ...)                                            \
    {#name "_vjp", -1, -1,                                                               \
     [](int n_in, int n_out) -> bool {                                                   \
         return n_out >= 1 && n_out <= n_values && n_in == n_out + n_values + n_results; \
     },                                                                                  \
     true},
#define MS_LIST_OP(name, ...) \
    {#name "_vjp", -1, -1,    \
     [](int n_in, int n_out) -> bool { return n_in > n_out && __VA_ARGS__::accepts(n_out, n_in - n_out); }, true},
#include "phasespace/smooth_ops.def"
#undef MS_OP
#undef MS_LIST_OP
};

constexpr int kOpCount = static_cast<int>(sizeof kOpCatalog / sizeof kOpCatalog[0]);

}  // namespace madspace
