// Fused kernels of programs, printed by tools/fuse_programs.py: do not edit.
#include "fused_kernel.h"

using namespace madspace;

extern "C" __global__ void __launch_bounds__(program::kMaxFusedBlock, 3)
    fused_dfa3cf168b8b413c(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 272> args) {
    __shared__ program::Stage stage;
    const program::FusedEvent event(args.head, stage);
    const double in0 = event.load<double>(args.body + 0);
    const double in3 = event.load<double>(args.body + 3);
    const double in6 = event.load<double>(args.body + 6);
    const double in9 = event.load<double>(args.body + 9);
    const double in12 = event.load<double>(args.body + 12);
    const auto s0 = program::run<program::op_com_p_in, 8>(in6);
    event.store_four(args.body + 18, s0[0], s0[1], s0[2], s0[3]);
    event.store_four(args.body + 22, s0[4], s0[5], s0[6], s0[7]);
    const auto s1 = program::run<program::op_t_inv_min_max, 2>(s0[0], s0[1], s0[2], s0[3], s0[4], s0[5], s0[6], s0[7], in9, in12);
    const auto s2 = program::run<program::op_stable_invariant_fifth, 2>(in3, 0x0.0p+0, s1[0], s1[1]);
    const auto s3 = program::run<program::op_two_to_two_particle_scattering_com, 9>(in0, s0[0], s0[1], s0[2], s0[3], s0[4], s0[5], s0[6], s0[7], s2[0], in9, in12);
    event.store_four(args.body + 26, s3[0], s3[1], s3[2], s3[3]);
    event.store_four(args.body + 30, s3[4], s3[5], s3[6], s3[7]);
    const auto s4 = program::run<program::op_mul, 1>(s2[1], s3[8]);
    event.store<double>(args.body + 15, s4[0]);
}

extern "C" __global__ void __launch_bounds__(program::kMaxFusedBlock, 3)
    fused_5a6f528c4ce5938a(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 400> args) {
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
    const auto s0 = program::run<program::op_add, 1>(in21, in24);
    const auto s1 = program::run<program::op_square, 1>(s0[0]);
    const auto s2 = program::run<program::op_sub, 1>(in15, in18);
    const auto s3 = program::run<program::op_square, 1>(s2[0]);
    const auto s4 = program::run<program::op_uniform_invariant, 2>(in0, s1[0], s3[0]);
    const auto s5 = program::run<program::op_sqrt, 1>(s4[0]);
    const auto s6 = program::run<program::op_com_p_in, 8>(in15);
    event.store_four(args.body + 30, s6[0], s6[1], s6[2], s6[3]);
    event.store_four(args.body + 34, s6[4], s6[5], s6[6], s6[7]);
    const auto s7 = program::run<program::op_t_inv_min_max, 2>(s6[0], s6[1], s6[2], s6[3], s6[4], s6[5], s6[6], s6[7], in18, s5[0]);
    const auto s8 = program::run<program::op_stable_invariant_fifth, 2>(in6, 0x0.0p+0, s7[0], s7[1]);
    const auto s9 = program::run<program::op_two_to_two_particle_scattering_com, 9>(in3, s6[0], s6[1], s6[2], s6[3], s6[4], s6[5], s6[6], s6[7], s8[0], in18, s5[0]);
    event.store_four(args.body + 38, s9[0], s9[1], s9[2], s9[3]);
    const auto s10 = program::run<program::op_sub, 1>(s6[0], s9[0]);
    const auto s11 = program::run<program::op_sub, 1>(s6[1], s9[1]);
    const auto s12 = program::run<program::op_sub, 1>(s6[2], s9[2]);
    const auto s13 = program::run<program::op_sub, 1>(s6[3], s9[3]);
    const auto s14 = program::run<program::op_t_inv_min_max, 2>(s10[0], s11[0], s12[0], s13[0], s6[4], s6[5], s6[6], s6[7], in21, in24);
    const auto s15 = program::run<program::op_stable_invariant_fifth, 2>(in12, 0x0.0p+0, s14[0], s14[1]);
    const auto s16 = program::run<program::op_two_to_two_particle_scattering, 9>(in9, s10[0], s11[0], s12[0], s13[0], s6[4], s6[5], s6[6], s6[7], s15[0], in21, in24);
    event.store_four(args.body + 42, s16[0], s16[1], s16[2], s16[3]);
    event.store_four(args.body + 46, s16[4], s16[5], s16[6], s16[7]);
    const auto s17 = program::run<program::op_reduce_product, 1>(s4[1], s8[1], s9[8], s15[1], s16[8]);
    event.store<double>(args.body + 27, s17[0]);
}

