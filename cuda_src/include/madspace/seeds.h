// First approximations of the GPU's hardware: 20 bits or more, results below the normal range are 0.
#pragma once

#include "portable.h"

#if MS_GPU
MS_BEGIN_NAMESPACE

#if defined(MS_WITH_ADJOINTS) && !defined(MS_TWO_WAY)
// The compiler takes two pieces of assembly for different things, and with them all that is computed from them. Where
// steps are computed once per direction it must see that the values are the same; the second one has more digits, and
// takes more time.
MS_FN double reciprocal_seed(double x) { return __nvvm_rcp_approx_ftz_d(x); }
MS_FN double root_seed(double x) { return __nvvm_rsqrt_approx_d(x); }
#else
MS_FN double reciprocal_seed(double x) {
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
}

// 1/sqrt(x)
MS_FN double root_seed(double x) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
}
#endif

MS_END_NAMESPACE
#endif
