// Adjoints of a section of ops.def, compiled once per instruction set (macro MS_ISA).
#include "madspace/dual_begin.h"
//
#include "phasespace/chili.h"
#include "phasespace/double_t.h"
#include "phasespace/two_to_three.h"
//
#include "madspace/dual_end.h"

#define MS_OPS_CHANNELS
#include "adjoint_definitions.h"
