// spills-allowed: threads are chosen for sm_90a; other targets need some registers more
// Fused kernels of programs, printed by tools/fuse_programs.py: do not edit.
#include "fused_kernel.h"

using namespace madspace;

extern "C" __global__ void __launch_bounds__(256, 4)
    fused_c7cfc06365770cd1(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 272> args) {
    __shared__ program::Stage stage;
    const program::FusedEvent event(args.head, stage);
    const double in0 = event.load<double>(args.body + 0);
    const double in3 = event.load<double>(args.body + 3);
    const double in6 = event.load<double>(args.body + 6);
    const double in9 = event.load<double>(args.body + 9);
    const double in12 = event.load<double>(args.body + 12);
    const auto s0 = program::run<program::op_t_chain_start, 5>(in6, in9, in12);
    const auto s1 = program::run<program::op_com_p_in, 8>(s0[1]);
    event.store_four(args.body + 18, s1[0], s1[1], s1[2], s1[3]);
    event.store_four(args.body + 22, s1[4], s1[5], s1[6], s1[7]);
    const auto s2 = program::run<program::op_t_chain_weight, 1>(s0[0], in0, in3);
    const auto s3 = program::run<program::op_t_chain_transfer_fifth_start, 6>(in3, s0[1], s0[2], s0[3], s0[4], s2[0]);
    const auto s4 = program::run<program::op_t_chain_scatter_start, 8>(in0, s3[1], s3[2], s3[3], s3[4], 0x1.0000000000000p+0);
    event.store_four(args.body + 26, s4[0], s4[1], s4[2], s4[3]);
    event.store_four(args.body + 30, s4[4], s4[5], s4[6], s4[7]);
    const auto s5 = program::run<program::op_max, 1>(s3[5], 0x0.0p+0);
    event.store<double>(args.body + 15, s5[0]);
}

extern "C" __global__ void __launch_bounds__(256, 4)
    fused_ffe4ce53c13be281(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 232> args) {
    __shared__ program::Stage stage;
    const program::FusedEvent event(args.head, stage);
    const double in0 = event.load<double>(args.body + 0);
    const double in3 = event.load<double>(args.body + 3);
    const double in6 = event.load<double>(args.body + 6);
    const auto random0 = event.draw(0);
    const auto s0 = program::run<program::op_t_chain_start, 5>(in0, in3, in6);
    const auto s1 = program::run<program::op_com_p_in, 8>(s0[1]);
    event.store_four(args.body + 12, s1[0], s1[1], s1[2], s1[3]);
    event.store_four(args.body + 16, s1[4], s1[5], s1[6], s1[7]);
    const auto s2 = program::run<program::op_t_chain_weight, 1>(s0[0], random0[0], random0[1]);
    const auto s3 = program::run<program::op_t_chain_transfer_fifth_start, 6>(random0[1], s0[1], s0[2], s0[3], s0[4], s2[0]);
    const auto s4 = program::run<program::op_t_chain_scatter_start, 8>(random0[0], s3[1], s3[2], s3[3], s3[4], 0x1.0000000000000p+0);
    event.store_four(args.body + 20, s4[0], s4[1], s4[2], s4[3]);
    event.store_four(args.body + 24, s4[4], s4[5], s4[6], s4[7]);
    const auto s5 = program::run<program::op_max, 1>(s3[5], 0x0.0p+0);
    event.store<double>(args.body + 9, s5[0]);
}

extern "C" __global__ void __launch_bounds__(256, 4)
    fused_a57a4a9610ed3736(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 400> args) {
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
    const auto s0 = program::run<program::op_t_chain_start, 6>(in15, in18, in21, in24);
    const auto s1 = program::run<program::op_add, 1>(s0[3], s0[4]);
    const auto s2 = program::run<program::op_com_p_in, 8>(s0[1]);
    event.store_four(args.body + 30, s2[0], s2[1], s2[2], s2[3]);
    event.store_four(args.body + 34, s2[4], s2[5], s2[6], s2[7]);
    const auto s3 = program::run<program::op_t_chain_weight, 1>(s0[0], in0, in3, in6, in9, in12);
    const auto s4 = program::run<program::op_t_chain_recoil, 4>(in0, s0[1], s1[0], s0[5], s3[0]);
    const auto s5 = program::run<program::op_t_chain_transfer_fifth_start, 6>(in6, s0[1], s4[0], s0[2], s4[2], s4[3]);
    const auto s6 = program::run<program::op_t_chain_scatter_start, 8>(in3, s5[1], s5[2], s5[3], s5[4], -0x1.0000000000000p+0);
    event.store_four(args.body + 38, s6[4], s6[5], s6[6], s6[7]);
    const auto s7 = program::run<program::op_t_chain_transfer_fifth_a, 6>(in12, s4[0], s0[3], s0[4], s4[1], s5[0], s5[5]);
    const auto s8 = program::run<program::op_t_chain_scatter_upper, 8>(in9, s7[1], s7[2], s7[3], s7[4], s4[0], s0[3], s0[4], s6[0], s6[1], s6[2], s6[3], 0x1.0000000000000p+0);
    event.store_four(args.body + 42, s8[0], s8[1], s8[2], s8[3]);
    event.store_four(args.body + 46, s8[4], s8[5], s8[6], s8[7]);
    const auto s9 = program::run<program::op_max, 1>(s7[5], 0x0.0p+0);
    event.store<double>(args.body + 27, s9[0]);
}

