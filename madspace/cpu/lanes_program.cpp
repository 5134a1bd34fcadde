// The executor of programs, compiled once per instruction set (macro MS_ISA): a block of events runs through one op
// after the other, each over whole rows.
#include <cstdlib>

#include "host_kernel.h"
#include "madspace/philox.h"
#include "op_rows.h"
#include "program.h"

#define MS_JOIN_(a, b) a##b
#define MS_JOIN(a, b) MS_JOIN_(a, b)

MS_BEGIN_NAMESPACE

#define MS_OPS_ALL
#define MS_OP(name, ...) void op_##name(const OpRows& rows);
#define MS_LIST_OP(name, ...) void op_##name(const OpRows& rows);
#include "phasespace/ops.def"
#undef MS_OP
#undef MS_LIST_OP

namespace dual {
#define MS_OP(name, ...) void op_##name##_vjp(const OpRows& rows);
#define MS_LIST_OP(name, ...) void op_##name##_vjp(const OpRows& rows);
#include "phasespace/smooth_ops.def"
#undef MS_OP
#undef MS_LIST_OP
}  // namespace dual

namespace {

// In the order of kOpCatalog (op_catalog.h).
constexpr OpLoop kOps[] = {
#define MS_OPS_ALL
#define MS_OP(name, ...) op_##name,
#define MS_LIST_OP(name, ...) op_##name,
#include "phasespace/ops.def"
#undef MS_OP
#undef MS_LIST_OP
#define MS_OP(name, ...) dual::op_##name##_vjp,
#define MS_LIST_OP(name, ...) dual::op_##name##_vjp,
#include "phasespace/smooth_ops.def"
#undef MS_OP
#undef MS_LIST_OP
};

using Row = double[kLanes];

// A thread keeps its rows from call to call, since fresh pages would cost more than a small program.
class RowMemory {
public:
    ~RowMemory() { std::free(rows_); }

