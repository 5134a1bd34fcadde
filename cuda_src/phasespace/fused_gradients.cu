// spills-allowed: what the way back needs does not fit into the registers of 384 threads
// Fused kernels of programs, printed by tools/fuse_programs.py: do not edit.
#define MS_WITH_ADJOINTS
#define MS_TWO_WAY
#include "fused_kernel.h"

using namespace madspace;

extern "C" __global__ void __launch_bounds__(128, 3)
    fused_f891d8f7031e508f(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 456> args) {
    __shared__ program::Stage stage;
    const program::FusedEvent event(args.head, stage);
    const double in15 = event.load<double>(args.body + 15);
    const double in18 = event.load<double>(args.body + 18);
    const double in21 = event.load<double>(args.body + 21);
    const double in24 = event.load<double>(args.body + 24);
    const auto s0 = program::run<program::op_t_chain_start, 6>(in15, in18, in21, in24);
    const auto s1 = program::run<program::op_add, 1>(s0[3], s0[4]);
    const double in0 = event.load<double>(args.body + 0);
    const program::Both<program::op_t_chain_recoil, 0x0> s2(in0, s0[1], s1[0], s0[5], s0[0]);
    const double in6 = event.load<double>(args.body + 6);
    const program::Both<program::op_t_chain_transfer_fifth, 0x60> s3(in6, s0[1], s2[0], s0[2], s2[2], 0x0.0p+0, 0x0.0p+0, s2[3]);
    const double in3 = event.load<double>(args.body + 3);
    const program::Both<program::op_t_chain_scatter, 0xfe00> s4(in3, s3[1], s3[2], s3[3], s3[4], s0[1], s2[0], s0[2], s0[1], 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, -0x1.0000000000000p+0);
    const program::Both<program::op_light_cone, 0x0> s5(s4[4], s4[5], s4[6], s4[7], s0[2]);
    const double in12 = event.load<double>(args.body + 12);
    const program::Both<program::op_t_chain_transfer_fifth, 0x40> s6(in12, s2[0], s0[3], s0[4], s2[1], s3[0], 0x0.0p+0, s3[5]);
    const double in9 = event.load<double>(args.body + 9);
    const double in27 = event.load<double>(args.body + 27);
    const auto s7 = program::run<program::op_t_chain_weight_vjp, 6>(s6[5], in0, in3, in6, in9, in12, in27);
    const program::Both<program::op_t_chain_scatter, 0x8000> s8_step(in9, s6[1], s6[2], s6[3], s6[4], s2[0], s0[3], s0[4], s4[0], s4[1], s4[2], s4[3], s5[1], s4[5], s4[6], 0x0.0p+0, 0x1.0000000000000p+0);
    const auto in34 = event.load_four(args.body + 34);
    const auto in38 = event.load_four(args.body + 38);
    const auto s8 = s8_step.back<0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14>(in34[0], in34[1], in34[2], in34[3], in38[0], in38[1], in38[2], in38[3]);
    const auto s9 = s6.back<0, 1, 4, 5, 7>(0x0.0p+0, s8[1], s8[2], s8[3], s8[4], s7[0]);
    const auto s10 = s5.back<0, 1, 2, 3>(0x0.0p+0, s8[10]);
    const auto in30 = event.load_four(args.body + 30);
    const auto s11 = program::run<program::op_add, 1>(in30[0], s10[0]);
    const auto s12 = program::run<program::op_reduce_sum, 1>(in30[1], s8[11], s10[1]);
    const auto s13 = program::run<program::op_reduce_sum, 1>(in30[2], s8[12], s10[2]);
    const auto s14 = program::run<program::op_add, 1>(in30[3], s10[3]);
    const auto s15 = s4.back<0, 1, 2, 3, 4, 6>(s8[6], s8[7], s8[8], s8[9], s11[0], s12[0], s13[0], s14[0]);
    const auto s16 = s3.back<0, 2, 4, 7>(s9[3], s15[1], s15[2], s15[3], s15[4], s9[4]);
    const auto s17 = program::run<program::op_reduce_sum, 1>(s8[5], s9[1], s15[5], s16[1]);
    const auto s18 = s2.back<0>(s17[0], s9[2], s16[2], s16[3]);
    const auto s19 = program::run<program::op_add, 1>(s7[1], s18[0]);
    event.store<double>(args.body + 42, s19[0]);
    const auto s20 = program::run<program::op_add, 1>(s7[2], s15[0]);
    event.store<double>(args.body + 45, s20[0]);
    const auto s21 = program::run<program::op_add, 1>(s7[3], s16[0]);
    event.store<double>(args.body + 48, s21[0]);
    const auto s22 = program::run<program::op_add, 1>(s7[4], s8[0]);
    event.store<double>(args.body + 51, s22[0]);
    const auto s23 = program::run<program::op_add, 1>(s7[5], s9[0]);
    event.store<double>(args.body + 54, s23[0]);
}

