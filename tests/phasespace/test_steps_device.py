"""The headers of the steps are device code as well: every op compiles under NVRTC."""

from pathlib import Path

import pytest

from madspace.core.compiler import compile_image

CUDA_SRC = Path(__file__).resolve().parents[2] / "cuda_src"

SOURCE = """
#include "phasespace/arithmetic.h"
#include "phasespace/chili.h"
#include "phasespace/cuts.h"
#include "phasespace/decays.h"
#include "phasespace/double_t.h"
#include "phasespace/indexing.h"
#include "phasespace/invariants_1d.h"
#include "phasespace/luminosity.h"
#include "phasespace/observables.h"
#include "phasespace/rambo.h"
#include "phasespace/scattering.h"
#include "phasespace/t_chain_inverse.h"
#include "phasespace/three_body.h"
#include "phasespace/two_to_three.h"

using namespace madspace;

// One event, its values in global memory.
struct Event {
    const double* from;
    double* to;
    __device__ double in(int k) const { return from[k]; }
    __device__ void out(int k, double x) { to[k] = x; }
    __device__ double constant(double x) const { return x; }
    template <int n>
    __device__ Values<double, n> accumulators(double x) {
        Values<double, n> sums;
        for (int k = 0; k < n; ++k) sums.item[k] = x;
        return sums;
    }
    template <class Step, class... V>
    __device__ Values<double, Step::kOutputs> run(V... values) { return run_step<Step>(values...); }
    template <class Step, class... V>
    __device__ void update(Values<double, Step::kOutputs>& sums, V... values) {
        double in[Step::kInputs] = {};
        const double rest[] = {values...};
        for (int k = 0; k < Step::kOutputs; ++k) in[k] = sums.item[k];
        for (int k = Step::kOutputs; k < Step::kInputs; ++k) in[k] = rest[k - Step::kOutputs];
        Step::eval(in, sums.item);
    }
};

#define MS_OPS_ALL
#define MS_OP(name, n_in, n_out, ...)                                       \\
    static_assert(__VA_ARGS__::kInputs == n_in, #name);                     \\
    extern "C" __global__ void op_##name(const double* from, double* to) {  \\
        double in[n_in], out[n_out];                                        \\
        for (int k = 0; k < n_in; ++k) in[k] = from[k];                     \\
        __VA_ARGS__::eval(in, out);                                         \\
        for (int k = 0; k < n_out; ++k) to[k] = out[k];                     \\
    }
#define MS_LIST_OP(name, ...)                                                                   \\
    extern "C" __global__ void op_##name(const double* from, double* to, int n_in, int n_out) { \\
        Event event{from, to};                                                                  \\
        __VA_ARGS__::eval(event, n_in, n_out);                                                  \\
    }
#include "phasespace/ops.def"
"""


@pytest.mark.needs("nvrtc")
def test_every_op_compiles_for_the_device():
    image = compile_image(SOURCE, arch="sm_90", include_dirs=[str(CUDA_SRC), str(CUDA_SRC / "include")])
    assert len(bytes(image)) > 0


# The adjoints of two sections: all of them would take NVRTC ten seconds.
ADJOINTS = (
    """
#include "madspace/dual_begin.h"
//
#include "phasespace/rambo.h"
#include "phasespace/t_chain_inverse.h"
#include "phasespace/three_body.h"
//
#include "madspace/dual_end.h"
#include "phasespace/adjoint.h"
"""
    + SOURCE[SOURCE.index("using namespace") : SOURCE.index("#define MS_OPS_ALL")].replace(
        "    template <int n>\n",
        """    using Value = double;
    __device__ double number(int k) const { return from[k]; }
    __device__ int mark() const { return 0; }
    __device__ void keep(int k, double x, int) { to[k] = x; }
    template <int n>
""",
        1,
    )
    + """
MS_BEGIN_DUAL_NAMESPACE
#define MS_OP(name, n_in, n_out, ...)                                                \\
    extern "C" __global__ void op_##name(const double* from, double* to, int n) {    \\
        Event event{from, to};                                                       \\
        Adjoint<__VA_ARGS__>::eval(event, n + n_in + n_out, n);                      \\
    }
#define MS_LIST_OP(name, ...)                                                                   \\
    extern "C" __global__ void op_##name(const double* from, double* to, int n_in, int n_out) { \\
        Event event{from, to};                                                                  \\
        ListAdjoint<__VA_ARGS__>::eval(event, n_in, n_out);                                     \\
    }
#define MS_OPS_BODIES
#define MS_OPS_CHAINS
#include "phasespace/ops.def"
MS_END_DUAL_NAMESPACE
"""
)


@pytest.mark.needs("nvrtc")
def test_adjoints_compile_for_the_device():
    image = compile_image(ADJOINTS, arch="sm_90", include_dirs=[str(CUDA_SRC), str(CUDA_SRC / "include")])
    assert len(bytes(image)) > 0
