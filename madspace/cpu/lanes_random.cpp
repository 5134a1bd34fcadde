// Random numbers in memory, compiled once per instruction set (macro MS_ISA).
#include "host_kernel.h"
#include "phasespace/random_args.h"

#define MS_JOIN_(a, b) a##b
#define MS_JOIN(a, b) MS_JOIN_(a, b)

MS_BEGIN_NAMESPACE

namespace {

void random_uniform(const void* raw_args, i64 begin, i64 end) {
    const RandomArgs& args = *static_cast<const RandomArgs*>(raw_args);
    for (i64 event = begin; event < end; ++event)
        for (i64 k = 0; 2 * k < args.width; ++k) {
            const u64 number = args.offset + static_cast<u64>(event);
            const Values<double, 2> x = uniform_pair(args.keys, number, static_cast<u64>(k));
            double* to = args.out + event * args.width + 2 * k;
            to[0] = x[0];
            if (2 * k + 1 < args.width) to[1] = x[1];
        }
}

}  // namespace

MS_END_NAMESPACE

using namespace madspace;

extern "C" {
extern const HostKernel MS_JOIN(madspace_random_, MS_ISA)[];
const HostKernel MS_JOIN(madspace_random_, MS_ISA)[] = {{"random_uniform", random_uniform}, {nullptr, nullptr}};
}
