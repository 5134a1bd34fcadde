// What every fused per-event GPU kernel does around its chain: load, evaluate, store four-vectors coalesced.
#pragma once

#include "madspace/event_args.h"
#include "step.h"

MS_BEGIN_NAMESPACE

// Launched with any number of threads up to this that is a multiple of 32.
constexpr int kMaxBlock = 256;

template <class Args>
class GpuEvent {
public:
    using Value = double;

    MS_FN GpuEvent(const Args& args, double2* stage, i64 index)
        : args_(args), stage_(stage), index_(index), lane_(static_cast<int>(threadIdx.x) & 31) {}

    MS_FN static double zero() { return 0.0; }

    template <class Step, class... V>
    MS_FN Values<double, Step::kOutputs> run(V... values) {
        return run_step<Step>(values...);
    }

    // The four-vectors of a warp go through shared memory, so that each store instruction writes 512 contiguous bytes:
    // 16-byte stores with a stride of 32 bytes reach 61 % of the copy bandwidth on an H200, these 89 %.
    template <class Out>
    MS_FN void momentum(int k, const Out& p, int from) {
        stage_[slot(2 * lane_)] = make_double2(p[from], p[from + 1]);
        stage_[slot(2 * lane_ + 1)] = make_double2(p[from + 2], p[from + 3]);
        __syncwarp();
        double* to = args_.output[k];
        const i64 stride = args_.output_stride[k];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int piece = lane_ + 32 * half;
            const i64 row = index_ - lane_ + (piece >> 1);
            if (row < args_.n) *reinterpret_cast<double2*>(to + row * stride + 2 * (piece & 1)) = stage_[slot(piece)];
        }
        __syncwarp();
    }

    MS_FN void det(double value) {
        constexpr int k = Args::kLastOutput;
        if (index_ < args_.n) args_.output[k][index_ * args_.output_stride[k]] = value;
    }

private:
    // Piece p (16 bytes; half of event p / 2) lies at p ^ bit 3 of p: the writers of a quarter warp meet all banks.
    MS_FN static int slot(int piece) { return piece ^ ((piece >> 3) & 1); }

    const Args& args_;
    double2* stage_;
    i64 index_;
    int lane_;
};

template <class Chain, class Args>
MS_FN void run_event(const Args& args) {
    __shared__ double2 stage[kMaxBlock / 32][64];
    const i64 index = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
    // Threads past the end repeat the last event and store nothing: all lanes of a warp take part in its exchanges.
    const i64 source = index < args.n ? index : args.n - 1;
    double in[Chain::kInputs];
    for (int k = 0; k < Chain::kInputs; ++k) in[k] = __ldg(args.input[k] + source * args.input_stride[k]);
    GpuEvent<Args> executor(args, stage[threadIdx.x >> 5], index);
    Chain::eval(executor, in, args.constant);
}

MS_END_NAMESPACE
