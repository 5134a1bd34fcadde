// spills-allowed: all values and their slopes along five directions do not fit into registers
// Fused kernels of programs, printed by tools/fuse_programs.py: do not edit.
#define MS_WITH_ADJOINTS
#include "fused_kernel.h"

using namespace madspace;

extern "C" __global__ void __launch_bounds__(256, 1)
    fused_b87c065b612c378c(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 456> args) {
    __shared__ program::Stage stage;
    const program::FusedEvent event(args.head, stage);
    const double in0 = event.load<double>(args.body + 0);
    const double in3 = event.load<double>(args.body + 3);
    const double in6 = event.load<double>(args.body + 6);
    const double in9 = event.load<double>(args.body + 9);
    const double in12 = event.load<double>(args.body + 12);
    const double in15 = event.load<double>(args.body + 15);
    const double in18 = event.load<double>(args.body + 18);
    const double in21 = event.load<double>(args.body + 21);
    const double in24 = event.load<double>(args.body + 24);
    const double in27 = event.load<double>(args.body + 27);
    const auto in30 = event.load_four(args.body + 30);
    const auto in34 = event.load_four(args.body + 34);
    const auto in38 = event.load_four(args.body + 38);
    const auto s0 = program::run<program::op_t_chain_start, 6>(in15, in18, in21, in24);
    const auto s1 = program::run<program::op_add, 1>(s0[3], s0[4]);
    const auto s2 = program::run<program::op_t_chain_weight, 1>(s0[0], in0, in3, in6, in9, in12);
    const auto s3 = program::run<program::op_t_chain_recoil, 4>(in0, s0[1], s1[0], s0[5], s2[0]);
    const auto s4 = program::run<program::op_t_chain_transfer_fifth_start, 6>(in6, s0[1], s3[0], s0[2], s3[2], s3[3]);
    const auto s5 = program::run<program::op_t_chain_scatter_start, 8>(in3, s4[1], s4[2], s4[3], s4[4], -0x1.0000000000000p+0);
    const auto s6 = program::run<program::op_t_chain_transfer_fifth_a, 6>(in12, s3[0], s0[3], s0[4], s3[1], s4[0], s4[5]);
    const auto s7 = program::run<program::op_cut_one, 1>(0x0.0p+0, from_bits(0xfff0000000000000ULL), s6[5]);
    const auto s8 = program::run<program::op_mul, 1>(in27, s7[0]);
    const auto s9 = program::run<program::op_t_chain_scatter_upper_vjp, 10>(0x0.0p+0, 0x1.0000000000000p+0, 0x1.0000000000000p+1, 0x1.8000000000000p+1, 0x1.0000000000000p+2, 0x1.4000000000000p+2, 0x1.0000000000000p+3, 0x1.2000000000000p+3, 0x1.4000000000000p+3, 0x1.6000000000000p+3, in9, s6[1], s6[2], s6[3], s6[4], s3[0], s0[3], s0[4], s5[0], s5[1], s5[2], s5[3], 0x1.0000000000000p+0, in34[0], in34[1], in34[2], in34[3], in38[0], in38[1], in38[2], in38[3]);
    const auto s10 = program::run<program::op_t_chain_transfer_fifth_a_vjp, 5>(0x0.0p+0, 0x1.0000000000000p+0, 0x1.0000000000000p+2, 0x1.4000000000000p+2, 0x1.8000000000000p+2, in12, s3[0], s0[3], s0[4], s3[1], s4[0], s4[5], 0x0.0p+0, s9[1], s9[2], s9[3], s9[4], s8[0]);
    const auto s11 = program::run<program::op_t_chain_scatter_start_vjp, 5>(0x0.0p+0, 0x1.0000000000000p+0, 0x1.0000000000000p+1, 0x1.8000000000000p+1, 0x1.0000000000000p+2, in3, s4[1], s4[2], s4[3], s4[4], -0x1.0000000000000p+0, s9[6], s9[7], s9[8], s9[9], in30[0], in30[1], in30[2], in30[3]);
    const auto s12 = program::run<program::op_t_chain_transfer_fifth_start_vjp, 4>(0x0.0p+0, 0x1.0000000000000p+1, 0x1.0000000000000p+2, 0x1.4000000000000p+2, in6, s0[1], s3[0], s0[2], s3[2], s3[3], s10[3], s11[1], s11[2], s11[3], s11[4], s10[4]);
    const auto s13 = program::run<program::op_reduce_sum, 1>(s9[5], s10[1], s12[1]);
    const auto s14 = program::run<program::op_t_chain_recoil_vjp, 2>(0x0.0p+0, 0x1.0000000000000p+2, in0, s0[1], s1[0], s0[5], s2[0], s13[0], s10[2], s12[2], s12[3]);
    const auto s15 = program::run<program::op_t_chain_weight_vjp, 6>(s0[0], in0, in3, in6, in9, in12, s14[1]);
    const auto s16 = program::run<program::op_add, 1>(s14[0], s15[1]);
    event.store<double>(args.body + 42, s16[0]);
    const auto s17 = program::run<program::op_add, 1>(s11[0], s15[2]);
    event.store<double>(args.body + 45, s17[0]);
    const auto s18 = program::run<program::op_add, 1>(s12[0], s15[3]);
    event.store<double>(args.body + 48, s18[0]);
    const auto s19 = program::run<program::op_add, 1>(s9[0], s15[4]);
    event.store<double>(args.body + 51, s19[0]);
    const auto s20 = program::run<program::op_add, 1>(s10[0], s15[5]);
    event.store<double>(args.body + 54, s20[0]);
}

