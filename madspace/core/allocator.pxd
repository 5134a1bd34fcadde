from cuda.bindings.cydriver cimport CUdeviceptr, CUstream
from libc.stdint cimport int64_t

# As torch's CUDAPluggableAllocator takes them: void* (ssize_t size, int device, cudaStream_t stream), and the free with
# the pointer first.
ctypedef void* (*raw_allocate_fn)(int64_t nbytes, int device_id, CUstream stream) noexcept nogil
ctypedef void (*raw_free_fn)(void* ptr, int64_t nbytes, int device_id, CUstream stream) noexcept nogil


# Somebody else's allocation, installed by set_allocator(). Both with the device's context current and the GIL held.
cdef class Allocator:
    cdef object allocate_            # callables, or None where there are C functions
    cdef object free_
    cdef raw_allocate_fn raw_allocate_
    cdef raw_free_fn raw_free_
    cdef CUdeviceptr take(self, size_t nbytes, int device_id, CUstream stream) except 0
    cdef int give_back(self, CUdeviceptr ptr, size_t nbytes, int device_id, CUstream stream) noexcept
