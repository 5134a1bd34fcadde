// Stands in for cuda_src/include/madspace/seeds.h: as good as the hardware's first approximations, and not better.
#pragma once

#include "machine.h"
#include "portable.h"

MS_BEGIN_NAMESPACE

// The 20 leading bits of the fraction.
MS_FN double leading_bits(double x) { return from_bits(bits_of(x) & 0xffffffff00000000ULL); }

MS_FN double reciprocal_seed(double x) { return leading_bits(1.0 / x); }
MS_FN double root_seed(double x) { return leading_bits(1.0 / std::sqrt(x)); }

MS_END_NAMESPACE