extern "C" __global__ void __launch_bounds__(256, 1)
    fused_5d7809169973f2cf(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 456> args) {
    __shared__ program::Stage stage;
    const program::FusedEvent event(args.head, stage);
    const double in0 = event.load<double>(args.body + 0);
    const double in3 = event.load<double>(args.body + 3);
    const double in6 = event.load<double>(args.body + 6);
    const double in9 = event.load<double>(args.body + 9);
    const double in12 = event.load<double>(args.body + 12);
    const double in15 = event.load<double>(args.body + 15);
    const double in18 = event.load<double>(args.body + 18);
    const double in21 = event.load<double>(args.body + 21);
    const double in24 = event.load<double>(args.body + 24);
    const double in27 = event.load<double>(args.body + 27);
    const auto in30 = event.load_four(args.body + 30);
    const auto in34 = event.load_four(args.body + 34);
    const auto in38 = event.load_four(args.body + 38);
    const auto s0 = program::run<program::op_t_chain_start, 6>(in15, in18, in21, in24);
    const auto s1 = program::run<program::op_add, 1>(s0[3], s0[4]);
    const auto s2 = program::run<program::op_t_chain_weight, 1>(s0[0], in0, in3, in6, in9, in12);
    const auto s3 = program::run<program::op_t_chain_recoil, 4>(in0, s0[1], s1[0], s0[5], s2[0]);
    const auto s4 = program::run<program::op_t_chain_transfer_fifth_start, 6>(in6, s0[1], s3[0], s0[2], s3[2], s3[3]);
    const auto s5 = program::run<program::op_t_chain_scatter_start, 8>(in3, s4[1], s4[2], s4[3], s4[4], -0x1.0000000000000p+0);
    const auto s6 = program::run<program::op_t_chain_transfer_fifth_a, 6>(in12, s3[0], s0[3], s0[4], s3[1], s4[0], s4[5]);
    const auto s7 = program::run<program::op_cut_one, 1>(0x0.0p+0, from_bits(0xfff0000000000000ULL), s6[5]);
    const auto s8 = program::run<program::op_mul, 1>(in27, s7[0]);
    const auto s9 = program::run<program::op_t_chain_scatter_upper_vjp, 10>(0x0.0p+0, 0x1.0000000000000p+0, 0x1.0000000000000p+1, 0x1.8000000000000p+1, 0x1.0000000000000p+2, 0x1.4000000000000p+2, 0x1.0000000000000p+3, 0x1.2000000000000p+3, 0x1.4000000000000p+3, 0x1.6000000000000p+3, in9, s6[1], s6[2], s6[3], s6[4], s3[0], s0[3], s0[4], s5[0], s5[1], s5[2], s5[3], 0x1.0000000000000p+0, in34[0], in34[1], in34[2], in34[3], in38[0], in38[1], in38[2], in38[3]);
    const auto s10 = program::run<program::op_t_chain_transfer_fifth_a_vjp, 5>(0x0.0p+0, 0x1.0000000000000p+0, 0x1.0000000000000p+2, 0x1.4000000000000p+2, 0x1.8000000000000p+2, in12, s3[0], s0[3], s0[4], s3[1], s4[0], s4[5], 0x0.0p+0, s9[1], s9[2], s9[3], s9[4], s8[0]);
    const auto s11 = program::run<program::op_t_chain_scatter_start_vjp, 5>(0x0.0p+0, 0x1.0000000000000p+0, 0x1.0000000000000p+1, 0x1.8000000000000p+1, 0x1.0000000000000p+2, in3, s4[1], s4[2], s4[3], s4[4], -0x1.0000000000000p+0, s9[6], s9[7], s9[8], s9[9], in30[0], in30[1], in30[2], in30[3]);
    const auto s12 = program::run<program::op_t_chain_transfer_fifth_start_vjp, 4>(0x0.0p+0, 0x1.0000000000000p+1, 0x1.0000000000000p+2, 0x1.4000000000000p+2, in6, s0[1], s3[0], s0[2], s3[2], s3[3], s10[3], s11[1], s11[2], s11[3], s11[4], s10[4]);
    const auto s13 = program::run<program::op_reduce_sum, 1>(s9[5], s10[1], s12[1]);
    const auto s14 = program::run<program::op_t_chain_recoil_vjp, 2>(0x0.0p+0, 0x1.0000000000000p+2, in0, s0[1], s1[0], s0[5], s2[0], s13[0], s10[2], s12[2], s12[3]);
    const auto s15 = program::run<program::op_t_chain_weight_vjp, 6>(s0[0], in0, in3, in6, in9, in12, s14[1]);
    const auto s16 = program::run<program::op_add, 1>(s14[0], s15[1]);
    event.store<double>(args.body + 42, s16[0]);
    const auto s17 = program::run<program::op_add, 1>(s11[0], s15[2]);
    event.store<double>(args.body + 45, s17[0]);
    const auto s18 = program::run<program::op_add, 1>(s12[0], s15[3]);
    event.store<double>(args.body + 48, s18[0]);
    const auto s19 = program::run<program::op_add, 1>(s9[0], s15[4]);
    event.store<double>(args.body + 51, s19[0]);
    const auto s20 = program::run<program::op_add, 1>(s10[0], s15[5]);
    event.store<double>(args.body + 54, s20[0]);
}
