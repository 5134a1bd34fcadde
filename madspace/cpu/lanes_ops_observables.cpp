// Ops of a program, section of ops.def, compiled once per instruction set (macro MS_ISA).
#include "phasespace/observables.h"

#define MS_OPS_OBSERVABLES
#include "op_definitions.h"
