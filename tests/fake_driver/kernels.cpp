// The host twins of the kernels in tests/kernels.py, so that one test body serves the fake and a GPU.
#include "fake.h"

namespace fake {

template <class T>
static T arg(void** params, int i) {
    return *static_cast<T*>(params[i]);
}

static void fill(void** p, const unsigned*, const unsigned*) {  // (uint32* out, uint32 value, uint32 n)
    auto* out = arg<uint32_t*>(p, 0);
    for (uint32_t i = 0; i < arg<uint32_t>(p, 2); i++) out[i] = arg<uint32_t>(p, 1);
}
static void copy(void** p, const unsigned*, const unsigned*) {  // (uint32* out, const uint32* in, uint32 n)
    auto* out = arg<uint32_t*>(p, 0);
    auto* in = arg<const uint32_t*>(p, 1);
    for (uint32_t i = 0; i < arg<uint32_t>(p, 2); i++) out[i] = in[i];
}
static void axpy(void** p, const unsigned*, const unsigned*) {  // (double* y, const double* x, double a, uint32 n)
    auto* y = arg<double*>(p, 0);
    auto* x = arg<const double*>(p, 1);
    for (uint32_t i = 0; i < arg<uint32_t>(p, 3); i++) y[i] += arg<double>(p, 2) * x[i];
}
static void nothing(void**, const unsigned*, const unsigned*) {}

void register_test_kernels() {
    auto& registry = state().registry;
    registry["ms_test_fill"] = {fill, {{0, 8}, {8, 4}, {12, 4}}};
    registry["ms_test_copy"] = {copy, {{0, 8}, {8, 8}, {16, 4}}};
    registry["ms_test_axpy"] = {axpy, {{0, 8}, {8, 8}, {16, 8}, {24, 4}}};
    registry["ms_test_spin"] = {nothing, {{0, 8}}};
}

}  // namespace fake
