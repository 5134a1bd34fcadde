// Host executor: a block of kLanes events runs through one step at a time, so that every step is one simple loop that
// the compiler vectorises. Values live in a register file on the stack that stays in the first-level cache.
#pragma once

#include <cstddef>
#include <utility>

#include "madspace/event_args.h"
#include "phasespace/step.h"

MS_BEGIN_NAMESPACE

// 64 lanes: 16 to 256 measured, equal within noise from 32 up; the 3-body chain then needs 40 KB.
constexpr int kLanes = 64;

template <int kInputs, int kOutputs>
void load_block(const EventArgs<kInputs, kOutputs>& args, i64 first, int count, double* (&rows)[kInputs]) {
    for (int k = 0; k < kInputs; ++k) {
        const i64 stride = args.input_stride[k];
        const double* from = args.input[k] + first * stride;
        double* to = rows[k];
        if (stride == 1 && count == kLanes) {
            for (int i = 0; i < kLanes; ++i) to[i] = from[i];
        } else {
            // Lanes past the end repeat the last event; their results are not stored.
            for (int i = 0; i < kLanes; ++i) to[i] = from[(i < count ? i : count - 1) * stride];
        }
    }
}

inline void store_momentum(const double* const (&p)[4], double* to, i64 stride, int count) {
    if (stride == 4 && count == kLanes) {
        for (int i = 0; i < kLanes; ++i) {
            to[4 * i] = p[0][i];
            to[4 * i + 1] = p[1][i];
            to[4 * i + 2] = p[2][i];
            to[4 * i + 3] = p[3][i];
        }
    } else {
        for (int i = 0; i < count; ++i)
            for (int c = 0; c < 4; ++c) to[i * stride + c] = p[c][i];
    }
}

// Tells the compiler that no iteration depends on another one. Not `omp simd`, which turns the arrays of the loop body
// into memory before functions are inlined: steps that hand on a pointer into them would stay scalar.
#if defined(__clang__)
#define MS_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define MS_INDEPENDENT _Pragma("GCC ivdep")
#endif

// One step over a block: `out` may name rows of `in`. Inlined, and without loops over inputs and outputs, since the
// loop over lanes is vectorised only where the compiler sees that no store changes the pointers.
template <class Step, std::size_t... kIn, std::size_t... kOut>
inline __attribute__((always_inline)) void run_rows(const double* const* in, double* const* out,
                                                    std::index_sequence<kIn...>, std::index_sequence<kOut...>) {
    const double* const from[] = {in[kIn]...};
    double* const to[] = {out[kOut]...};
    MS_INDEPENDENT
    for (int i = 0; i < kLanes; ++i) {
        const double x[] = {from[kIn][i]...};
        double y[Step::kOutputs];
        Step::eval(x, y);
        ((to[kOut][i] = y[kOut]), ...);
    }
}

template <class Step>
inline __attribute__((always_inline)) void run_rows(const double* const* in, double* const* out) {
    run_rows<Step>(in, out, std::make_index_sequence<Step::kInputs>(), std::make_index_sequence<Step::kOutputs>());
}

template <class Args, int kValues>
class Lanes {
public:
    using Value = const double*;

    explicit Lanes(const Args& args) : args_(args) {
        for (int i = 0; i < kLanes; ++i) file_[0][i] = 0.0;
    }

    // Forget the values of the block before and go to events [first, first + count).
    void start(i64 first, int count) {
        first_ = first;
        count_ = count;
        used_ = 1;
    }

    // A row to be filled by the caller.
    double* row() { return take(1)[0]; }

    Value zero() const { return file_[0]; }

    template <class Step, class... V>
    Values<Value, Step::kOutputs> run(V... values) {
        static_assert(sizeof...(V) == Step::kInputs, "a step takes exactly its inputs");
        const double* in[Step::kInputs] = {values...};
        Row* rows = take(Step::kOutputs);
        double* out[Step::kOutputs];
        Values<Value, Step::kOutputs> result;
        for (int k = 0; k < Step::kOutputs; ++k) result.item[k] = out[k] = rows[k];
        run_rows<Step>(in, out);
        return result;
    }

    template <class Out>
    void momentum(int k, const Out& p, int from) {
        const i64 stride = args_.output_stride[k];
        const double* const rows[4] = {p[from], p[from + 1], p[from + 2], p[from + 3]};
        store_momentum(rows, args_.output[k] + first_ * stride, stride, count_);
    }

    void det(Value value) {
        constexpr int k = Args::kLastOutput;
        const i64 stride = args_.output_stride[k];
        double* to = args_.output[k] + first_ * stride;
        for (int i = 0; i < count_; ++i) to[i * stride] = value[i];
    }

private:
    using Row = double[kLanes];

    // Once per step and block, so it costs nothing: a chain that needs more rows must not overwrite the stack.
    Row* take(int n) {
        if (used_ + n > kValues) __builtin_trap();
        Row* rows = file_ + used_;
        used_ += n;
        return rows;
    }

    alignas(64) double file_[kValues][kLanes];
    const Args& args_;
    i64 first_ = 0;
    int count_ = 0, used_ = 1;
};

// Runs a chain over events [begin, end): the host twin of run_event in phasespace/event_kernel.h.
template <class Chain>
void run_chain(const void* raw_args, i64 begin, i64 end) {
    using Args = EventArgs<Chain::kInputs, Chain::kMomenta + 1>;
    const Args& args = *static_cast<const Args*>(raw_args);
    // Rows: zero, nu, the inputs, and what the steps of the longest chain produce.
    Lanes<Args, 2 + Chain::kInputs + 56> executor(args);
    for (i64 first = begin; first < end; first += kLanes) {
        const int count = end - first < kLanes ? static_cast<int>(end - first) : kLanes;
        executor.start(first, count);
        double* nu = executor.row();
        for (int i = 0; i < kLanes; ++i) nu[i] = args.constant;
        double* rows[Chain::kInputs];
        for (auto& row : rows) row = executor.row();
        load_block(args, first, count, rows);
        const double* in[Chain::kInputs];
        for (int k = 0; k < Chain::kInputs; ++k) in[k] = rows[k];
        Chain::eval(executor, in, static_cast<const double*>(nu));
    }
}

MS_END_NAMESPACE
