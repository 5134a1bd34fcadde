// The transposed derivatives of steps: from a step's inputs and the gradients of its outputs to those of its inputs.
// One pass of the step itself over dual numbers per input, so there is no second set of formulas.
//
// An adjoint is a list step for any executor (step.h) that also has
//   number(k)               an input that is the same in all events
//   mark()
//   keep(k, value, mark)    out() at once; what was made since mark() is no longer needed
// Its outputs must not be its inputs.
#pragma once

#include "madspace/dual.h"
#include "step.h"

MS_BEGIN_NAMESPACE

template <int... k>
struct Positions {};

template <int n, int... k>
struct MakePositions : MakePositions<n - 1, n - 1, k...> {};

template <int... k>
struct MakePositions<0, k...> {
    using Type = Positions<k...>;
};

// A step over dual numbers. in: values, their slopes; out: values, their slopes
template <class Step>
struct DualStep {
    static constexpr int kInputs = 2 * Step::kInputs, kOutputs = 2 * Step::kOutputs;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        eval(in, out, typename MakePositions<Step::kInputs>::Type(), typename MakePositions<Step::kOutputs>::Type());
    }

    template <int... i, int... o>
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs], Positions<i...>, Positions<o...>) {
        const dual::Dual x[] = {dual::Dual(in[i], in[Step::kInputs + i])...};
        dual::Dual y[Step::kOutputs];
        Step::eval(x, y);
        ((out[o] = y[o].value, out[Step::kOutputs + o] = y[o].slope), ...);
    }
};

// The same for a step that replaces its first values. in: those, their slopes, the other values, their slopes
template <class Step>
struct DualUpdate {
    static constexpr int kSums = Step::kOutputs, kOthers = Step::kInputs - kSums;
    static constexpr int kInputs = 2 * Step::kInputs, kOutputs = 2 * Step::kOutputs;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        eval(in, out, typename MakePositions<kSums>::Type(), typename MakePositions<kOthers>::Type());
    }

    template <int... s, int... o>
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs], Positions<s...>, Positions<o...>) {
        const dual::Dual x[] = {dual::Dual(in[s], in[kSums + s])...,
                                dual::Dual(in[2 * kSums + o], in[2 * kSums + kOthers + o])...};
        dual::Dual y[Step::kOutputs];
        Step::eval(x, y);
        ((out[s] = y[s].value, out[kSums + s] = y[s].slope), ...);
    }
};

// A gradient times a slope; no gradient makes nothing of an infinite slope.
MS_FN double weighted(double gradient, double slope) { return select(gradient == 0.0, 0.0, gradient * slope); }

// in: inputs, gradients of the outputs, direction of the inputs; out: the derivative in that direction
template <class Step>
struct Directional {
    static constexpr int kInputs = 2 * Step::kInputs + Step::kOutputs, kOutputs = 1;

    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
        eval(in, out, typename MakePositions<Step::kInputs>::Type(), typename MakePositions<Step::kOutputs>::Type());
    }

    template <int... i, int... o>
    MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs], Positions<i...>, Positions<o...>) {
        const dual::Dual x[] = {dual::Dual(in[i], in[Step::kInputs + Step::kOutputs + i])...};
        dual::Dual y[Step::kOutputs];
        Step::eval(x, y);
        out[0] = (weighted(in[Step::kInputs + o], y[o].slope) + ...);
    }
};

// in: positions of the inputs whose gradients are wanted, inputs of the step, gradients of its outputs
// out: gradients of those inputs
template <class Step>
struct Adjoint {
    MS_HOST_FN static constexpr bool accepts(int n_in, int n_out) {
        return n_out >= 1 && n_out <= Step::kInputs && n_in == n_out + Step::kInputs + Step::kOutputs;
    }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int, int n_out) {
        eval(ex, n_out, typename MakePositions<Step::kInputs>::Type(),
             typename MakePositions<Step::kInputs + Step::kOutputs>::Type());
    }

    template <class Executor, int... i, int... all>
    MS_FN static void eval(Executor& ex, int n, Positions<i...>, Positions<all...>) {
        const auto zero = ex.constant(0.0), one = ex.constant(1.0);
        const auto mark = ex.mark();
        for (int k = 0; k < n; ++k) {
            const double position = ex.number(k);
            ex.keep(k, ex.template run<Directional<Step>>(ex.in(n + all)..., (position == i ? one : zero)...)[0], mark);
        }
    }
};

