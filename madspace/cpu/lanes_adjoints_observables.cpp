// Adjoints of a section of ops.def, compiled once per instruction set (macro MS_ISA).
#include "madspace/dual_begin.h"
//
#include "phasespace/observables.h"
//
#include "madspace/dual_end.h"

#define MS_OPS_OBSERVABLES
#include "adjoint_definitions.h"
