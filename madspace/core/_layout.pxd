# Arithmetic of shapes and strides; strides count elements.
from libc.stdint cimport int64_t

cdef extern from *:
    """
    // GCC's and Clang's: true where the product does not fit.
    static inline int ms_product_overflows(int64_t a, int64_t b, int64_t* product) {
        return __builtin_mul_overflow(a, b, product);
    }
    """
    bint product_overflows "ms_product_overflows"(int64_t a, int64_t b, int64_t* product) noexcept nogil


cdef inline int64_t element_count(int ndim, const int64_t* shape) noexcept nogil:
    cdef int64_t count = 1
    cdef int i
    for i in range(ndim):
        count *= shape[i]
    return count


cdef inline void compact_strides(int ndim, const int64_t* shape, int64_t* strides) noexcept nogil:
    cdef int64_t stride = 1
    cdef int i
    for i in range(ndim - 1, -1, -1):
        strides[i] = stride
        stride *= shape[i] if shape[i] > 0 else 1


# Row-major without gaps. A dimension of length 1 may have any stride.
cdef inline bint is_compact(int ndim, const int64_t* shape, const int64_t* strides) noexcept nogil:
    cdef int64_t expected = 1
    cdef int i
    for i in range(ndim - 1, -1, -1):
        if shape[i] != 1:
            if strides[i] != expected:
                return element_count(ndim, shape) == 0
            expected *= shape[i]
    return True


# What the elements reach over, in elements: from `low` (<= 0) before the first one, the returned number of them.
cdef inline int64_t element_span(int ndim, const int64_t* shape, const int64_t* strides, int64_t* low) noexcept nogil:
    cdef int64_t first = 0
    cdef int64_t last = 0
    cdef int64_t reach
    cdef int i
    low[0] = 0
    for i in range(ndim):
        if shape[i] == 0:
            return 0
        reach = (shape[i] - 1) * strides[i]
        if reach < 0:
            first += reach
        else:
            last += reach
    low[0] = first
    return last - first + 1