extern "C" __global__ void __launch_bounds__(program::kMaxFusedBlock, 2)
    fused_4209b9239033210f(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 528> args) {
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
    const auto s0 = program::run<program::op_add, 1>(in30, in33);
    const auto s1 = program::run<program::op_add, 1>(s0[0], in36);
    const auto s2 = program::run<program::op_square, 1>(s1[0]);
    const auto s3 = program::run<program::op_sub, 1>(in24, in27);
    const auto s4 = program::run<program::op_square, 1>(s3[0]);
    const auto s5 = program::run<program::op_uniform_invariant, 2>(in0, s2[0], s4[0]);
    const auto s6 = program::run<program::op_sqrt, 1>(s5[0]);
    const auto s7 = program::run<program::op_add, 1>(in33, in36);
    const auto s8 = program::run<program::op_square, 1>(s7[0]);
    const auto s9 = program::run<program::op_sub, 1>(s6[0], in30);
    const auto s10 = program::run<program::op_square, 1>(s9[0]);
    const auto s11 = program::run<program::op_uniform_invariant, 2>(in3, s8[0], s10[0]);
    const auto s12 = program::run<program::op_sqrt, 1>(s11[0]);
    const auto s13 = program::run<program::op_com_p_in, 8>(in24);
    event.store_four(args.body + 42, s13[0], s13[1], s13[2], s13[3]);
    event.store_four(args.body + 46, s13[4], s13[5], s13[6], s13[7]);
    const auto s14 = program::run<program::op_t_inv_min_max, 2>(s13[0], s13[1], s13[2], s13[3], s13[4], s13[5], s13[6], s13[7], in27, s6[0]);
    const auto s15 = program::run<program::op_stable_invariant_fifth, 2>(in9, 0x0.0p+0, s14[0], s14[1]);
    const auto s16 = program::run<program::op_two_to_two_particle_scattering_com, 9>(in6, s13[0], s13[1], s13[2], s13[3], s13[4], s13[5], s13[6], s13[7], s15[0], in27, s6[0]);
    event.store_four(args.body + 50, s16[0], s16[1], s16[2], s16[3]);
    const auto s17 = program::run<program::op_sub, 1>(s13[0], s16[0]);
    const auto s18 = program::run<program::op_sub, 1>(s13[1], s16[1]);
    const auto s19 = program::run<program::op_sub, 1>(s13[2], s16[2]);
    const auto s20 = program::run<program::op_sub, 1>(s13[3], s16[3]);
    const auto s21 = program::run<program::op_t_inv_min_max, 2>(s17[0], s18[0], s19[0], s20[0], s13[4], s13[5], s13[6], s13[7], in30, s12[0]);
    const auto s22 = program::run<program::op_stable_invariant_fifth, 2>(in15, 0x0.0p+0, s21[0], s21[1]);
    const auto s23 = program::run<program::op_two_to_two_particle_scattering, 9>(in12, s17[0], s18[0], s19[0], s20[0], s13[4], s13[5], s13[6], s13[7], s22[0], in30, s12[0]);
    event.store_four(args.body + 54, s23[0], s23[1], s23[2], s23[3]);
    const auto s24 = program::run<program::op_sub, 1>(s17[0], s23[0]);
    const auto s25 = program::run<program::op_sub, 1>(s18[0], s23[1]);
    const auto s26 = program::run<program::op_sub, 1>(s19[0], s23[2]);
    const auto s27 = program::run<program::op_sub, 1>(s20[0], s23[3]);
    const auto s28 = program::run<program::op_t_inv_min_max, 2>(s24[0], s25[0], s26[0], s27[0], s13[4], s13[5], s13[6], s13[7], in33, in36);
    const auto s29 = program::run<program::op_stable_invariant_fifth, 2>(in21, 0x0.0p+0, s28[0], s28[1]);
    const auto s30 = program::run<program::op_two_to_two_particle_scattering, 9>(in18, s24[0], s25[0], s26[0], s27[0], s13[4], s13[5], s13[6], s13[7], s29[0], in33, in36);
    event.store_four(args.body + 58, s30[0], s30[1], s30[2], s30[3]);
    event.store_four(args.body + 62, s30[4], s30[5], s30[6], s30[7]);
    const auto s31 = program::run<program::op_reduce_product, 1>(s5[1], s11[1], s15[1], s16[8], s22[1], s23[8], s29[1], s30[8]);
    event.store<double>(args.body + 39, s31[0]);
}

