// Adjoints of a section of ops.def, compiled once per instruction set (macro MS_ISA).
#include "madspace/dual_begin.h"
//
#include "phasespace/invariants_1d.h"
#include "phasespace/luminosity.h"
#include "phasespace/scattering.h"
#include "phasespace/t_chain.h"
//
#include "madspace/dual_end.h"

#define MS_OPS_KINEMATICS
#include "adjoint_definitions.h"
