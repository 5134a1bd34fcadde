// Ops of a program, first section of ops.def, compiled once per instruction set (macro MS_ISA).
#include "phasespace/arithmetic.h"

#define MS_OPS_BASIC
#include "op_definitions.h"
