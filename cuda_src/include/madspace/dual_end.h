// Back to doubles; see dual_begin.h.
#undef double
#undef CosSin
#undef MS_BEGIN_NAMESPACE
#undef MS_END_NAMESPACE
#if defined(MS_ISA)
#define MS_BEGIN_NAMESPACE \
    namespace madspace {   \
    inline namespace MS_ISA {
#define MS_END_NAMESPACE \
    }                    \
    }
#else
#define MS_BEGIN_NAMESPACE namespace madspace {
#define MS_END_NAMESPACE }
#endif
