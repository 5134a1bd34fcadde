// How a mapping is written once and runs everywhere.
//
// A step is a pure function of a few doubles per event: `kInputs`, `kOutputs` and
// `static void eval(const double (&in)[kInputs], double (&out)[kOutputs])`, without branches.
// A mapping is a function template over an executor, which has
//   Value                              what stands for one double per event
//   Value zero()
//   Values<Value, n> run<Step>(...)    one step
//   void momentum(k, values, from)     output k: the four values from `from` on
//   void det(value)                    the last output
// A list step has any number of inputs and outputs: a function template over an executor as well, with in(k) and
// out(k, value) for the values, constant(x) for a number, and accumulators<n>(x), which update<Step>(sums, values...)
// replaces by what the step makes of them; `accepts(n_in, n_out)` says which numbers of values it takes.
// Executors: GpuEvent (event_kernel.h) is one thread with one event; Lanes (madspace/cpu/lanes.h) takes a block of
// events through each step, so that the host compiler vectorises the step's loop.
#pragma once

#include "madspace/portable.h"

MS_BEGIN_NAMESPACE

// One step for one event.
template <class Step, class... V>
MS_FN Values<double, Step::kOutputs> run_step(V... values) {
    static_assert(sizeof...(V) == Step::kInputs, "a step takes exactly its inputs");
    const double in[Step::kInputs] = {values...};
    Values<double, Step::kOutputs> out;
    Step::eval(in, out.item);
    return out;
}

MS_END_NAMESPACE