extern "C" __global__ void __launch_bounds__(256, 4)
    fused_cfdd1281153d74e6(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 304> args) {
    __shared__ program::Stage stage;
    const program::FusedEvent event(args.head, stage);
    const double in0 = event.load<double>(args.body + 0);
    const double in3 = event.load<double>(args.body + 3);
    const double in6 = event.load<double>(args.body + 6);
    const double in9 = event.load<double>(args.body + 9);
    const auto random0 = event.draw(0);
    const auto random1 = event.draw(1);
    const auto random2 = event.draw(2);
    const auto s0 = program::run<program::op_t_chain_start, 6>(in0, in3, in6, in9);
    const auto s1 = program::run<program::op_add, 1>(s0[3], s0[4]);
    const auto s2 = program::run<program::op_com_p_in, 8>(s0[1]);
    event.store_four(args.body + 15, s2[0], s2[1], s2[2], s2[3]);
    event.store_four(args.body + 19, s2[4], s2[5], s2[6], s2[7]);
    const auto s3 = program::run<program::op_t_chain_weight, 1>(s0[0], random0[0], random0[1], random1[0], random1[1], random2[0]);
    const auto s4 = program::run<program::op_t_chain_recoil, 4>(random0[0], s0[1], s1[0], s0[5], s3[0]);
    const auto s5 = program::run<program::op_t_chain_transfer_fifth_start, 6>(random1[0], s0[1], s4[0], s0[2], s4[2], s4[3]);
    const auto s6 = program::run<program::op_t_chain_scatter_start, 8>(random0[1], s5[1], s5[2], s5[3], s5[4], -0x1.0000000000000p+0);
    event.store_four(args.body + 23, s6[4], s6[5], s6[6], s6[7]);
    const auto s7 = program::run<program::op_t_chain_transfer_fifth_a, 6>(random2[0], s4[0], s0[3], s0[4], s4[1], s5[0], s5[5]);
    const auto s8 = program::run<program::op_t_chain_scatter_upper, 8>(random1[1], s7[1], s7[2], s7[3], s7[4], s4[0], s0[3], s0[4], s6[0], s6[1], s6[2], s6[3], 0x1.0000000000000p+0);
    event.store_four(args.body + 27, s8[0], s8[1], s8[2], s8[3]);
    event.store_four(args.body + 31, s8[4], s8[5], s8[6], s8[7]);
    const auto s9 = program::run<program::op_max, 1>(s7[5], 0x0.0p+0);
    event.store<double>(args.body + 12, s9[0]);
}

