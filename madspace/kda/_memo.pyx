"""Calls that were checked before: the same tensors and numbers need no second look."""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp

from madspace.core.tensor cimport Tensor
from madspace.kda._args cimport Args, HostCall, Plan
from madspace.kda._check cimport N_ARRAYS, OUT


cdef enum:
    N_KNOWN = 64                 # a call per layer of a model, say

cdef Known known_calls[N_KNOWN]


cdef Known* place_of(tuple arrays) noexcept:
    cdef int i
    for i in range(N_ARRAYS):
        array = arrays[i]
        if type(array) is not Tensor and (array is not None or i == OUT):
            return NULL
    return &known_calls[(<Tensor>arrays[OUT]).serial_ % N_KNOWN]


cdef inline uint64_t serial_of(object array) noexcept:
    return 0 if array is None else (<Tensor>array).serial_


def n_recalled():
    """Return how many calls were known; for tests."""
    return recalled


cdef unsigned long recalled = 0


cdef bint recall(const Known* known, tuple arrays, const Args* args, char* scratch) noexcept:
    global recalled
    cdef int i
    for i in range(N_ARRAYS):
        if serial_of(arrays[i]) != known.serials[i]:
            return False
    # Bits: -0.0, which equals 0.0, gives results of another sign.
    if (memcmp(&args.scale, &known.scale, sizeof(float)) != 0
            or memcmp(&args.lower_bound, &known.lower_bound, sizeof(float)) != 0 or args.flags != known.flags
            or scratch != known.scratch):
        return False
    recalled += 1
    return True


cdef void remember(Known* known, tuple arrays, unsigned int flags, char* scratch, int64_t required,
                   const HostCall* host, const Plan* plan) noexcept:
    cdef int i
    for i in range(N_ARRAYS):
        known.serials[i] = serial_of(arrays[i])
    known.flags, known.scale, known.lower_bound = flags, host.args.scale, host.args.lower_bound
    known.scratch, known.required = scratch, required
    known.host, known.plan = host[0], plan[0]
