// spills-allowed: what the way back needs does not fit into the registers of 384 threads
// Fused kernels of programs, printed by tools/fuse_programs.py: do not edit.
#define MS_WITH_ADJOINTS
#define MS_TWO_WAY
#include "fused_kernel.h"

using namespace madspace;

extern "C" __global__ void __launch_bounds__(128, 3)
    fused_20f813f9cdd01ba7(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 456> args) {
    __shared__ program::Stage stage;
    const program::FusedEvent event(args.head, stage);
    const double in15 = event.load<double>(args.body + 15);
    const double in18 = event.load<double>(args.body + 18);
    const double in21 = event.load<double>(args.body + 21);
    const double in24 = event.load<double>(args.body + 24);
    const auto s0 = program::run<program::op_t_chain_start, 6>(in15, in18, in21, in24);
    const auto s1 = program::run<program::op_add, 1>(s0[3], s0[4]);
    const double in0 = event.load<double>(args.body + 0);
    const double in3 = event.load<double>(args.body + 3);
    const double in6 = event.load<double>(args.body + 6);
    const double in9 = event.load<double>(args.body + 9);
    const double in12 = event.load<double>(args.body + 12);
    const auto s2 = program::run<program::op_t_chain_weight, 1>(s0[0], in0, in3, in6, in9, in12);
    const program::Both<program::op_t_chain_recoil, 0x0> s3(in0, s0[1], s1[0], s0[5], s2[0]);
    const program::Both<program::op_t_chain_transfer_fifth, 0x60> s4(in6, s0[1], s3[0], s0[2], s3[2], 0x0.0p+0, 0x0.0p+0, s3[3]);
    const program::Both<program::op_t_chain_scatter, 0xfe00> s5(in3, s4[1], s4[2], s4[3], s4[4], s0[1], s3[0], s0[2], s0[1], 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, -0x1.0000000000000p+0);
    const program::Both<program::op_light_cone, 0x0> s6(s5[4], s5[5], s5[6], s5[7], s0[2]);
    const program::Both<program::op_t_chain_transfer_fifth, 0x40> s7(in12, s3[0], s0[3], s0[4], s3[1], s4[0], 0x0.0p+0, s4[5]);
    const auto s8 = program::run<program::op_cut_one, 1>(0x0.0p+0, from_bits(0xfff0000000000000ULL), s7[5]);
    const double in27 = event.load<double>(args.body + 27);
    const auto s9 = program::run<program::op_mul, 1>(in27, s8[0]);
    const program::Both<program::op_t_chain_scatter, 0x8000> s10_step(in9, s7[1], s7[2], s7[3], s7[4], s3[0], s0[3], s0[4], s5[0], s5[1], s5[2], s5[3], s6[1], s5[5], s5[6], 0x0.0p+0, 0x1.0000000000000p+0);
    const auto in34 = event.load_four(args.body + 34);
    const auto in38 = event.load_four(args.body + 38);
    const auto s10 = s10_step.back<0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14>(in34[0], in34[1], in34[2], in34[3], in38[0], in38[1], in38[2], in38[3]);
    const auto s11 = s7.back<0, 1, 4, 5, 7>(0x0.0p+0, s10[1], s10[2], s10[3], s10[4], s9[0]);
    const auto s12 = s6.back<0, 1, 2, 3>(0x0.0p+0, s10[10]);
    const auto in30 = event.load_four(args.body + 30);
    const auto s13 = program::run<program::op_add, 1>(in30[0], s12[0]);
    const auto s14 = program::run<program::op_reduce_sum, 1>(in30[1], s10[11], s12[1]);
    const auto s15 = program::run<program::op_reduce_sum, 1>(in30[2], s10[12], s12[2]);
    const auto s16 = program::run<program::op_add, 1>(in30[3], s12[3]);
    const auto s17 = s5.back<0, 1, 2, 3, 4, 6>(s10[6], s10[7], s10[8], s10[9], s13[0], s14[0], s15[0], s16[0]);
    const auto s18 = s4.back<0, 2, 4, 7>(s11[3], s17[1], s17[2], s17[3], s17[4], s11[4]);
    const auto s19 = program::run<program::op_reduce_sum, 1>(s10[5], s11[1], s17[5], s18[1]);
    const auto s20 = s3.back<0, 4>(s19[0], s11[2], s18[2], s18[3]);
    const auto s21 = program::run<program::op_t_chain_weight_vjp, 6>(s0[0], in0, in3, in6, in9, in12, s20[1]);
    const auto s22 = program::run<program::op_add, 1>(s20[0], s21[1]);
    event.store<double>(args.body + 42, s22[0]);
    const auto s23 = program::run<program::op_add, 1>(s17[0], s21[2]);
    event.store<double>(args.body + 45, s23[0]);
    const auto s24 = program::run<program::op_add, 1>(s18[0], s21[3]);
    event.store<double>(args.body + 48, s24[0]);
    const auto s25 = program::run<program::op_add, 1>(s10[0], s21[4]);
    event.store<double>(args.body + 51, s25[0]);
    const auto s26 = program::run<program::op_add, 1>(s11[0], s21[5]);
    event.store<double>(args.body + 54, s26[0]);
}

