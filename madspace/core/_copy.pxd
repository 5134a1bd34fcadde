from cuda.bindings.cydriver cimport CUdeviceptr
from libc.stdint cimport int64_t

from madspace.core.stream cimport Stream


# Host to host, strides in elements, any sign. The two must not overlap.
cdef void strided_copy(char* dst, const int64_t* dst_strides, const char* src, const int64_t* src_strides,
                       const int64_t* shape, int ndim, size_t itemsize) noexcept nogil

# Queued on `stream`, with its device made current meanwhile. download() returns when the data has arrived: it waits for
# the stream, which refuse_captured() has to be asked for before anything is queued.
cdef int refuse_captured(Stream stream, str call) except -1
cdef int download(void* dst, CUdeviceptr src, size_t nbytes, Stream stream) except -1
cdef int copy_on_device(CUdeviceptr dst, CUdeviceptr src, size_t nbytes, Stream stream) except -1
cdef int clear_on_device(CUdeviceptr dst, size_t nbytes, Stream stream) except -1
# count elements of itemsize (1, 2, 4, 8 or 16) bytes, each with the bytes of `pattern`.
cdef int fill_on_device(CUdeviceptr dst, const unsigned char* pattern, size_t itemsize, size_t count,
                        Stream stream) except -1
# From any positive strides, in elements, to row-major without gaps.
cdef int gather_on_device(CUdeviceptr dst, CUdeviceptr src, int ndim, const int64_t* shape, const int64_t* strides,
                          size_t itemsize, Stream stream) except -1
