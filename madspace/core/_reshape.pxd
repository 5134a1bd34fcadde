from libc.stdint cimport int64_t


# What reshaping makes of a layout without moving an element: fills in lengths and strides (room for MAX_NDIM each) and
# returns the number of dimensions. ShapeError where that cannot be, or the number of elements differs.
cdef int reshape_layout(object shape, int ndim, const int64_t* old_shape, const int64_t* old_strides,
                        int64_t* new_shape, int64_t* new_strides) except -1
