from libc.stdint cimport int64_t, uint8_t


cdef class HostBlock:
    cdef void* ptr
    cdef readonly size_t nbytes


# 64-byte aligned, uninitialised; nbytes 0 gives ptr NULL.
cdef HostBlock host_block(size_t nbytes)

# A NumPy array over host memory that `owner` keeps alive; strides count elements.
cdef object array_view(object owner, void* data, uint8_t code, uint8_t bits, int ndim, const int64_t* shape,
                       const int64_t* strides, bint readonly)