extern "C" __global__ void __launch_bounds__(256, 3)
    fused_9eff1bb5a336efd8(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 528> args) {
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
    const double in30 = event.load<double>(args.body + 30);
    const double in33 = event.load<double>(args.body + 33);
    const double in36 = event.load<double>(args.body + 36);
    const auto s0 = program::run<program::op_t_chain_start, 7>(in24, in27, in30, in33, in36);
    const auto s1 = program::run<program::op_add, 1>(s0[4], s0[5]);
    const auto s2 = program::run<program::op_add, 1>(s1[0], s0[3]);
    const auto s3 = program::run<program::op_com_p_in, 8>(s0[1]);
    event.store_four(args.body + 42, s3[0], s3[1], s3[2], s3[3]);
    event.store_four(args.body + 46, s3[4], s3[5], s3[6], s3[7]);
    const auto s4 = program::run<program::op_t_chain_weight, 1>(s0[0], in0, in3, in6, in9, in12, in15, in18, in21);
    const auto s5 = program::run<program::op_t_chain_recoil, 4>(in0, s0[1], s2[0], s0[6], s4[0]);
    const auto s6 = program::run<program::op_t_chain_recoil, 4>(in3, s5[0], s1[0], s5[1], s5[3]);
    const auto s7 = program::run<program::op_t_chain_transfer_fifth_start, 6>(in9, s0[1], s5[0], s0[2], s5[2], s6[3]);
    const auto s8 = program::run<program::op_t_chain_scatter_start, 8>(in6, s7[1], s7[2], s7[3], s7[4], -0x1.0000000000000p+0);
    event.store_four(args.body + 50, s8[4], s8[5], s8[6], s8[7]);
    const auto s9 = program::run<program::op_t_chain_transfer_fifth_b, 6>(in15, s5[0], s6[0], s0[3], s6[2], s7[0], s7[5]);
    const auto s10 = program::run<program::op_t_chain_scatter_upper, 8>(in12, s9[1], s9[2], s9[3], s9[4], s5[0], s6[0], s0[3], s8[0], s8[1], s8[2], s8[3], -0x1.0000000000000p+0);
    event.store_four(args.body + 54, s10[4], s10[5], s10[6], s10[7]);
    const auto s11 = program::run<program::op_t_chain_transfer_fifth_a, 6>(in21, s6[0], s0[4], s0[5], s6[1], s9[0], s9[5]);
    const auto s12 = program::run<program::op_t_chain_scatter_upper, 8>(in18, s11[1], s11[2], s11[3], s11[4], s6[0], s0[4], s0[5], s10[0], s10[1], s10[2], s10[3], 0x1.0000000000000p+0);
    event.store_four(args.body + 58, s12[0], s12[1], s12[2], s12[3]);
    event.store_four(args.body + 62, s12[4], s12[5], s12[6], s12[7]);
    const auto s13 = program::run<program::op_max, 1>(s11[5], 0x0.0p+0);
    event.store<double>(args.body + 39, s13[0]);
}

extern "C" __global__ void __launch_bounds__(256, 3)
    fused_7e4422857e60907a(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 368> args) {
    __shared__ program::Stage stage;
    const program::FusedEvent event(args.head, stage);
    const double in0 = event.load<double>(args.body + 0);
    const double in3 = event.load<double>(args.body + 3);
    const double in6 = event.load<double>(args.body + 6);
    const double in9 = event.load<double>(args.body + 9);
    const double in12 = event.load<double>(args.body + 12);
    const auto random0 = event.draw(0);
    const auto random1 = event.draw(1);
    const auto random2 = event.draw(2);
    const auto random3 = event.draw(3);
    const auto s0 = program::run<program::op_t_chain_start, 7>(in0, in3, in6, in9, in12);
    const auto s1 = program::run<program::op_add, 1>(s0[4], s0[5]);
    const auto s2 = program::run<program::op_add, 1>(s1[0], s0[3]);
    const auto s3 = program::run<program::op_com_p_in, 8>(s0[1]);
    event.store_four(args.body + 18, s3[0], s3[1], s3[2], s3[3]);
    event.store_four(args.body + 22, s3[4], s3[5], s3[6], s3[7]);
    const auto s4 = program::run<program::op_t_chain_weight, 1>(s0[0], random0[0], random0[1], random1[0], random1[1], random2[0], random2[1], random3[0], random3[1]);
    const auto s5 = program::run<program::op_t_chain_recoil, 4>(random0[0], s0[1], s2[0], s0[6], s4[0]);
    const auto s6 = program::run<program::op_t_chain_recoil, 4>(random0[1], s5[0], s1[0], s5[1], s5[3]);
    const auto s7 = program::run<program::op_t_chain_transfer_fifth_start, 6>(random1[1], s0[1], s5[0], s0[2], s5[2], s6[3]);
    const auto s8 = program::run<program::op_t_chain_scatter_start, 8>(random1[0], s7[1], s7[2], s7[3], s7[4], -0x1.0000000000000p+0);
    event.store_four(args.body + 26, s8[4], s8[5], s8[6], s8[7]);
    const auto s9 = program::run<program::op_t_chain_transfer_fifth_b, 6>(random2[1], s5[0], s6[0], s0[3], s6[2], s7[0], s7[5]);
    const auto s10 = program::run<program::op_t_chain_scatter_upper, 8>(random2[0], s9[1], s9[2], s9[3], s9[4], s5[0], s6[0], s0[3], s8[0], s8[1], s8[2], s8[3], -0x1.0000000000000p+0);
    event.store_four(args.body + 30, s10[4], s10[5], s10[6], s10[7]);
    const auto s11 = program::run<program::op_t_chain_transfer_fifth_a, 6>(random3[1], s6[0], s0[4], s0[5], s6[1], s9[0], s9[5]);
    const auto s12 = program::run<program::op_t_chain_scatter_upper, 8>(random3[0], s11[1], s11[2], s11[3], s11[4], s6[0], s0[4], s0[5], s10[0], s10[1], s10[2], s10[3], 0x1.0000000000000p+0);
    event.store_four(args.body + 34, s12[0], s12[1], s12[2], s12[3]);
    event.store_four(args.body + 38, s12[4], s12[5], s12[6], s12[7]);
    const auto s13 = program::run<program::op_max, 1>(s11[5], 0x0.0p+0);
    event.store<double>(args.body + 15, s13[0]);
}

