// The interpreter of programs: one event per thread, and all threads take the same way through the code. Registers of
// the program are rows in shared memory, so any program runs in one kernel, built beforehand.
// Measured on an H200 against local memory for the registers, which takes 1.7 times as long.
#pragma once

#include "op_steps.h"
#include "program_columns.h"

MS_BEGIN_NAMESPACE

namespace program {

enum Op : unsigned {
#define MS_OPS_ALL
#define MS_OP(name, ...) k_##name,
#define MS_LIST_OP(name, ...) k_##name,
#include "ops.def"
#undef MS_OP
#undef MS_LIST_OP
    kOps
};

// The rows of one event, and the step that is at work on them.
class Event : public ListExecutor {
public:
    MS_FN explicit Event(double* file)
        : own_(reinterpret_cast<char*>(file + threadIdx.x)), pitch_(blockDim.x * sizeof(double)) {}

    // The value in a row, of the thread that is `ahead` of this one.
    MS_FN double& row(unsigned number, int ahead = 0) const {
        return *reinterpret_cast<double*>(own_ + number * pitch_ + ahead * static_cast<int>(sizeof(double)));
    }

    // `rows`: in the code, those of the inputs and then those of the outputs.
    MS_FN void start(const unsigned* rows, int n_in) {
        rows_ = rows;
        n_in_ = n_in;
    }

    MS_FN double in(int k) const { return value(k); }
    MS_FN void out(int k, double x) const { value(n_in_ + k) = x; }

    template <class Step>
    MS_FN void run_fixed() const {
        double in[Step::kInputs], out[Step::kOutputs];
        for (int k = 0; k < Step::kInputs; ++k) in[k] = value(k);
        Step::eval(in, out);
        for (int k = 0; k < Step::kOutputs; ++k) value(Step::kInputs + k) = out[k];
    }

private:
    MS_FN double& value(int k) const { return *reinterpret_cast<double*>(own_ + rows_[k]); }

    char* own_;
    unsigned pitch_;
    const unsigned* rows_ = nullptr;
    int n_in_ = 0;
};

template <unsigned op>
MS_FN void run_op(Event& event, int n_in, int n_out);
#define MS_OP(name, ...)                                   \
    template <>                                            \
    MS_FN void run_op<k_##name>(Event & event, int, int) { \
        event.run_fixed<op_##name::Step>();                \
    }
#define MS_LIST_OP(name, ...)                                         \
    template <>                                                       \
    MS_FN void run_op<k_##name>(Event & event, int n_in, int n_out) { \
        op_##name::Step::eval(event, n_in, n_out);                    \
    }
#include "ops.def"
#undef MS_OP
#undef MS_LIST_OP
#undef MS_OPS_ALL

// Finds an op that is not below `first` and below `end`. Each comparison takes a warp about 24 cycles; a switch has
// more of them, for numbers that are no op.
template <unsigned first, unsigned end>
MS_FN void find_op(Event& event, unsigned op, int n_in, int n_out) {
    if constexpr (first + 1 == end) {
        run_op<first>(event, n_in, n_out);
    } else {
        constexpr unsigned kMiddle = (first + end) / 2;
        if (op < kMiddle) {
            find_op<first, kMiddle>(event, op, n_in, n_out);
        } else {
            find_op<kMiddle, end>(event, op, n_in, n_out);
        }
    }
}

// What chains consist of is found in few steps. A kernel without kAll has nothing else, and with it fewer registers.
template <bool kAll>
MS_FN void find_op(Event& event, unsigned op, int n_in, int n_out) {
    if (op >= k_com_p_in) {
        find_op<k_com_p_in, kOps>(event, op, n_in, n_out);
    } else if (!kAll || op < k_obs_e) {
        find_op<0, k_obs_e>(event, op, n_in, n_out);
    } else if constexpr (kAll) {
        find_op<k_obs_e, k_com_p_in>(event, op, n_in, n_out);
    }
}

MS_FN unsigned four_row(u64 rows, int k) { return static_cast<unsigned>(rows >> (16 * k)) & 0xffff; }

MS_FN void load_rows(const Event& event, const u64* four, int index) {
    double x[4];
    load_four(four, index, x);
    for (int c = 0; c < 4; ++c) event.row(four_row(four[3], c)) = x[c];
}

MS_FN void draw_rows(const Event& event, const ProgramHead& head, u64 draw, int index) {
    const Values<double, 2> x = uniform_pair(head.keys, head.offset + static_cast<u64>(index), draw >> 32);
    for (int i = 0; i < 2; ++i) {
        const unsigned row = four_row(draw, i);
        if (row != 0xffff) event.row(row) = x[i];
    }
}

MS_FN void store_rows(const Event& event, const u64* four, int index, int end) {
    const u64 rows = four[3];
    store_four(four, index, end, [&](int half, int ahead) {
        return make_double2(event.row(four_row(rows, 2 * half), ahead), event.row(four_row(rows, 2 * half + 1), ahead));
    });
}

// Stores a result as soon as it is there: its rows are free then.
MS_FN void store_column(const Event& event, const ProgramHead& head, const u64* body, unsigned section, unsigned k,
                        int index) {
    const unsigned at = head.section[section].at;
    if (section == kFourOutputs) {
        __syncwarp();  // the lanes store each other's values
        store_rows(event, body + at + kFourWords * k, index, head.n);
        __syncwarp();
        return;
    }
    const u64* column = body + at + kColumnWords * k;
    const double x = event.row(static_cast<unsigned>(column[2]));
    const int end = section >= kOnceOutputs ? 1 : head.n;
    if (section == kOutputs || section == kOnceOutputs) {
        store_number<double>(column, index, end, x);
    } else {
        store_number<int>(column, index, end, x);
    }
}

// The code and the constants are the same for all threads: as loads from the parameters they cost one instruction for a
// warp. The code stands at a fixed place, so that the compiler sees it.
template <bool kAll, class Args>
MS_FN void interpret(const Args& args, double* file) {
    const ProgramHead& head = args.head;
    Event event(file);
    const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    // Threads past the end repeat the last event and store nothing.
    const int source = index < head.n ? index : head.n - 1;

    const auto each = [&](ProgramSection which, int words, auto act) {
        const unsigned at = head.section[which].at, n = head.section[which].n;
        for (unsigned k = 0; k < n; ++k) act(args.body + at + words * k, k);
    };
    const auto load = [&](ProgramSection which, auto kind) {
        each(which, kColumnWords, [&](const u64* column, unsigned) {
            event.row(static_cast<unsigned>(column[2])) = load_number<decltype(kind)>(column, source);
        });
    };
    each(kConstants, 1, [&](const u64* word, unsigned k) { event.row(k) = from_bits(*word); });
    load(kInputs, double());
    load(kIntInputs, int());
    each(kFourInputs, kFourWords, [&](const u64* four, unsigned) { load_rows(event, four, source); });

    each(kDraws, 1, [&](const u64* word, unsigned) { draw_rows(event, head, *word, index); });

    const unsigned* code = reinterpret_cast<const unsigned*>(args.body);
    for (unsigned k = 0; k < head.n_steps; ++k) {
        const unsigned step = *code++, op = step & 0x3ff;
        const int n_in = static_cast<int>((step >> 10) & 0x7ff), n_out = static_cast<int>(step >> 21);
        if (op == kStoreOp) {
            store_column(event, head, args.body, static_cast<unsigned>(n_in), static_cast<unsigned>(n_out), index);
        } else {
            event.start(code, n_in);
            find_op<kAll>(event, op, n_in, n_out);
            code += n_in + n_out;
        }
    }
}

}  // namespace program

MS_END_NAMESPACE
