"""Moving bytes: between strided host arrays, between host and device, and on a device."""
from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUDA_MEMCPY2D, CUdeviceptr, CUstream
from libc.stdint cimport int64_t, uint16_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from madspace.core cimport _driver
from madspace.core._layout cimport compact_strides
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport MAX_NDIM

cdef enum:
    # Elements that a fill writes word by word before it doubles them: strided words are slow, copies are many calls.
    SEED = 4096
    MAX_PITCH = 0x7FFFFFFF          # of a two-dimensional copy, in bytes, on every device


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


cdef int refuse_captured(Stream stream, str call) except -1:
    cdef int pushed
    stream.check_open()
    pushed = stream.device.push()
    try:
        stream.refuse_in_capture(call)
    finally:
        stream.device.pop(pushed)
    return 0


cdef int download(void* dst, CUdeviceptr src, size_t nbytes, Stream stream) except -1:
    cdef int pushed
    stream.check_open()
    pushed = stream.device.push()
    try:
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


cdef int fill_on_device(CUdeviceptr dst, const unsigned char* pattern, size_t itemsize, size_t count,
                        Stream stream) except -1:
    cdef size_t unit = period(pattern, itemsize)
    cdef size_t n = count * itemsize // unit
    cdef uint16_t half
    cdef uint32_t word
    cdef int pushed
    stream.check_open()
    pushed = stream.device.push()
    try:
        with nogil:
            if unit == 1:
                _driver.memset_d8_async(dst, pattern[0], n, stream.handle_)
            elif unit == 2:
                memcpy(&half, pattern, 2)
                _driver.memset_d16_async(dst, half, n, stream.handle_)
            elif unit == 4:
                memcpy(&word, pattern, 4)
                _driver.memset_d32_async(dst, word, n, stream.handle_)
            else:
                fill_by_words(dst, pattern, unit, n, stream.handle_)
    finally:
        stream.device.pop(pushed)
    return 0


cdef size_t period(const unsigned char* pattern, size_t itemsize) noexcept nogil:
    """Length of the shortest piece that the pattern repeats."""
    cdef size_t unit = 1
    while unit < itemsize and memcmp(pattern, pattern + unit, itemsize - unit) != 0:
        unit *= 2
    return unit


cdef int fill_by_words(CUdeviceptr dst, const unsigned char* pattern, size_t itemsize, size_t count,
                       CUstream stream) except -1 nogil:
    # The driver sets four bytes at most: each word of the elements in turn, then copies of what is there.
    cdef size_t done = min(count, <size_t>SEED)
    cdef size_t step, at
    cdef uint32_t word
    for at in range(0, itemsize, 4):
        memcpy(&word, pattern + at, 4)
        _driver.memset_d2d32_async(dst + at, itemsize, word, 1, done, stream)
    while done < count:
        step = min(done, count - done)
        _driver.memcpy_dtod_async(dst + done * itemsize, dst, step * itemsize, stream)
        done += step
    return 0


# One loop of a copy, strides in bytes.
cdef struct Loop:
    int64_t length
    int64_t from_stride
    int64_t to_stride


cdef int gather_on_device(CUdeviceptr dst, CUdeviceptr src, int ndim, const int64_t* shape, const int64_t* strides,
                          size_t itemsize, Stream stream) except -1:
    cdef Loop loops[MAX_NDIM]
    cdef int64_t width = itemsize
    cdef int rows
    cdef int n = plan(ndim, shape, strides, itemsize, loops)
    cdef int pushed
    stream.check_open()
    if n > 0 and loops[n - 1].from_stride == width and all_at_least(loops, n - 1, loops[n - 1].length * width):
        width *= loops[n - 1].length
        n -= 1
    rows = longest(loops, n, width)
    if rows >= 0:       # the last one is what the driver loops over
        loops[rows], loops[n - 1] = loops[n - 1], loops[rows]
    pushed = stream.device.push()
    try:
        with nogil:
            copy_loops(dst, src, loops, n, rows >= 0, width, stream.handle_)
    finally:
        stream.device.pop(pushed)
    return 0


cdef int plan(int ndim, const int64_t* shape, const int64_t* strides, int64_t itemsize, Loop* loops) noexcept nogil:
    """Write the dimensions as loops, those that follow each other evenly as one, and return their number."""
    cdef int64_t compact[MAX_NDIM]
    cdef int i
    cdef int n = 0
    compact_strides(ndim, shape, compact)
    for i in range(ndim):
        if shape[i] == 1:
            continue
        if n > 0 and loops[n - 1].from_stride == shape[i] * strides[i] * itemsize:
            loops[n - 1].length *= shape[i]
        else:
            loops[n].length = shape[i]
            n += 1
        loops[n - 1].from_stride = strides[i] * itemsize
        loops[n - 1].to_stride = compact[i] * itemsize
    return n


cdef bint all_at_least(const Loop* loops, int n, int64_t width) noexcept nogil:
    cdef int i
    for i in range(n):
        if loops[i].from_stride < width:
            return False
    return True


cdef int longest(const Loop* loops, int n, int64_t width) noexcept nogil:
    """Return the longest loop that one two-dimensional copy can do; -1 where none can be done."""
    cdef int best = -1
    cdef int i
    for i in range(n):
        if (width <= loops[i].from_stride <= MAX_PITCH and loops[i].to_stride <= MAX_PITCH
                and (best < 0 or loops[i].length > loops[best].length)):
            best = i
    return best


cdef int copy_loops(CUdeviceptr dst, CUdeviceptr src, const Loop* loops, int n, bint two_dimensional, size_t width,
                    CUstream stream) except -1 nogil:
    cdef CUDA_MEMCPY2D rows
    cdef int64_t i
    if n == 0:
        return _driver.memcpy_dtod_async(dst, src, width, stream)
    if n == 1 and two_dimensional:
        memset(&rows, 0, sizeof(rows))
        rows.srcMemoryType = cydriver.CU_MEMORYTYPE_DEVICE
        rows.srcDevice = src
        rows.srcPitch = loops[0].from_stride
        rows.dstMemoryType = cydriver.CU_MEMORYTYPE_DEVICE
        rows.dstDevice = dst
        rows.dstPitch = loops[0].to_stride
        rows.WidthInBytes = width
        rows.Height = loops[0].length
        return _driver.memcpy_2d_async(&rows, stream)
    for i in range(loops[0].length):
        copy_loops(dst + i * loops[0].to_stride, src + i * loops[0].from_stride, loops + 1, n - 1, two_dimensional,
                   width, stream)
    return 0
