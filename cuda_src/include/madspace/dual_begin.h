// From here to dual_end.h headers of steps compute with dual numbers, in a namespace of their own. A source file reads
// them either this way or with doubles, never both: each is read once. No standard headers in between.
#include "dual.h"
#include "phasespace/step.h"

#undef MS_BEGIN_NAMESPACE
#undef MS_END_NAMESPACE
#define MS_BEGIN_NAMESPACE MS_BEGIN_DUAL_NAMESPACE
#define MS_END_NAMESPACE MS_END_DUAL_NAMESPACE
#define double Dual
#define CosSin DualCosSin
