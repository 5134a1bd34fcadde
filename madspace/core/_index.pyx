"""Basic indexing: ints, slices, an ellipsis and new axes, on shapes and strides alone."""
from libc.stdint cimport int64_t

from madspace.core.tensor cimport MAX_NDIM

import operator

from madspace.errors import ShapeError


cdef int index_layout(object key, int ndim, const int64_t* shape, const int64_t* strides,
                      int64_t* new_shape, int64_t* new_strides, int64_t* offset) except -1:
    cdef int axis = 0
    cdef int made = 0
    cdef int64_t first
    cdef tuple entries = full_key(key, ndim)
    offset[0] = 0
    for entry in entries:
        if not isinstance(entry, slice) and entry is not None:
            offset[0] += checked_index(entry, axis, shape[axis]) * strides[axis]
            axis += 1
            continue
        if made == MAX_NDIM:
            raise ShapeError(f"index: expected a result of at most {MAX_NDIM} dimensions, got more from {key!r}")
        if entry is None:
            new_shape[made], new_strides[made] = 1, 0
        else:
            start, stop, step = entry.indices(shape[axis])
            first = start
            new_shape[made] = len(range(start, stop, step))
            new_strides[made] = strides[axis] * step
            if new_shape[made] > 0:
                offset[0] += first * strides[axis]
            axis += 1
        made += 1
    return made


cdef tuple full_key(object key, int ndim):
    """One entry for each dimension, the ellipsis and what is left out spelled as whole slices."""
    cdef tuple entries = key if isinstance(key, tuple) else (key,)
    n_ellipses = sum([1 for entry in entries if entry is Ellipsis])
    n_used = sum([1 for entry in entries if entry is not None and entry is not Ellipsis])
    if n_ellipses > 1:
        raise IndexError(f"index: expected one ellipsis at most, got {n_ellipses}")
    if n_used > ndim:
        raise IndexError(f"index: expected at most {ndim} entries for {ndim} dimensions, got {n_used}")
    rest = (slice(None),) * (ndim - n_used)
    if n_ellipses == 0:
        return entries + rest
    where = [entry is Ellipsis for entry in entries].index(True)
    return entries[:where] + rest + entries[where + 1:]


cdef int64_t checked_index(object entry, int axis, int64_t length) except? -1:
    if isinstance(entry, bool) or not hasattr(entry, "__index__") or getattr(entry, "ndim", 0) != 0:
        raise TypeError(f"index: expected ints, slices, an ellipsis and None, got {type(entry).__name__}; "
                        "index numpy() for anything else")
    index = operator.index(entry)
    if not -length <= index < length:
        raise IndexError(f"index: expected {-length} to {length - 1} in dimension {axis}, got {index}")
    return index if index >= 0 else index + length
