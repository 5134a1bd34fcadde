// Defines `op_NAME` for each op of the sections of ops.def that the including file has chosen.
#include "op_rows.h"

MS_BEGIN_NAMESPACE

#define MS_OP(name, n_in, n_out, ...)                                                                 \
    static_assert(__VA_ARGS__::kInputs == n_in && __VA_ARGS__::kOutputs == n_out, "ops.def: " #name); \
    void op_##name(const OpRows& rows) { run_op<__VA_ARGS__>(rows); }
#define MS_LIST_OP(name, ...) \
    void op_##name(const OpRows& rows) { run_list_op<__VA_ARGS__>(rows); }
#include "phasespace/ops.def"
#undef MS_OP
#undef MS_LIST_OP

MS_END_NAMESPACE