extern "C" __global__ void __launch_bounds__(program::kMaxFusedBlock, 2)
    fused_158691707830b437(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + 656> args) {
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
    const auto s0 = program::run<program::op_reduce_sum, 1>(in39, in42, in45, in48);
    const auto s1 = program::run<program::op_square, 1>(s0[0]);
    const auto s2 = program::run<program::op_sub, 1>(in33, in36);
    const auto s3 = program::run<program::op_square, 1>(s2[0]);
    const auto s4 = program::run<program::op_uniform_invariant, 2>(in0, s1[0], s3[0]);
    const auto s5 = program::run<program::op_sqrt, 1>(s4[0]);
    const auto s6 = program::run<program::op_add, 1>(in42, in45);
    const auto s7 = program::run<program::op_add, 1>(s6[0], in48);
    const auto s8 = program::run<program::op_square, 1>(s7[0]);
    const auto s9 = program::run<program::op_sub, 1>(s5[0], in39);
    const auto s10 = program::run<program::op_square, 1>(s9[0]);
    const auto s11 = program::run<program::op_uniform_invariant, 2>(in3, s8[0], s10[0]);
    const auto s12 = program::run<program::op_sqrt, 1>(s11[0]);
    const auto s13 = program::run<program::op_add, 1>(in45, in48);
    const auto s14 = program::run<program::op_square, 1>(s13[0]);
    const auto s15 = program::run<program::op_sub, 1>(s12[0], in42);
    const auto s16 = program::run<program::op_square, 1>(s15[0]);
    const auto s17 = program::run<program::op_uniform_invariant, 2>(in6, s14[0], s16[0]);
    const auto s18 = program::run<program::op_sqrt, 1>(s17[0]);
    const auto s19 = program::run<program::op_com_p_in, 8>(in33);
    event.store_four(args.body + 54, s19[0], s19[1], s19[2], s19[3]);
    event.store_four(args.body + 58, s19[4], s19[5], s19[6], s19[7]);
    const auto s20 = program::run<program::op_t_inv_min_max, 2>(s19[0], s19[1], s19[2], s19[3], s19[4], s19[5], s19[6], s19[7], in36, s5[0]);
    const auto s21 = program::run<program::op_stable_invariant_fifth, 2>(in12, 0x0.0p+0, s20[0], s20[1]);
    const auto s22 = program::run<program::op_two_to_two_particle_scattering_com, 9>(in9, s19[0], s19[1], s19[2], s19[3], s19[4], s19[5], s19[6], s19[7], s21[0], in36, s5[0]);
    event.store_four(args.body + 62, s22[0], s22[1], s22[2], s22[3]);
    const auto s23 = program::run<program::op_sub, 1>(s19[0], s22[0]);
    const auto s24 = program::run<program::op_sub, 1>(s19[1], s22[1]);
    const auto s25 = program::run<program::op_sub, 1>(s19[2], s22[2]);
    const auto s26 = program::run<program::op_sub, 1>(s19[3], s22[3]);
    const auto s27 = program::run<program::op_t_inv_min_max, 2>(s23[0], s24[0], s25[0], s26[0], s19[4], s19[5], s19[6], s19[7], in39, s12[0]);
    const auto s28 = program::run<program::op_stable_invariant_fifth, 2>(in18, 0x0.0p+0, s27[0], s27[1]);
    const auto s29 = program::run<program::op_two_to_two_particle_scattering, 9>(in15, s23[0], s24[0], s25[0], s26[0], s19[4], s19[5], s19[6], s19[7], s28[0], in39, s12[0]);
    event.store_four(args.body + 66, s29[0], s29[1], s29[2], s29[3]);
    const auto s30 = program::run<program::op_sub, 1>(s23[0], s29[0]);
    const auto s31 = program::run<program::op_sub, 1>(s24[0], s29[1]);
    const auto s32 = program::run<program::op_sub, 1>(s25[0], s29[2]);
    const auto s33 = program::run<program::op_sub, 1>(s26[0], s29[3]);
    const auto s34 = program::run<program::op_t_inv_min_max, 2>(s30[0], s31[0], s32[0], s33[0], s19[4], s19[5], s19[6], s19[7], in42, s18[0]);
    const auto s35 = program::run<program::op_stable_invariant_fifth, 2>(in24, 0x0.0p+0, s34[0], s34[1]);
    const auto s36 = program::run<program::op_two_to_two_particle_scattering, 9>(in21, s30[0], s31[0], s32[0], s33[0], s19[4], s19[5], s19[6], s19[7], s35[0], in42, s18[0]);
    event.store_four(args.body + 70, s36[0], s36[1], s36[2], s36[3]);
    const auto s37 = program::run<program::op_sub, 1>(s30[0], s36[0]);
    const auto s38 = program::run<program::op_sub, 1>(s31[0], s36[1]);
    const auto s39 = program::run<program::op_sub, 1>(s32[0], s36[2]);
    const auto s40 = program::run<program::op_sub, 1>(s33[0], s36[3]);
    const auto s41 = program::run<program::op_t_inv_min_max, 2>(s37[0], s38[0], s39[0], s40[0], s19[4], s19[5], s19[6], s19[7], in45, in48);
    const auto s42 = program::run<program::op_stable_invariant_fifth, 2>(in30, 0x0.0p+0, s41[0], s41[1]);
    const auto s43 = program::run<program::op_two_to_two_particle_scattering, 9>(in27, s37[0], s38[0], s39[0], s40[0], s19[4], s19[5], s19[6], s19[7], s42[0], in45, in48);
    event.store_four(args.body + 74, s43[0], s43[1], s43[2], s43[3]);
    event.store_four(args.body + 78, s43[4], s43[5], s43[6], s43[7]);
    const auto s44 = program::run<program::op_reduce_product, 1>(s4[1], s11[1], s17[1], s21[1], s22[8], s28[1], s29[8], s35[1], s36[8], s42[1], s43[8]);
    event.store<double>(args.body + 51, s44[0]);
}
