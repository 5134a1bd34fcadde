// Ops of a program, section of ops.def, compiled once per instruction set (macro MS_ISA).
#include "phasespace/decays.h"
#include "phasespace/invariants_1d.h"
#include "phasespace/luminosity.h"
#include "phasespace/scattering.h"
#include "phasespace/t_chain.h"

#define MS_OPS_KINEMATICS
#include "op_definitions.h"
