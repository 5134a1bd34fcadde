// Ops of a program, section of ops.def, compiled once per instruction set (macro MS_ISA).
#include "phasespace/chili.h"
#include "phasespace/double_t.h"
#include "phasespace/two_to_three.h"

#define MS_OPS_CHANNELS
#include "op_definitions.h"
