// Host kernels of the t-channel chains, compiled once per instruction set (macro MS_ISA).
#include "host_kernel.h"
#include "lanes.h"
#include "phasespace/t_chain.h"

#define MS_JOIN_(a, b) a##b
#define MS_JOIN(a, b) MS_JOIN_(a, b)

using namespace madspace;

extern "C" {
extern const HostKernel MS_JOIN(madspace_t_chain_, MS_ISA)[];
const HostKernel MS_JOIN(madspace_t_chain_, MS_ISA)[] = {
#define MS_CHAIN(name, blocks, ...) {#name, run_chain<__VA_ARGS__>},
#include "phasespace/t_chain.def"
#undef MS_CHAIN
    {nullptr, nullptr}};
}
