// The instructions of sm_80 and later that C++ has no words for. All addresses are of shared memory unless they say so.
#pragma once

#include "args.h"

MS_BEGIN_NAMESPACE

namespace kda {

MS_FN u32 shared_address(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }

// ---- numbers ----

// Two floats as bfloat16, the first one in the low half.
MS_FN u32 pack(float low, float high) {
    u32 result;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}

MS_FN float low_of(u32 pair) { return __uint_as_float(pair << 16); }
MS_FN float high_of(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }
MS_FN float float_of(u16 bits) { return __uint_as_float(static_cast<u32>(bits) << 16); }

MS_FN float exp2_of(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

MS_FN float reciprocal_of(float x) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

MS_FN float rsqrt_of(float x) {
    float result;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// Sums of two bfloat16 each: not a number if one of them is not, and rarely else.
MS_FN u32 add_pairs(u32 a, u32 b) {
    u32 result;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(0x3f803f80u), "r"(b));
    return result;
}

// ---- matrices ----

// d = a b + c, m16n8k16.
MS_FN void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, float c0, float c1, float c2, float c3) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c0), "f"(c1), "f"(c2), "f"(c3));
}

// d += a b.
MS_FN void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma(d, a, b0, b1, d[0], d[1], d[2], d[3]); }

MS_FN void load_matrices(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

MS_FN void load_matrices_transposed(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

MS_FN u32 transposed(u32 matrix) {
    u32 result;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(matrix));
    return result;
}

// ---- shared memory ----

MS_FN uint4 load_16(u32 address) {
    uint4 x;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(address)
                 : "memory");
    return x;
}

MS_FN float4 load_floats(u32 address) {
    float4 x;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(address)
                 : "memory");
    return x;
}

MS_FN float2 load_two_floats(u32 address) {
    float2 x;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(address) : "memory");
    return x;
}

MS_FN uint2 load_8(u32 address) {
    uint2 x;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "r"(address) : "memory");
    return x;
}

MS_FN u64 load_address(u32 address) {
    u64 x;
    asm volatile("ld.shared.u64 %0, [%1];" : "=l"(x) : "r"(address) : "memory");
    return x;
}

MS_FN void store_address(u32 address, u64 x) {
    asm volatile("st.shared.u64 [%0], %1;" ::"r"(address), "l"(x) : "memory");
}

MS_FN u32 load_4(u32 address) {
    u32 x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
    return x;
}

MS_FN void store_16(u32 address, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

MS_FN void store_floats(u32 address, float a, float b, float c, float d) {
    store_16(address, __float_as_uint(a), __float_as_uint(b), __float_as_uint(c), __float_as_uint(d));
}

MS_FN void store_two_floats(u32 address, float a, float b) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(a), "f"(b) : "memory");
}

MS_FN void store_4(u32 address, u32 x) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(x) : "memory"); }

MS_FN void store_2(u32 address, u32 x) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(static_cast<u16>(x)) : "memory");
}

// The counterparts of load_matrices(): lane 8 i + j names where row j of matrix i goes.
MS_FN void store_matrices(u32 address, u32 a, u32 b, u32 c, u32 d) {
#if __CUDA_ARCH__ >= 900
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
                 "r"(c), "r"(d)
                 : "memory");
#else
    const u32 x[4] = {a, b, c, d}, lane = threadIdx.x % 32;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) store_4(__shfl_sync(~0u, address, 8 * i + lane / 4) + lane % 4 * 4, x[i]);
#endif
}

MS_FN void store_matrices_transposed(u32 address, u32 a, u32 b, u32 c, u32 d) {
#if __CUDA_ARCH__ >= 900
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a),
                 "r"(b), "r"(c), "r"(d)
                 : "memory");
#else
    store_matrices(address, transposed(a), transposed(b), transposed(c), transposed(d));
#endif
}

// ---- asynchronous copies from global memory ----

MS_FN void copy_async(u32 address, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
}

// 16 bytes, of which the first `valid` (0 or 16) are copied and the rest is zero.
MS_FN void copy_async(u32 address, const void* global, u32 valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global), "r"(valid) : "memory");
}

MS_FN void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kLater>
MS_FN void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");
}

// ---- kernels one behind the other ----

// The next kernel may begin where there is room, if it was launched to (Launch::early).
MS_FN void let_next_kernel_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Until the kernel before has ended and what it wrote is there.
MS_FN void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// ---- registers ----

// All warps of a warp group of 4 together. What one gives up another may take.
template <int kRegisters>
MS_FN void take_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

template <int kRegisters>
MS_FN void give_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

// ---- barriers ----

MS_FN void barrier_init(u32 barrier, u32 count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

MS_FN void barrier_arrive(u32 barrier) {
    asm volatile("{.reg .b64 state; mbarrier.arrive.shared.b64 state, [%0];}" ::"r"(barrier) : "memory");
}

// The lane arrives as soon as all copies that it has started are there.
MS_FN void barrier_arrive_with_copies(u32 barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

MS_FN bool barrier_passed(u32 barrier, u32 parity) {
    u32 done;
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done != 0;
}

// Without taking issue slots and shared memory from the warps that are waited for.
MS_FN void barrier_wait(u32 barrier, u32 parity) {
#if __CUDA_ARCH__ >= 900
    u32 done;
    do {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2, %3; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity), "r"(100000)
                     : "memory");
    } while (done == 0);
#else
    while (!barrier_passed(barrier, parity)) __nanosleep(64);
#endif
}

}  // namespace kda

MS_END_NAMESPACE
