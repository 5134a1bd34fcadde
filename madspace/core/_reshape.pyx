"""Reshaping: the same elements in the same memory and order under another shape, on shapes and strides alone."""
from libc.stdint cimport int64_t

from madspace.core._layout cimport compact_strides, element_count
from madspace.core.tensor cimport MAX_NDIM

import operator

from madspace.errors import ShapeError


cdef int reshape_layout(object shape, int ndim, const int64_t* old_shape, const int64_t* old_strides,
                        int64_t* new_shape, int64_t* new_strides) except -1:
    cdef int64_t count = element_count(ndim, old_shape)
    cdef int made = read_lengths(shape, count, new_shape)
    compact_strides(made, new_shape, new_strides)
    if count > 0 and not follow(ndim, old_shape, old_strides, made, new_shape, new_strides):
        old = tuple([old_shape[i] for i in range(ndim)])
        strides = tuple([old_strides[i] for i in range(ndim)])
        raise ShapeError(f"shape: expected one that the same memory can have, got {shape!r} for shape {old} with "
                         f"strides {strides}: take copy() first")
    return made


cdef int read_lengths(object shape, int64_t count, int64_t* lengths) except -1:
    cdef int i
    try:
        values = [operator.index(n) for n in shape] if hasattr(shape, "__len__") else [operator.index(shape)]
    except TypeError:
        raise ShapeError(f"shape: expected an int or a sequence of ints, got {shape!r}") from None
    if len(values) > MAX_NDIM:
        raise ShapeError(f"shape: expected at most {MAX_NDIM} lengths, got {len(values)}")
    if values.count(-1) > 1 or any([value < -1 for value in values]):
        raise ShapeError(f"shape: expected lengths of 0 and more, one of them -1 at most, got {shape!r}")
    product = 1     # in Python: no overflow hides a wrong shape
    for value in values:
        product *= 1 if value == -1 else value
    if -1 in values and product > 0 and count % product == 0:
        values[values.index(-1)] = count // product
    elif -1 in values or product != count:
        raise ShapeError(f"shape: expected one of {count} elements, got {shape!r}")
    for i, value in enumerate(values):
        lengths[i] = value
    return len(values)


cdef bint follow(int ndim, const int64_t* old_shape, const int64_t* old_strides,
                 int ndim_new, const int64_t* new_shape, int64_t* new_strides) noexcept nogil:
    # Walk both shapes from the last dimension. A run of old dimensions whose elements are evenly spaced in row-major
    # order is one long dimension; new dimensions split it. Each run must come out even. Lengths of one do not count.
    cdef int old = ndim - 1
    cdef int new = ndim_new - 1
    cdef int64_t stride
    cdef int64_t run
    while True:
        while old >= 0 and old_shape[old] == 1:
            old -= 1
        if old < 0:
            return True     # only ones are left, on both sides, and theirs may be any stride
        stride = old_strides[old]
        run = old_shape[old]
        old -= 1
        while old >= 0 and (old_shape[old] == 1 or old_strides[old] == stride * run):
            run *= old_shape[old]
            old -= 1
        while new >= 0 and run > 1:
            if run % new_shape[new] != 0:
                return False
            new_strides[new] = stride
            stride *= new_shape[new]
            run //= new_shape[new]
            new -= 1
