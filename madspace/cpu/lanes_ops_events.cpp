// Ops of a program, section of ops.def, compiled once per instruction set (macro MS_ISA).
#include "phasespace/cuts.h"
#include "phasespace/indexing.h"

#define MS_OPS_EVENTS
#define MS_OPS_CHOICES
#include "op_definitions.h"
