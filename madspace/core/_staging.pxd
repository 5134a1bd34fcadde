from cuda.bindings.cydriver cimport CUdeviceptr

from madspace.core.stream cimport Stream


# Copies host memory to a device, in the order of the stream, which must not be captured. The source has been read when
# it returns; the host waits for nothing.
cdef int upload(CUdeviceptr dst, const void* src, size_t nbytes, Stream stream) except -1
