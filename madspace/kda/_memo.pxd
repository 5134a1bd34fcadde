from libc.stdint cimport int64_t, uint64_t

from madspace.kda._args cimport Args, HostCall, Plan
from madspace.kda._check cimport N_ARRAYS


# A call that was checked: what it was given, and what came of it.
cdef struct Known:
    uint64_t serials[N_ARRAYS]   # of the tensors; 0 for none
    unsigned int flags           # as the call said them
    float scale, lower_bound
    char* scratch                # of the workspace, NULL without one
    int64_t required             # bytes of workspace
    HostCall host
    Plan plan


# The place of a call among the known ones; NULL where it cannot be known: for anything but Tensors, whose type, shape
# and address never change, and without `out`. arrays: in the order of read_arrays(); args: with the numbers that were
# given, and nothing else.
cdef Known* place_of(tuple arrays) noexcept
# Whether what is at that place is this call.
cdef bint recall(const Known* known, tuple arrays, const Args* args, char* scratch) noexcept
cdef void remember(Known* known, tuple arrays, unsigned int flags, char* scratch, int64_t required,
                   const HostCall* host, const Plan* plan) noexcept
