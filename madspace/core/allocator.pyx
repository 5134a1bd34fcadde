"""Other libraries' allocators in place of the device's own pool."""
import warnings

cimport cython
from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUdeviceptr, CUstream
from libc.stdint cimport INT64_MAX, UINT64_MAX, int64_t, uintptr_t

from madspace.core cimport _driver as drv
from madspace.core.device cimport Device
from madspace.core.pool cimport MemoryPool, own_pool

from madspace.core.device import as_device
from madspace.errors import MadspaceWarning

cdef enum:
    ALIGNMENT = 256     # what kernels rely on


@cython.final
@cython.no_gc_clear         # buffers of a cycle that is collected still need it
cdef class Allocator:
    cdef CUdeviceptr take(self, size_t nbytes, int device_id, CUstream stream) except 0:
        cdef int64_t size
        cdef CUdeviceptr ptr = 0
        if nbytes > <size_t>INT64_MAX:
            raise drv.error_of(cydriver.CUDA_ERROR_OUT_OF_MEMORY, "allocate", f"asked for {nbytes} bytes")
        size = <int64_t>nbytes
        if self.raw_allocate_ != NULL:
            with nogil:
                ptr = <CUdeviceptr><uintptr_t>self.raw_allocate_(size, device_id, stream)
        else:
            answer = self.allocate_(size, device_id, <uintptr_t>stream)
            if isinstance(answer, bool) or not hasattr(answer, "__index__"):
                raise TypeError(f"allocate: expected it to return an address, an int, got {type(answer).__name__}")
            number = answer.__index__()
            if not 0 <= number <= UINT64_MAX:
                raise ValueError(f"allocate: expected it to return an address, got {number}")
            ptr = number
        if ptr == 0:
            raise drv.error_of(
                cydriver.CUDA_ERROR_OUT_OF_MEMORY, "allocate",
                f"the allocator that set_allocator() installed had no {nbytes} bytes on device {device_id}")
        if ptr % ALIGNMENT:
            self.give_back(ptr, nbytes, device_id, stream)
            raise ValueError(
                f"allocate: expected it to return an address aligned to {ALIGNMENT} bytes, got {<uintptr_t>ptr:#x}")
        return ptr

    cdef int give_back(self, CUdeviceptr ptr, size_t nbytes, int device_id, CUstream stream) noexcept:
        cdef int64_t size = <int64_t>nbytes
        if self.raw_free_ != NULL:
            with nogil:
                self.raw_free_(<void*><uintptr_t>ptr, size, device_id, stream)
            return 0
        try:
            self.free_(<uintptr_t>ptr, size, device_id, <uintptr_t>stream)
        except BaseException as error:      # SystemExit as well, which would end the process from here
            # Where warnings are errors this one leaves as what Python prints of errors that nobody can catch.
            warnings.warn(
                f"free: the allocator that set_allocator() installed raised {type(error).__name__}: {error}; "
                f"{nbytes} bytes on device {device_id} may be lost", MadspaceWarning, stacklevel=2)
        return 0


def set_allocator(device, allocate, free=None):
    """Let another library's allocator serve the buffers and tensors of a device.

    Parameters
    ----------
    device : Device, int or str
        The device.
    allocate : callable, int or None
        ``allocate(nbytes, device_id, stream_handle)`` returns the address of `nbytes` bytes, aligned to 256 bytes, that
        work queued on that stream from now on may use. An int is the address of a C function
        ``void* (ssize_t nbytes, int device_id, CUstream stream)``, as torch's ``CUDAPluggableAllocator`` takes it.
        None brings the own pool back.
    free : callable, int or None
        ``free(ptr, nbytes, device_id, stream_handle)``: later work of the stream may have the memory for something
        else. An int is a C function ``void (void* ptr, ssize_t nbytes, int device_id, CUstream stream)``. Of the same
        kind as `allocate`.

    Raises
    ------
    TypeError
        When the two are not both callables, both ints, or both None.
    ValueError
        For a negative or zero address.
    DriverNotFoundError, DriverError, ForkError
        As from ``Device``.

    Notes
    -----
    It serves what the device's own pool (``Device.pool``) serves otherwise, also to those who allocate from that pool
    directly; pools made with ``MemoryPool`` stay as they are. The pool's `limit` and counts still hold. A buffer goes
    back to whom it came from, whatever is installed by then, on its stream and behind all of its uses. The device's
    context is current in both calls, C functions are called without the GIL. What `allocate` raises comes out of the
    allocation, an address of 0 is an ``OutOfMemoryError``; what `free` raises becomes a ``MadspaceWarning``. Nothing is
    called in captures, in forked children and when the interpreter exits: what is left then stays with its allocator.

    Examples
    --------
    torch's caching allocator::

        from torch.cuda import caching_allocator_alloc, caching_allocator_delete
        madspace.set_allocator(0, caching_allocator_alloc, lambda ptr, *_: caching_allocator_delete(ptr))
    """
    cdef MemoryPool pool
    cdef Allocator allocator = None
    cdef Device where
    if allocate is not None or free is not None:
        allocator = Allocator.__new__(Allocator)
        if callable(allocate) and callable(free):
            allocator.allocate_ = allocate
            allocator.free_ = free
        elif is_address(allocate) and is_address(free):
            allocator.raw_allocate_ = <raw_allocate_fn>address(allocate, "allocate")
            allocator.raw_free_ = <raw_free_fn>address(free, "free")
        else:
            raise TypeError(
                "allocate, free: expected two callables, two addresses of C functions, or None for both, got "
                f"{type(allocate).__name__} and {type(free).__name__}")
    where = as_device(device)
    pool = own_pool(where)
    pool.allocator_ = allocator
    pool.lent_ = allocator is not None


cdef bint is_address(object thing):
    return hasattr(thing, "__index__") and not isinstance(thing, bool)


cdef void* address(object thing, str name) except NULL:
    number = thing.__index__()
    if not 0 < number <= <uintptr_t>-1:
        raise ValueError(f"{name}: expected the address of a C function, got {number}")
    return <void*><uintptr_t>number