extern "C" __global__ void __launch_bounds__(128, 3)
    fused_185bc43a22627f98(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 456> args) {
    __shared__ program::Stage stage;
    const program::FusedEvent event(args.head, stage);
    const double in15 = event.load<double>(args.body + 15);
    const double in18 = event.load<double>(args.body + 18);
    const double in21 = event.load<double>(args.body + 21);
    const double in24 = event.load<double>(args.body + 24);
    const auto s0 = program::run<program::op_t_chain_start, 6>(in15, in18, in21, in24);
    const auto s1 = program::run<program::op_add, 1>(s0[3], s0[4]);
    const double in0 = event.load<double>(args.body + 0);
    const program::Both<program::op_t_chain_recoil, 0x0> s2(in0, s0[1], s1[0], s0[5], s0[0]);
    const double in6 = event.load<double>(args.body + 6);
    const program::Both<program::op_t_chain_transfer_fifth, 0x60> s3(in6, s0[1], s2[0], s0[2], s2[2], 0x0.0p+0, 0x0.0p+0, s2[3]);
    const double in3 = event.load<double>(args.body + 3);
    const program::Both<program::op_t_chain_scatter, 0xfe00> s4(in3, s3[1], s3[2], s3[3], s3[4], s0[1], s2[0], s0[2], s0[1], 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, -0x1.0000000000000p+0);
    const program::Both<program::op_light_cone, 0x0> s5(s4[4], s4[5], s4[6], s4[7], s0[2]);
    const double in12 = event.load<double>(args.body + 12);
    const program::Both<program::op_t_chain_transfer_fifth, 0x40> s6(in12, s2[0], s0[3], s0[4], s2[1], s3[0], 0x0.0p+0, s3[5]);
    const double in9 = event.load<double>(args.body + 9);
    const double in27 = event.load<double>(args.body + 27);
    const auto s7 = program::run<program::op_t_chain_weight_vjp, 6>(s6[5], in0, in3, in6, in9, in12, in27);
    const program::Both<program::op_t_chain_scatter, 0x8000> s8_step(in9, s6[1], s6[2], s6[3], s6[4], s2[0], s0[3], s0[4], s4[0], s4[1], s4[2], s4[3], s5[1], s4[5], s4[6], 0x0.0p+0, 0x1.0000000000000p+0);
    const auto in34 = event.load_four(args.body + 34);
    const auto in38 = event.load_four(args.body + 38);
    const auto s8 = s8_step.back<0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14>(in34[0], in34[1], in34[2], in34[3], in38[0], in38[1], in38[2], in38[3]);
    const auto s9 = s6.back<0, 1, 4, 5, 7>(0x0.0p+0, s8[1], s8[2], s8[3], s8[4], s7[0]);
    const auto s10 = s5.back<0, 1, 2, 3>(0x0.0p+0, s8[10]);
    const auto in30 = event.load_four(args.body + 30);
    const auto s11 = program::run<program::op_add, 1>(in30[0], s10[0]);
    const auto s12 = program::run<program::op_reduce_sum, 1>(in30[1], s8[11], s10[1]);
    const auto s13 = program::run<program::op_reduce_sum, 1>(in30[2], s8[12], s10[2]);
    const auto s14 = program::run<program::op_add, 1>(in30[3], s10[3]);
    const auto s15 = s4.back<0, 1, 2, 3, 4, 6>(s8[6], s8[7], s8[8], s8[9], s11[0], s12[0], s13[0], s14[0]);
    const auto s16 = s3.back<0, 2, 4, 7>(s9[3], s15[1], s15[2], s15[3], s15[4], s9[4]);
    const auto s17 = program::run<program::op_reduce_sum, 1>(s8[5], s9[1], s15[5], s16[1]);
    const auto s18 = s2.back<0>(s17[0], s9[2], s16[2], s16[3]);
    const auto s19 = program::run<program::op_add, 1>(s7[1], s18[0]);
    event.store<double>(args.body + 42, s19[0]);
    const auto s20 = program::run<program::op_add, 1>(s7[2], s15[0]);
    event.store<double>(args.body + 45, s20[0]);
    const auto s21 = program::run<program::op_add, 1>(s7[3], s16[0]);
    event.store<double>(args.body + 48, s21[0]);
    const auto s22 = program::run<program::op_add, 1>(s7[4], s8[0]);
    event.store<double>(args.body + 51, s22[0]);
    const auto s23 = program::run<program::op_add, 1>(s7[5], s9[0]);
    event.store<double>(args.body + 54, s23[0]);
}
