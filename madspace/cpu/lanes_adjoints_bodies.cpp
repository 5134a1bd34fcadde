// Adjoints of a section of ops.def, compiled once per instruction set (macro MS_ISA).
#include "madspace/dual_begin.h"
//
#include "phasespace/rambo.h"
#include "phasespace/three_body.h"
//
#include "madspace/dual_end.h"

#define MS_OPS_BODIES
#include "adjoint_definitions.h"
