from libc.stdint cimport int64_t

from madspace.core._operand cimport Intake, Operand
from madspace.kda._args cimport HostCall


# The arrays of a call, in the order of fwd's errors; those that are written come last.
cdef enum:
    Q, K, V, G, BETA, A_LOG, DT_BIAS, INITIAL_STATE, CU_SEQLENS, STATE_SLOTS, SNAPSHOT_TOKENS, SNAPSHOT_OFFSETS
    OUT, FINAL_STATE, SNAPSHOTS
    N_ARRAYS
    N_INPUTS = OUT


cdef struct Call:
    Operand arrays[N_ARRAYS]
    bint given[N_ARRAYS]
    HostCall host                # addresses on whatever device the arrays are on
    int64_t total                # tokens of all sequences


cdef tuple NAMES                 # of the arrays

# Takes the arrays in (None: not given), checks each by itself and against the others, and fills in call.host.args but
# for `out`, where that was not given, and what is not an array. call is zero before.
cdef int read_arrays(Call* call, Intake intake, tuple arrays, bint activated) except -1