extern "C" __global__ void __launch_bounds__(128, 5)
    fused_741a918bf9bc1ef5(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 656> args) {
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
    const double in30 = event.load<double>(args.body + 30);
    const double in33 = event.load<double>(args.body + 33);
    const double in36 = event.load<double>(args.body + 36);
    const double in39 = event.load<double>(args.body + 39);
    const double in42 = event.load<double>(args.body + 42);
    const double in45 = event.load<double>(args.body + 45);
    const double in48 = event.load<double>(args.body + 48);
    const auto s0 = program::run<program::op_t_chain_start, 8>(in33, in36, in39, in42, in45, in48);
    const auto s1 = program::run<program::op_add, 1>(s0[5], s0[6]);
    const auto s2 = program::run<program::op_add, 1>(s1[0], s0[4]);
    const auto s3 = program::run<program::op_add, 1>(s2[0], s0[3]);
    const auto s4 = program::run<program::op_com_p_in, 8>(s0[1]);
    event.store_four(args.body + 54, s4[0], s4[1], s4[2], s4[3]);
    event.store_four(args.body + 58, s4[4], s4[5], s4[6], s4[7]);
    const auto s5 = program::run<program::op_t_chain_weight, 1>(s0[0], in0, in3, in6, in9, in12, in15, in18, in21, in24, in27, in30);
    const auto s6 = program::run<program::op_t_chain_recoil, 4>(in0, s0[1], s3[0], s0[7], s5[0]);
    const auto s7 = program::run<program::op_t_chain_recoil, 4>(in3, s6[0], s2[0], s6[1], s6[3]);
    const auto s8 = program::run<program::op_t_chain_recoil, 4>(in6, s7[0], s1[0], s7[1], s7[3]);
    const auto s9 = program::run<program::op_t_chain_transfer_fifth_start, 6>(in12, s0[1], s6[0], s0[2], s6[2], s8[3]);
    const auto s10 = program::run<program::op_t_chain_scatter_start, 8>(in9, s9[1], s9[2], s9[3], s9[4], -0x1.0000000000000p+0);
    event.store_four(args.body + 62, s10[4], s10[5], s10[6], s10[7]);
    const auto s11 = program::run<program::op_t_chain_transfer_fifth_b, 6>(in18, s6[0], s7[0], s0[3], s7[2], s9[0], s9[5]);
    const auto s12 = program::run<program::op_t_chain_scatter_upper, 8>(in15, s11[1], s11[2], s11[3], s11[4], s6[0], s7[0], s0[3], s10[0], s10[1], s10[2], s10[3], -0x1.0000000000000p+0);
    event.store_four(args.body + 66, s12[4], s12[5], s12[6], s12[7]);
    const auto s13 = program::run<program::op_t_chain_transfer_fifth_b, 6>(in24, s7[0], s8[0], s0[4], s8[2], s11[0], s11[5]);
    const auto s14 = program::run<program::op_t_chain_scatter_upper, 8>(in21, s13[1], s13[2], s13[3], s13[4], s7[0], s8[0], s0[4], s12[0], s12[1], s12[2], s12[3], -0x1.0000000000000p+0);
    event.store_four(args.body + 70, s14[4], s14[5], s14[6], s14[7]);
    const auto s15 = program::run<program::op_t_chain_transfer_fifth_a, 6>(in30, s8[0], s0[5], s0[6], s8[1], s13[0], s13[5]);
    const auto s16 = program::run<program::op_t_chain_scatter_upper, 8>(in27, s15[1], s15[2], s15[3], s15[4], s8[0], s0[5], s0[6], s14[0], s14[1], s14[2], s14[3], 0x1.0000000000000p+0);
    event.store_four(args.body + 74, s16[0], s16[1], s16[2], s16[3]);
    event.store_four(args.body + 78, s16[4], s16[5], s16[6], s16[7]);
    const auto s17 = program::run<program::op_max, 1>(s15[5], 0x0.0p+0);
    event.store<double>(args.body + 51, s17[0]);
}

