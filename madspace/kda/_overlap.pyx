"""Arrays that share memory."""

from libc.stdint cimport int64_t

from madspace.core._operand cimport Operand, Range, meet
from madspace.kda._check cimport FINAL_STATE, INITIAL_STATE, N_ARRAYS, N_INPUTS, NAMES, Call


cdef int refuse_overlaps(Call* call, char* scratch, size_t nbytes) except -1:
    cdef int which, other
    if find_overlap(call, scratch, nbytes, &which, &other):
        name = "workspace" if which < 0 else NAMES[which]
        raise ValueError(f"{name}: expected memory of its own, got memory shared with {NAMES[other]}")
    return 0


cdef bint find_overlap(Call* call, char* scratch, size_t nbytes, int* which, int* other) noexcept nogil:
    cdef Range ranges[N_ARRAYS]
    cdef Range workspace
    cdef int given[N_ARRAYS]        # whose the ranges are
    cdef int i, k, n = 0
    for i in range(N_ARRAYS):
        if call.given[i]:
            ranges[n] = range_of(&call.arrays[i])
            given[n] = i
            n += 1
    if scratch != NULL:
        workspace.low, workspace.high = scratch, scratch + nbytes
        for i in range(n):
            if meet(&ranges[i], &workspace) and touches(&call.arrays[given[i]], &workspace):
                which[0], other[0] = -1, given[i]
                return True
    # Whatever is written is compact, so its range is its memory; what is read may have gaps.
    for i in range(n):
        if given[i] < N_INPUTS:
            continue
        for k in range(i):
            if not meet(&ranges[k], &ranges[i]) or not touches(&call.arrays[given[k]], &ranges[i]):
                continue
            if given[i] == FINAL_STATE and given[k] == INITIAL_STATE and ranges[k].low == ranges[i].low:
                continue        # of one shape and dtype: updated in place
            which[0], other[0] = given[i], given[k]
            return True
    return False


cdef inline Range range_of(Operand* x) noexcept nogil:
    cdef Range result
    cdef int64_t reach, low = 0, high = 1
    cdef int i
    result.low = result.high = NULL
    for i in range(x.ndim):
        if x.shape[i] == 0:
            return result
        reach = (x.shape[i] - 1) * x.strides[i]
        if reach < 0:
            low += reach
        else:
            high += reach
    result.low = x.data + low * (x.bits >> 3)
    result.high = x.data + high * (x.bits >> 3)
    return result


cdef bint touches(Operand* x, Range* other) noexcept nogil:
    """Tell whether an element of x lies in the other range, which has no gaps."""
    cdef int order[8]
    cdef int i, k, n = 0
    # The widest stride first: what is left inside of one of its steps is then the smaller thing.
    for i in range(x.ndim):
        if x.shape[i] == 0:
            return False
        if x.shape[i] > 1 and x.strides[i] != 0:
            k = n
            while k > 0 and absolute(x.strides[order[k - 1]]) < absolute(x.strides[i]):
                order[k] = order[k - 1]
                k -= 1
            order[k] = i
            n += 1
    return any_inside(x, order, n, x.data, other)


cdef bint any_inside(Operand* x, int* order, int n, char* first, Range* other) noexcept nogil:
    cdef int64_t itemsize = x.bits // 8
    cdef int64_t low = 0
    cdef int64_t high = itemsize
    cdef int64_t reach, stride, count, begin, end
    cdef char* start = first
    cdef int i
    if n == 0:
        return first < other.high and first + itemsize > other.low
    for i in range(1, n):
        reach = (x.shape[order[i]] - 1) * x.strides[order[i]] * itemsize
        low += reach if reach < 0 else 0
        high += reach if reach > 0 else 0
    stride = x.strides[order[0]] * itemsize
    count = x.shape[order[0]]
    if stride < 0:
        start += (count - 1) * stride
        stride = -stride
    # Steps whose reach [low, high) meets the other range.
    begin = floor_divided(other.low - start - high, stride) + 1
    end = floor_divided(other.high - start - low - 1, stride) + 1
    begin = begin if begin > 0 else 0
    end = end if end < count else count
    if end - begin > 2 and high - low <= stride:
        return True             # steps do not meet each other: one between two others is inside as a whole
    for i in range(<int>min(end - begin, 64)):
        if any_inside(x, order + 1, n - 1, start + (begin + i) * stride, other):
            return True
    return end - begin > 64     # rather refused than looked at for ever


cdef inline int64_t absolute(int64_t value) noexcept nogil:
    return value if value >= 0 else -value


cdef inline int64_t floor_divided(int64_t a, int64_t b) noexcept nogil:
    return a // b               # as in Python
