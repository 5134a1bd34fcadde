// Adjoints of a section of ops.def, compiled once per instruction set (macro MS_ISA).
#include "madspace/dual_begin.h"
//
#include "phasespace/cuts.h"
#include "phasespace/indexing.h"
//
#include "madspace/dual_end.h"

#define MS_OPS_EVENTS
#include "adjoint_definitions.h"
