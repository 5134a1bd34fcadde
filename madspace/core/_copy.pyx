"""Moving bytes: between strided host arrays, and between host and device."""
from cuda.bindings.cydriver cimport CUdeviceptr
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from madspace.core cimport _driver
from madspace.core.stream cimport Stream


cdef void strided_copy(char* dst, const int64_t* dst_strides, const char* src, const int64_t* src_strides,
                       const int64_t* shape, int ndim, size_t itemsize) noexcept nogil:
    cdef int64_t i
    cdef int64_t dst_step
    cdef int64_t src_step
    if ndim == 0:
        memcpy(dst, src, itemsize)
        return
    if ndim == 1 and dst_strides[0] == 1 and src_strides[0] == 1:
        memcpy(dst, src, <size_t>shape[0] * itemsize)
        return
    dst_step = dst_strides[0] * <int64_t>itemsize
    src_step = src_strides[0] * <int64_t>itemsize
    if ndim == 1 and itemsize == 8:     # a size known at compile time makes the copy a load and a store
        for i in range(shape[0]):
            memcpy(dst + i * dst_step, src + i * src_step, 8)
    elif ndim == 1 and itemsize == 4:
        for i in range(shape[0]):
            memcpy(dst + i * dst_step, src + i * src_step, 4)
    else:
        for i in range(shape[0]):
            strided_copy(dst + i * dst_step, dst_strides + 1, src + i * src_step, src_strides + 1,
                         shape + 1, ndim - 1, itemsize)


cdef int upload(CUdeviceptr dst, const void* src, size_t nbytes, Stream stream) except -1:
    cdef int pushed
    stream.check_open()
    pushed = stream.device.push()
    try:
        stream.refuse_in_capture("cuMemcpyHtoDAsync")
        with nogil:
            _driver.memcpy_htod_async(dst, src, nbytes, stream.handle_)
            # The driver may still be reading the source when the call returns: where the device reads pageable memory
            # itself, and always from page-locked memory.
            _driver.stream_synchronize(stream.handle_)
    finally:
        stream.device.pop(pushed)
    return 0


cdef int download(void* dst, CUdeviceptr src, size_t nbytes, Stream stream) except -1:
    cdef int pushed
    stream.check_open()
    pushed = stream.device.push()
    try:
        stream.refuse_in_capture("cuMemcpyDtoHAsync")
        with nogil:
            _driver.memcpy_dtoh_async(dst, src, nbytes, stream.handle_)
            _driver.stream_synchronize(stream.handle_)
    finally:
        stream.device.pop(pushed)
    return 0


cdef int copy_on_device(CUdeviceptr dst, CUdeviceptr src, size_t nbytes, Stream stream) except -1:
    cdef int pushed
    stream.check_open()
    pushed = stream.device.push()
    try:
        with nogil:
            _driver.memcpy_dtod_async(dst, src, nbytes, stream.handle_)
    finally:
        stream.device.pop(pushed)
    return 0


cdef int clear_on_device(CUdeviceptr dst, size_t nbytes, Stream stream) except -1:
    cdef int pushed
    stream.check_open()
    pushed = stream.device.push()
    try:
        with nogil:
            _driver.memset_d8_async(dst, 0, nbytes, stream.handle_)
    finally:
        stream.device.pop(pushed)
    return 0
