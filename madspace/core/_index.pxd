from libc.stdint cimport int64_t


# What basic indexing makes of a layout: fills in lengths and steps (room for MAX_NDIM each) and the distance of the new
# first element, in elements, and returns the number of dimensions. IndexError, TypeError, ShapeError.
cdef int index_layout(object key, int ndim, const int64_t* shape, const int64_t* strides,
                      int64_t* new_shape, int64_t* new_strides, int64_t* offset) except -1
