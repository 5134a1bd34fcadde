// First approximations of the GPU's hardware: 20 bits or more, results below the normal range are 0.
#pragma once

#include "portable.h"

#if MS_GPU
MS_BEGIN_NAMESPACE

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

MS_END_NAMESPACE
#endif
