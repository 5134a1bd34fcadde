// Defines `op_NAME_vjp` for each op of the sections of ops.def that the including file has chosen, whose headers it has
// read with dual numbers.
#include "op_rows.h"
#include "phasespace/adjoint.h"

MS_BEGIN_DUAL_NAMESPACE

#define MS_OP(name, n_in, n_out, ...) \
    void op_##name##_vjp(const OpRows& rows) { run_adjoint<Adjoint<__VA_ARGS__>>(rows); }
#define MS_LIST_OP(name, ...) \
    void op_##name##_vjp(const OpRows& rows) { run_adjoint<ListAdjoint<__VA_ARGS__>>(rows); }
#include "phasespace/ops.def"
#undef MS_OP
#undef MS_LIST_OP

MS_END_DUAL_NAMESPACE