extern "C" __global__ void __launch_bounds__(128, 3)
    fused_54a84711fb8533c8(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 456> args) {
    __shared__ program::Stage stage;
    const program::FusedEvent event(args.head, stage);
    const double in15 = event.load<double>(args.body + 15);
    const double in18 = event.load<double>(args.body + 18);
    const double in21 = event.load<double>(args.body + 21);
    const double in24 = event.load<double>(args.body + 24);
    const auto s0 = program::run<program::op_t_chain_start, 6>(in15, in18, in21, in24);
    const auto s1 = program::run<program::op_add, 1>(s0[3], s0[4]);
    const double in0 = event.load<double>(args.body + 0);
    const double in3 = event.load<double>(args.body + 3);
    const double in6 = event.load<double>(args.body + 6);
    const double in9 = event.load<double>(args.body + 9);
    const double in12 = event.load<double>(args.body + 12);
    const auto s2 = program::run<program::op_t_chain_weight, 1>(s0[0], in0, in3, in6, in9, in12);
    const program::Both<program::op_t_chain_recoil, 0x0> s3(in0, s0[1], s1[0], s0[5], s2[0]);
    const program::Both<program::op_t_chain_transfer_fifth, 0x60> s4(in6, s0[1], s3[0], s0[2], s3[2], 0x0.0p+0, 0x0.0p+0, s3[3]);
    const program::Both<program::op_t_chain_scatter, 0xfe00> s5(in3, s4[1], s4[2], s4[3], s4[4], s0[1], s3[0], s0[2], s0[1], 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, -0x1.0000000000000p+0);
    const program::Both<program::op_light_cone, 0x0> s6(s5[4], s5[5], s5[6], s5[7], s0[2]);
    const program::Both<program::op_t_chain_transfer_fifth, 0x40> s7(in12, s3[0], s0[3], s0[4], s3[1], s4[0], 0x0.0p+0, s4[5]);
    const auto s8 = program::run<program::op_cut_one, 1>(0x0.0p+0, from_bits(0xfff0000000000000ULL), s7[5]);
    const double in27 = event.load<double>(args.body + 27);
    const auto s9 = program::run<program::op_mul, 1>(in27, s8[0]);
    const program::Both<program::op_t_chain_scatter, 0x8000> s10_step(in9, s7[1], s7[2], s7[3], s7[4], s3[0], s0[3], s0[4], s5[0], s5[1], s5[2], s5[3], s6[1], s5[5], s5[6], 0x0.0p+0, 0x1.0000000000000p+0);
    const auto in34 = event.load_four(args.body + 34);
    const auto in38 = event.load_four(args.body + 38);
    const auto s10 = s10_step.back<0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14>(in34[0], in34[1], in34[2], in34[3], in38[0], in38[1], in38[2], in38[3]);
    const auto s11 = s7.back<0, 1, 4, 5, 7>(0x0.0p+0, s10[1], s10[2], s10[3], s10[4], s9[0]);
    const auto s12 = s6.back<0, 1, 2, 3>(0x0.0p+0, s10[10]);
    const auto in30 = event.load_four(args.body + 30);
    const auto s13 = program::run<program::op_add, 1>(in30[0], s12[0]);
    const auto s14 = program::run<program::op_reduce_sum, 1>(in30[1], s10[11], s12[1]);
    const auto s15 = program::run<program::op_reduce_sum, 1>(in30[2], s10[12], s12[2]);
    const auto s16 = program::run<program::op_add, 1>(in30[3], s12[3]);
    const auto s17 = s5.back<0, 1, 2, 3, 4, 6>(s10[6], s10[7], s10[8], s10[9], s13[0], s14[0], s15[0], s16[0]);
    const auto s18 = s4.back<0, 2, 4, 7>(s11[3], s17[1], s17[2], s17[3], s17[4], s11[4]);
    const auto s19 = program::run<program::op_reduce_sum, 1>(s10[5], s11[1], s17[5], s18[1]);
    const auto s20 = s3.back<0, 4>(s19[0], s11[2], s18[2], s18[3]);
    const auto s21 = program::run<program::op_t_chain_weight_vjp, 6>(s0[0], in0, in3, in6, in9, in12, s20[1]);
    const auto s22 = program::run<program::op_add, 1>(s20[0], s21[1]);
    event.store<double>(args.body + 42, s22[0]);
    const auto s23 = program::run<program::op_add, 1>(s17[0], s21[2]);
    event.store<double>(args.body + 45, s23[0]);
    const auto s24 = program::run<program::op_add, 1>(s18[0], s21[3]);
    event.store<double>(args.body + 48, s24[0]);
    const auto s25 = program::run<program::op_add, 1>(s10[0], s21[4]);
    event.store<double>(args.body + 51, s25[0]);
    const auto s26 = program::run<program::op_add, 1>(s11[0], s21[5]);
    event.store<double>(args.body + 54, s26[0]);
}
