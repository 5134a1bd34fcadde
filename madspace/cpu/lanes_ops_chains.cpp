// Ops of a program, section of ops.def, compiled once per instruction set (macro MS_ISA).
#include "phasespace/t_chain_inverse.h"

#define MS_OPS_CHAINS
#include "op_definitions.h"