// An executor over dual numbers for list steps, on top of another one.
template <class Executor>
class DualExecutor {
public:
    using Plain = typename Executor::Value;
    struct Value {
        Plain value, slope;
    };

    MS_FN DualExecutor(Executor& ex, Plain zero, Plain one, int n_in)
        : ex_(ex), zero_(zero), one_(one), sum_(zero), n_in_(n_in) {}

    // Starts a pass in the direction of an input.
    MS_FN void start(int direction) {
        direction_ = direction;
        sum_ = zero_;
    }

    // The derivative in that direction, after the pass.
    MS_FN Plain sum() const { return sum_; }

    MS_FN Value in(int k) const { return {ex_.in(k), k == direction_ ? one_ : zero_}; }

    MS_FN Value constant(dual::Dual x) { return {ex_.constant(x.value), zero_}; }

    MS_FN void out(int k, Value value) {
        sum_ = ex_.template run<AddWeighted>(sum_, ex_.in(n_in_ + k), value.slope)[0];
    }

    template <class Step, class... V>
    MS_FN Values<Value, Step::kOutputs> run(V... values) {
        const auto both = ex_.template run<DualStep<Step>>(values.value..., values.slope...);
        Values<Value, Step::kOutputs> result;
        for (int k = 0; k < Step::kOutputs; ++k) result.item[k] = {both.item[k], both.item[Step::kOutputs + k]};
        return result;
    }

    template <int n>
    MS_FN Values<Value, n> accumulators(dual::Dual x) {
        const auto values = ex_.template accumulators<n>(x.value), slopes = ex_.template accumulators<n>(0.0);
        Values<Value, n> result;
        for (int k = 0; k < n; ++k) result.item[k] = {values.item[k], slopes.item[k]};
        return result;
    }

    template <class Step, class... V>
    MS_FN void update(Values<Value, Step::kOutputs>& sums, V... values) {
        constexpr int n = Step::kOutputs;
        Values<Plain, 2 * n> both;
        for (int k = 0; k < n; ++k) {
            both.item[k] = sums.item[k].value;
            both.item[n + k] = sums.item[k].slope;
        }
        ex_.template update<DualUpdate<Step>>(both, values.value..., values.slope...);
        for (int k = 0; k < n; ++k) sums.item[k] = {both.item[k], both.item[n + k]};
    }

private:
    // in: sum so far, gradient, slope; out: sum
    struct AddWeighted {
        static constexpr int kInputs = 3, kOutputs = 1;

        MS_FN static void eval(const double (&in)[kInputs], double (&out)[kOutputs]) {
            out[0] = in[0] + weighted(in[1], in[2]);
        }
    };

    Executor& ex_;
    Plain zero_, one_, sum_;
    int n_in_, direction_ = 0;
};

// The same for a list step, whose inputs are all wanted. in: inputs, gradients of the outputs; out: gradients
template <class Step>
struct ListAdjoint {
    MS_HOST_FN static bool accepts(int n_in, int n_out) { return n_in > n_out && Step::accepts(n_out, n_in - n_out); }

    template <class Executor>
    MS_FN static void eval(Executor& ex, int n_in, int n_out) {
        DualExecutor<Executor> twice(ex, ex.constant(0.0), ex.constant(1.0), n_out);
        const auto mark = ex.mark();
        for (int k = 0; k < n_out; ++k) {
            twice.start(k);
            Step::eval(twice, n_out, n_in - n_out);
            ex.keep(k, twice.sum(), mark);
        }
    }
};

MS_END_NAMESPACE
