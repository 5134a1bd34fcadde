"""Parts of device and page-locked memory, for calls that move a batch in chunks."""
from libc.stdint cimport int64_t, uint8_t

from madspace.core._copy cimport refuse_captured as refuse
from madspace.core._dlpack_abi cimport DEVICE_CUDA
from madspace.core._dtypes cimport dtype_codes
from madspace.core.memory cimport Buffer
from madspace.core.pinned cimport PinnedBuffer, copy_part
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport MAX_NDIM, make_tensor

import numpy as np


def refuse_captured(Stream stream not None, str call):
    """Raise CaptureError where the stream is being captured, ClosedError where it is closed."""
    refuse(stream, call)


def upload_part(PinnedBuffer pinned not None, size_t at, Buffer buffer not None, size_t offset, size_t nbytes,
                Stream stream not None):
    """Queue a copy of bytes from page-locked memory to the device; the uses are noted in both."""
    check(pinned, at, buffer, offset, nbytes)
    copy_part(pinned, at, buffer, offset, nbytes, stream, True)


def download_part(PinnedBuffer pinned not None, size_t at, Buffer buffer not None, size_t offset, size_t nbytes,
                  Stream stream not None):
    """Queue a copy of bytes from the device to page-locked memory; the uses are noted in both."""
    check(pinned, at, buffer, offset, nbytes)
    copy_part(pinned, at, buffer, offset, nbytes, stream, False)


cdef int check(PinnedBuffer pinned, size_t at, Buffer buffer, size_t offset, size_t nbytes) except -1:
    pinned.check_open()
    buffer.check_open()
    if at > pinned.nbytes or nbytes > pinned.nbytes - at or offset > buffer.nbytes or nbytes > buffer.nbytes - offset:
        raise ValueError(f"nbytes: expected a part of {pinned.nbytes} and of {buffer.nbytes} bytes, got {nbytes} "
                         f"from {at} and {offset} on")
    return 0


def tensor_part(Buffer buffer not None, size_t offset, tuple shape, dtype):
    """View bytes of a buffer as a row-major tensor."""
    cdef int64_t lengths[MAX_NDIM]
    cdef uint8_t code, bits
    cdef int64_t count = 1
    cdef int i
    dtype_codes(dtype, "dtype", &code, &bits)
    if len(shape) > MAX_NDIM:
        raise ValueError(f"shape: expected at most {MAX_NDIM} lengths, got {shape}")
    for i in range(len(shape)):
        lengths[i] = shape[i]
        count *= lengths[i]
    if count < 0 or offset > buffer.nbytes or <size_t>count * (bits // 8) > buffer.nbytes - offset:
        raise ValueError(f"shape: expected a part of {buffer.nbytes} bytes, got {shape} from {offset} on")
    return make_tensor(buffer, None, <void*>(buffer.ptr_ + offset), DEVICE_CUDA, buffer.pool.device.id, code, bits,
                       len(shape), lengths, NULL, False)


def page_locked_owner(array):
    """Return the PinnedBuffer whose memory an array is a view of; None for an array of other memory."""
    while isinstance(array, (np.ndarray, memoryview)):
        array = array.base if isinstance(array, np.ndarray) else array.obj
    return array if isinstance(array, PinnedBuffer) else None
