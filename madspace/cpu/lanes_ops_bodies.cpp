// Ops of a program, section of ops.def, compiled once per instruction set (macro MS_ISA).
#include "phasespace/rambo.h"
#include "phasespace/three_body.h"

#define MS_OPS_BODIES
#include "op_definitions.h"