extern "C" __global__ void __launch_bounds__(128, 5)
    fused_d603254dfef78c0d(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 440> args) {
    __shared__ program::Stage stage;
    const program::FusedEvent event(args.head, stage);
    const double in0 = event.load<double>(args.body + 0);
    const double in3 = event.load<double>(args.body + 3);
    const double in6 = event.load<double>(args.body + 6);
    const double in9 = event.load<double>(args.body + 9);
    const double in12 = event.load<double>(args.body + 12);
    const double in15 = event.load<double>(args.body + 15);
    const auto random0 = event.draw(0);
    const auto random1 = event.draw(1);
    const auto random2 = event.draw(2);
    const auto random3 = event.draw(3);
    const auto random4 = event.draw(4);
    const auto random5 = event.draw(5);
    const auto s0 = program::run<program::op_t_chain_start, 8>(in0, in3, in6, in9, in12, in15);
    const auto s1 = program::run<program::op_add, 1>(s0[5], s0[6]);
    const auto s2 = program::run<program::op_add, 1>(s1[0], s0[4]);
    const auto s3 = program::run<program::op_add, 1>(s2[0], s0[3]);
    const auto s4 = program::run<program::op_com_p_in, 8>(s0[1]);
    event.store_four(args.body + 21, s4[0], s4[1], s4[2], s4[3]);
    event.store_four(args.body + 25, s4[4], s4[5], s4[6], s4[7]);
    const auto s5 = program::run<program::op_t_chain_weight, 1>(s0[0], random0[0], random0[1], random1[0], random1[1], random2[0], random2[1], random3[0], random3[1], random4[0], random4[1], random5[0]);
    const auto s6 = program::run<program::op_t_chain_recoil, 4>(random0[0], s0[1], s3[0], s0[7], s5[0]);
    const auto s7 = program::run<program::op_t_chain_recoil, 4>(random0[1], s6[0], s2[0], s6[1], s6[3]);
    const auto s8 = program::run<program::op_t_chain_recoil, 4>(random1[0], s7[0], s1[0], s7[1], s7[3]);
    const auto s9 = program::run<program::op_t_chain_transfer_fifth_start, 6>(random2[0], s0[1], s6[0], s0[2], s6[2], s8[3]);
    const auto s10 = program::run<program::op_t_chain_scatter_start, 8>(random1[1], s9[1], s9[2], s9[3], s9[4], -0x1.0000000000000p+0);
    event.store_four(args.body + 29, s10[4], s10[5], s10[6], s10[7]);
    const auto s11 = program::run<program::op_t_chain_transfer_fifth_b, 6>(random3[0], s6[0], s7[0], s0[3], s7[2], s9[0], s9[5]);
    const auto s12 = program::run<program::op_t_chain_scatter_upper, 8>(random2[1], s11[1], s11[2], s11[3], s11[4], s6[0], s7[0], s0[3], s10[0], s10[1], s10[2], s10[3], -0x1.0000000000000p+0);
    event.store_four(args.body + 33, s12[4], s12[5], s12[6], s12[7]);
    const auto s13 = program::run<program::op_t_chain_transfer_fifth_b, 6>(random4[0], s7[0], s8[0], s0[4], s8[2], s11[0], s11[5]);
    const auto s14 = program::run<program::op_t_chain_scatter_upper, 8>(random3[1], s13[1], s13[2], s13[3], s13[4], s7[0], s8[0], s0[4], s12[0], s12[1], s12[2], s12[3], -0x1.0000000000000p+0);
    event.store_four(args.body + 37, s14[4], s14[5], s14[6], s14[7]);
    const auto s15 = program::run<program::op_t_chain_transfer_fifth_a, 6>(random5[0], s8[0], s0[5], s0[6], s8[1], s13[0], s13[5]);
    const auto s16 = program::run<program::op_t_chain_scatter_upper, 8>(random4[1], s15[1], s15[2], s15[3], s15[4], s8[0], s0[5], s0[6], s14[0], s14[1], s14[2], s14[3], 0x1.0000000000000p+0);
    event.store_four(args.body + 41, s16[0], s16[1], s16[2], s16[3]);
    event.store_four(args.body + 45, s16[4], s16[5], s16[6], s16[7]);
    const auto s17 = program::run<program::op_max, 1>(s15[5], 0x0.0p+0);
    event.store<double>(args.body + 18, s17[0]);
}
