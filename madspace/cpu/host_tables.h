// Finds a host kernel by name for an instruction set. A new lanes_*.cpp adds its table's name to MS_TABLES.
#pragma once

#include <cstring>

#include "host_kernel.h"

#define MS_TABLES(X) X(madspace_kda_forward) X(madspace_program) X(madspace_random) X(madspace_t_chain)

#if defined(__x86_64__)
#define MS_DECLARE(table)                             \
    extern const madspace::HostKernel table##_base[]; \
    extern const madspace::HostKernel table##_v3[];   \
    extern const madspace::HostKernel table##_v4[];
#else
#define MS_DECLARE(table) extern const madspace::HostKernel table##_base[];
#endif

extern "C" {
MS_TABLES(MS_DECLARE)
}
#undef MS_DECLARE

namespace madspace {

// 0: any processor of the architecture; 3 and 4: x86-64-v3 (AVX2, FMA) and x86-64-v4 (AVX-512).
inline int best_isa_level() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2");
    const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512cd");
    return v4 ? 4 : v3 ? 3 : 0;
#else
    return 0;
#endif
}

inline const HostKernel* find_host_kernel(const char* name, int level) {
#if defined(__x86_64__)
#define MS_CHOOSE(table) level == 4 ? table##_v4 : level == 3 ? table##_v3 : table##_base,
#else
#define MS_CHOOSE(table) table##_base,
#endif
    const HostKernel* const tables[] = {MS_TABLES(MS_CHOOSE)};
#undef MS_CHOOSE
    for (const HostKernel* kernel : tables)
        for (; kernel->name; ++kernel)
            if (std::strcmp(kernel->name, name) == 0) return kernel;
    return nullptr;
}

}  // namespace madspace
