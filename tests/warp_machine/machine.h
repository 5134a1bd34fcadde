// Runs CUDA kernels on the host, one block after another, every thread a fiber. What a warp does together (shuffles,
// votes, matrix instructions) waits for all 32 lanes; what a block does together, for all threads. Only as much of the
// language as the kernels here use. x86-64, one operating system thread.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#define __CUDACC__ 1
#define __CUDA_ARCH__ 900
#define __CUDA_ARCH_FEAT_SM90_ALL
#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__
#define __align__(n) __attribute__((aligned(n)))

struct Dim3 {
    unsigned x, y, z;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) double2 {
    double x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

namespace machine {

constexpr unsigned kSharedBytes = 232448;  // of an sm_90 block
constexpr size_t kStackBytes = 128 << 10;

struct Copy {
    unsigned to;
    const void* from;  // null: zeros
};

struct Fiber {
    void* stack_pointer;
    std::vector<char> stack;
    unsigned thread;
    bool done;
    std::vector<std::vector<Copy>> groups;  // of asynchronous copies, the last one still open
};

// A place where several threads meet; what each brings lies in `brought` until two meetings later.
struct Meeting {
    unsigned arrived = 0, generation = 0;
    unsigned ordered = 0;    // times that memory was put in order
    unsigned used[32] = {};  // 1 + that number when a lane last used shared memory
    uint64_t brought[2][32][6];
};

extern Dim3 thread_index, block_index, block_size, grid_size;
extern Fiber* current;
extern char* shared;
extern uint64_t progress;
extern std::string problem;

void yield();
Meeting& warp();
void meet(Meeting& meeting, unsigned n);
void run(const std::function<void()>& kernel, const unsigned* grid, const unsigned* block);
void fault(const std::string& what);

inline unsigned lane() { return thread_index.x % 32; }

// The whole warp exchanges up to 6 words a lane: gives all that was brought.
template <class... T>
const uint64_t (*exchange(T... mine))[6] {
    Meeting& meeting = warp();
    const unsigned parity = meeting.generation & 1;
    unsigned i = 0;
    (void)i;
    ((meeting.brought[parity][lane()][i++] = static_cast<uint64_t>(mine)), ...);
    meet(meeting, 32);
    return meeting.brought[parity];
}

// Tells of shared memory that two lanes of a warp use, one of them writing, with no __syncwarp() between.
void check_access(unsigned address, unsigned nbytes, bool write);
// Tells of a lane that arrives at a barrier for its warp while others used shared memory since the last __syncwarp().
void check_arrival();

inline char* at(unsigned address, unsigned nbytes, bool write) {
    if (address % nbytes != 0 || address + nbytes > kSharedBytes) {
        fault("shared memory: " + std::to_string(nbytes) + " bytes at " + std::to_string(address));
        static char nowhere[16];
        return nowhere;
    }
    check_access(address, nbytes, write);
    return shared + address;
}

template <class T>
T load(unsigned address) {
    T x;
    std::memcpy(&x, at(address, sizeof(T), false), sizeof(T));
    return x;
}

template <class T>
void store(unsigned address, T x) {
    std::memcpy(at(address, sizeof(T), true), &x, sizeof(T));
}

}  // namespace machine

#define threadIdx ::machine::thread_index
#define blockIdx ::machine::block_index
#define blockDim ::machine::block_size
#define gridDim ::machine::grid_size

// ---- the language ----

inline float __uint_as_float(unsigned x) {
    float y;
    std::memcpy(&y, &x, 4);
    return y;
}
inline unsigned __float_as_uint(float x) {
    unsigned y;
    std::memcpy(&y, &x, 4);
    return y;
}
inline long long __double_as_longlong(double x) {
    long long y;
    std::memcpy(&y, &x, 8);
    return y;
}
inline double __longlong_as_double(long long x) {
    double y;
    std::memcpy(&y, &x, 8);
    return y;
}
inline double2 make_double2(double x, double y) { return {x, y}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }
template <class T>
T __ldg(const T* from) {
    if (reinterpret_cast<std::uintptr_t>(from) % sizeof(T) != 0) machine::fault("load: address not aligned");
    return *from;
}
template <class T>
T min(T x, T y) {
    return y < x ? y : x;
}

void __syncwarp();
void __syncthreads();
inline float __shfl_sync(unsigned, float x, int source) {
    return __uint_as_float(static_cast<unsigned>(machine::exchange(__float_as_uint(x))[source & 31][0]));
}
inline int __shfl_sync(unsigned, int x, int source) {
    return static_cast<int>(machine::exchange(static_cast<unsigned>(x))[source & 31][0]);
}
inline bool __shfl_sync(unsigned, bool x, int source) { return machine::exchange(unsigned{x})[source & 31][0] != 0; }
inline float __shfl_xor_sync(unsigned, float x, int mask) {
    const unsigned source = machine::lane() ^ static_cast<unsigned>(mask);
    return __uint_as_float(static_cast<unsigned>(machine::exchange(__float_as_uint(x))[source][0]));
}
inline float __shfl_down_sync(unsigned, float x, int by) {
    const unsigned source = machine::lane() + static_cast<unsigned>(by);
    const auto* all = machine::exchange(__float_as_uint(x));
    return __uint_as_float(static_cast<unsigned>(all[source < 32 ? source : machine::lane()][0]));
}
inline int __any_sync(unsigned, int x) {
    const auto* all = machine::exchange(unsigned{x != 0});
    for (unsigned i = 0; i < 32; ++i)
        if (all[i][0] != 0) return 1;
    return 0;
}
inline unsigned __reduce_min_sync(unsigned, unsigned x) {
    const auto* all = machine::exchange(x);
    unsigned least = x;
    for (unsigned i = 0; i < 32; ++i) least = min(least, static_cast<unsigned>(all[i][0]));
    return least;
}
