// What the same source needs to be GPU code under NVRTC and vectorised host code under g++ or clang.
// No standard headers: NVRTC has none without extra packages.
#pragma once

#if defined(__CUDACC__)
#define MS_GPU 1
#define MS_FN __device__ __forceinline__
#define MS_HOST_FN __host__ __device__ inline
#else
#define MS_GPU 0
#define MS_FN inline __attribute__((always_inline))
#define MS_HOST_FN inline __attribute__((always_inline))
#endif

// Host kernels are compiled once per instruction set from the same templates. Without a namespace of its own per
// build, the linker would keep one weak copy of each and run it on processors that lack its instructions.
#if defined(MS_ISA)
#define MS_BEGIN_NAMESPACE \
    namespace madspace {   \
    inline namespace MS_ISA {
#define MS_END_NAMESPACE \
    }                    \
    }
#else
#define MS_BEGIN_NAMESPACE namespace madspace {
#define MS_END_NAMESPACE }
#endif

MS_BEGIN_NAMESPACE

using i64 = long long;
using u64 = unsigned long long;
static_assert(sizeof(i64) == 8, "i64 must have 64 bits");

// A fixed number of values returned together.
template <class T, int N>
struct Values {
    T item[N];
    MS_FN T operator[](int i) const { return item[i]; }
};

MS_FN u64 bits_of(double x) {
#if MS_GPU
    return static_cast<u64>(__double_as_longlong(x));
#else
    u64 bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}

MS_FN double from_bits(u64 bits) {
#if MS_GPU
    return __longlong_as_double(static_cast<i64>(bits));
#else
    double x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

MS_END_NAMESPACE
