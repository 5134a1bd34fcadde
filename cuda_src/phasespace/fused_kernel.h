// What the fused kernel of a program consists of, printed by madspace/phasespace/fused.py: one event per thread, values
// in registers, columns and fours as in the interpreter's parameters (program_args.h), without code and constants.
#pragma once

#include "op_steps.h"
#include "program_columns.h"

MS_BEGIN_NAMESPACE

namespace program {

// Launched with any number of threads up to this that is a multiple of 32.
constexpr int kMaxFusedBlock = 256;

using Stage = double2[kMaxFusedBlock / 32][64];

class FusedEvent {
public:
    MS_FN FusedEvent(const ProgramHead& head, Stage& stage)
        : head_(head),
          n_(head.n),
          index_(static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x)),
          stage_(stage[threadIdx.x >> 5]) {}

    template <class T>
    MS_FN double load(const u64* column) const {
        return load_number<T>(column, source());
    }

    MS_FN Values<double, 4> load_four(const u64* four) const {
        Values<double, 4> x;
        program::load_four(four, source(), x.item);
        return x;
    }

    // Random numbers 2 k and 2 k + 1.
    MS_FN Values<double, 2> draw(u64 k) const {
        return uniform_pair(head_.keys, head_.offset + static_cast<u64>(index_), k);
    }

    template <class T>
    MS_FN void store(const u64* column, double x) const {
        store_number<T>(column, index_, n_, x);
    }

    template <class T>
    MS_FN void store_once(const u64* column, double x) const {
        store_number<T>(column, index_, 1, x);
    }

    // Through shared memory, where piece p (16 bytes; half of event p / 2) lies at p ^ bit 3 of p: the writers of a
    // quarter warp meet all banks.
    MS_FN void store_four(const u64* four, double e, double x, double y, double z) const {
        const int lane = static_cast<int>(threadIdx.x) & 31;
        stage_[slot(2 * lane)] = make_double2(e, x);
        stage_[slot(2 * lane + 1)] = make_double2(y, z);
        __syncwarp();
        program::store_four(four, index_, n_,
                            [&](int half, int ahead) { return stage_[slot(2 * (lane + ahead) + half)]; });
        __syncwarp();
    }

private:
    // Threads past the end repeat the last event and store nothing: all lanes of a warp take part in its exchanges.
    MS_FN int source() const { return index_ < n_ ? index_ : n_ - 1; }
    MS_FN static int slot(int piece) { return piece ^ ((piece >> 3) & 1); }

    const ProgramHead& head_;
    int n_, index_;
    double2* stage_;
};

// Runs a list step on values in registers: all loops have constant ends.
template <int kIn, int kOut>
struct FusedList : ListExecutor {
    double values[kIn > 0 ? kIn : 1];
    Values<double, kOut> results;

    MS_FN double in(int k) const { return values[k]; }
    MS_FN void out(int k, double x) { results.item[k] = x; }

    // For adjoints (adjoint.h): registers need no thought.
    MS_FN double number(int k) const { return values[k]; }
    MS_FN static int mark() { return 0; }
    MS_FN void keep(int k, double x, int) { results.item[k] = x; }
};

template <class Op, int kOut, class... V>
MS_FN Values<double, kOut> run(V... values) {
    if constexpr (Op::kIsList) {
        constexpr int kIn = sizeof...(V);
        FusedList<kIn, kOut> list{{}, {values...}, {}};
        Op::Step::eval(list, kIn, kOut);
        return list.results;
    } else {
        return run_step<typename Op::Step>(values...);
    }
}

#ifdef MS_WITH_ADJOINTS
// A step that goes both ways (two_way.h). kZero: the inputs that are known to be 0, one bit each.
template <class Op, u64 kZero = 0>
class Both {
    using Original = typename Op::Original;

public:
    template <class... V>
    MS_FN explicit Both(V... values) {
        static_assert(sizeof...(V) == Original::kInputs, "a step takes exactly its inputs");
        const double in[] = {values...};
        step_.forward(in, results_.item);
    }

    MS_FN double operator[](int k) const { return results_[k]; }

    // The gradients of some inputs, by their positions, from those of all outputs.
    template <int... position, class... V>
    MS_FN Values<double, sizeof...(position)> back(V... values) const {
        static_assert(sizeof...(V) == Original::kOutputs, "each output has a gradient");
        const double gradients[] = {values...};
        double all[Original::kInputs];
        step_.backward(gradients, all);
        return {{all[position]...}};
    }

private:
    TwoWay<Original, kZero> step_;
    Values<double, Original::kOutputs> results_;
};
#endif

}  // namespace program

MS_END_NAMESPACE
