// Runs an op over a block of kLanes events, whose values are rows: one row per register.
#pragma once

#include "lanes.h"

MS_BEGIN_NAMESPACE

// What an op works on. Rows in `scratch` are free for its intermediate values.
struct OpRows {
    const double* const* in;
    double* const* out;
    int n_in, n_out;
    double (*scratch)[kLanes];
    int n_scratch;
    const double** results;  // n_out places
    bool is_in_place;
};

using OpLoop = void (*)(const OpRows& rows);

template <class Step>
void run_op(const OpRows& rows) {
    run_rows<Step>(rows.in, rows.out);
}

inline void copy_row(const double* from, double* to) {
    for (int i = 0; i < kLanes; ++i) to[i] = from[i];
}

// The executor of list steps. Results are rows that are copied at the end, so outputs may be inputs.
class ListLanes {
public:
    using Value = const double*;

    explicit ListLanes(const OpRows& rows) : rows_(rows) {}

    Value in(int k) const { return rows_.in[k]; }

    void out(int k, Value value) { rows_.results[k] = value; }

    Value constant(double x) {
        double* row = take(1)[0];
        for (int i = 0; i < kLanes; ++i) row[i] = x;
        return row;
    }

    template <class Step, class... V>
    Values<Value, Step::kOutputs> run(V... values) {
        static_assert(sizeof...(V) == Step::kInputs, "a step takes exactly its inputs");
        const double* in[Step::kInputs] = {values...};
        double (*taken)[kLanes] = take(Step::kOutputs);
        double* out[Step::kOutputs];
        Values<Value, Step::kOutputs> result;
        for (int k = 0; k < Step::kOutputs; ++k) result.item[k] = out[k] = taken[k];
        run_rows<Step>(in, out);
        return result;
    }

    // n values of x that update() may change.
    template <int n>
    Values<Value, n> accumulators(double x) {
        Values<Value, n> result;
        for (int k = 0; k < n; ++k) result.item[k] = constant(x);
        return result;
    }

    // sums = Step(sums, values...), in place.
    template <class Step, class... V>
    void update(Values<Value, Step::kOutputs>& sums, V... values) {
        update_rows<Step>(sums, std::make_index_sequence<Step::kOutputs>(), values...);
    }

    // For adjoints (phasespace/adjoint.h).
    double number(int k) const { return rows_.in[k][0]; }

    int mark() const { return used_; }

    void keep(int k, Value value, int mark) {
        copy_row(value, rows_.out[k]);
        used_ = mark;
    }

    void finish() {
        if (rows_.is_in_place)
            for (int k = 0; k < rows_.n_out; ++k) {
                double* row = take(1)[0];
                copy_row(rows_.results[k], row);
                rows_.results[k] = row;
            }
        for (int k = 0; k < rows_.n_out; ++k) copy_row(rows_.results[k], rows_.out[k]);
    }

private:
    template <class Step, std::size_t... k, class... V>
    void update_rows(Values<Value, Step::kOutputs>& sums, std::index_sequence<k...>, V... values) {
        static_assert(sizeof...(V) + sizeof...(k) == Step::kInputs, "a step takes exactly its inputs");
        const double* in[] = {sums.item[k]..., values...};
        // Rows of accumulators(), which nobody else sees.
        double* out[] = {const_cast<double*>(sums.item[k])...};
        run_rows<Step>(in, out);
    }

    // Once per step and block, so it costs nothing: a step that needs more rows must not write past them.
    double (*take(int n)) [kLanes] {
        if (used_ + n > rows_.n_scratch) __builtin_trap();
        double (*rows)[kLanes] = rows_.scratch + used_;
        used_ += n;
        return rows;
    }

    const OpRows& rows_;
    int used_ = 0;
};

template <class Step>
void run_adjoint(const OpRows& rows) {
    ListLanes executor(rows);
    Step::eval(executor, rows.n_in, rows.n_out);
}

template <class Step>
void run_list_op(const OpRows& rows) {
    ListLanes executor(rows);
    Step::eval(executor, rows.n_in, rows.n_out);
    executor.finish();
}

MS_END_NAMESPACE