    Row* rows(long long n) {
        if (n > size_) {
            std::free(rows_);
            rows_ = static_cast<Row*>(std::aligned_alloc(64, static_cast<size_t>(n) * sizeof(Row)));
            size_ = rows_ == nullptr ? 0 : n;
        }
        return rows_;
    }

private:
    Row* rows_ = nullptr;
    long long size_ = 0;
};

thread_local RowMemory memory;

void load(const ProgramColumn& column, i64 first, int count, Row* file) {
    const char* from = column.data + first * column.stride;
    // Lanes past the end repeat the last event; their results are not stored.
    if (column.kind == kFourFloat64) {
        double *e = file[column.reg[0]], *x = file[column.reg[1]], *y = file[column.reg[2]], *z = file[column.reg[3]];
        for (int i = 0; i < kLanes; ++i) {
            const double* p = reinterpret_cast<const double*>(from + (i < count ? i : count - 1) * column.stride);
            e[i] = p[0];
            x[i] = p[1];
            y[i] = p[2];
            z[i] = p[3];
        }
        return;
    }
    double* to = file[column.reg[0]];
    if (column.kind == kInt32) {
        for (int i = 0; i < kLanes; ++i)
            to[i] = *reinterpret_cast<const int*>(from + (i < count ? i : count - 1) * column.stride);
    } else if (column.stride == sizeof(double) && count == kLanes) {
        const double* contiguous = reinterpret_cast<const double*>(from);
        for (int i = 0; i < kLanes; ++i) to[i] = contiguous[i];
    } else {
        for (int i = 0; i < kLanes; ++i)
            to[i] = *reinterpret_cast<const double*>(from + (i < count ? i : count - 1) * column.stride);
    }
}

void draw(const Program& program, const ProgramDraw& pair, i64 first, Row* file) {
    const PhiloxKeys keys = philox_keys(program.seed);
    double* to[2];
    Row unused;
    for (int i = 0; i < 2; ++i) to[i] = pair.reg[i] < 0 ? unused : file[pair.reg[i]];
    MS_INDEPENDENT
    for (int i = 0; i < kLanes; ++i) {
        const u64 event = program.offset + static_cast<u64>(first + i);
        const Values<double, 2> x = uniform_pair(keys, event, pair.k);
        to[0][i] = x[0];
        to[1][i] = x[1];
    }
}

// What int32 cannot hold becomes its lowest value.
inline int to_int32(double x) {
    constexpr double kLowest = -2147483648.0, kHighest = 2147483647.0;
    return static_cast<int>(x >= kLowest && x <= kHighest ? x : kLowest);
}

void store(const ProgramColumn& column, i64 first, int count, const Row* file) {
    char* to = column.data + first * column.stride;
    if (column.kind == kFourFloat64) {
        const double* const rows[4] = {file[column.reg[0]], file[column.reg[1]], file[column.reg[2]],
                                       file[column.reg[3]]};
        store_momentum(rows, reinterpret_cast<double*>(to), column.stride / static_cast<i64>(sizeof(double)), count);
        return;
    }
    const double* from = file[column.reg[0]];
    if (column.kind == kInt32)
        for (int i = 0; i < count; ++i) *reinterpret_cast<int*>(to + i * column.stride) = to_int32(from[i]);
    else
        for (int i = 0; i < count; ++i) *reinterpret_cast<double*>(to + i * column.stride) = from[i];
}

void run_steps(const Program& program, Row* file, Row* scratch, const double** in, double** out,
               const double** results) {
    for (i64 k = 0; k < program.n_steps; ++k) {
        const ProgramStep& step = program.steps[k];
        const int* registers = program.registers + step.first;
        for (int i = 0; i < step.n_in; ++i) in[i] = file[registers[i]];
        for (int i = 0; i < step.n_out; ++i) out[i] = file[registers[step.n_in + i]];
        kOps[step.op]({in, out, step.n_in, step.n_out, scratch, program.n_scratch, results, step.is_in_place != 0});
    }
}

void run_program(const void* raw_program, i64 begin, i64 end) {
    const Program& program = *static_cast<const Program*>(raw_program);
    // Three rows of pointers, each with one place per row of the file at most, lie behind the rows.
    constexpr i64 kPointers = kLanes;  // a row holds as many pointers as lanes
    const i64 n_rows = static_cast<i64>(program.n_registers) + program.n_scratch;
    const i64 n_pointer_rows = program.n_pointers / kPointers + 1;
    Row* file = memory.rows(n_rows + 3 * n_pointer_rows);
    if (file == nullptr) {
        program.out_of_memory->store(1);
        return;
    }
    Row* scratch = file + program.n_registers;
    const double** in = reinterpret_cast<const double**>(scratch + program.n_scratch);
    double** out = reinterpret_cast<double**>(scratch + program.n_scratch + n_pointer_rows);
    const double** results = reinterpret_cast<const double**>(scratch + program.n_scratch + 2 * n_pointer_rows);
    for (int k = 0; k < program.n_constants; ++k)
        for (int i = 0; i < kLanes; ++i) file[k][i] = program.constants[k];
    for (i64 first = begin; first < end; first += kLanes) {
        const int count = end - first < kLanes ? static_cast<int>(end - first) : kLanes;
        for (i64 k = 0; k < program.n_inputs; ++k) load(program.inputs[k], first, count, file);
        for (i64 k = 0; k < program.n_draws; ++k) draw(program, program.draws[k], first, file);
        run_steps(program, file, scratch, in, out, results);
        for (i64 k = 0; k < program.n_outputs; ++k) store(program.outputs[k], first, count, file);
    }
}

}  // namespace

MS_END_NAMESPACE

using namespace madspace;

extern "C" {
extern const HostKernel MS_JOIN(madspace_program_, MS_ISA)[];
const HostKernel MS_JOIN(madspace_program_, MS_ISA)[] = {{"program", run_program}, {nullptr, nullptr}};
}
