"""Host memory: aligned blocks of our own, and NumPy arrays over what a tensor holds."""
cimport cython

from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.stdlib cimport free
from libcpp.vector cimport vector
from posix.stdlib cimport posix_memalign

from madspace.core._dtypes cimport CODE_UINT, numpy_dtype, typestr_of
from madspace.core._layout cimport element_count

import numpy as np


cdef extern from "<mutex>" namespace "std" nogil:
    cdef cppclass mutex:
        void lock()
        void unlock()


# Large blocks that came back, for the next call: fresh ones cost a page fault per 4 KiB at their first write, twice
# what a phase-space mapping takes to fill them.
cdef enum:
    KEPT_FROM = 1 << 16          # smaller ones the C library reuses by itself
    KEPT_BYTES = 1 << 28         # at most so many bytes wait
    KEPT_BLOCKS = 64

cdef struct Spare:
    void* ptr
    size_t nbytes

cdef mutex guard
cdef vector[Spare] spares        # oldest first
cdef size_t spare_nbytes = 0


cdef void* take_spare(size_t nbytes) noexcept nogil:
    global spare_nbytes
    cdef void* ptr = NULL
    cdef size_t i
    guard.lock()
    # The latest first: it is the likeliest to be in a cache.
    for i in range(spares.size(), 0, -1):
        if spares[i - 1].nbytes == nbytes:
            ptr = spares[i - 1].ptr
            spares.erase(spares.begin() + (i - 1))
            spare_nbytes -= nbytes
            break
    guard.unlock()
    return ptr


cdef void keep_spare(void* ptr, size_t nbytes) noexcept nogil:
    global spare_nbytes
    cdef Spare spare
    guard.lock()
    spare.ptr = ptr
    spare.nbytes = nbytes
    spares.push_back(spare)
    spare_nbytes += nbytes
    while spare_nbytes > KEPT_BYTES or spares.size() > KEPT_BLOCKS:
        spare_nbytes -= spares[0].nbytes
        free(spares[0].ptr)
        spares.erase(spares.begin())
    guard.unlock()


cdef void drop_spares() noexcept nogil:
    global spare_nbytes
    cdef size_t i
    guard.lock()
    for i in range(spares.size()):
        free(spares[i].ptr)
    spares.clear()
    spare_nbytes = 0
    guard.unlock()


@cython.final
@cython.no_gc
cdef class HostBlock:
    def __dealloc__(self):
        if self.ptr != NULL and KEPT_FROM <= self.nbytes <= KEPT_BYTES:
            keep_spare(self.ptr, self.nbytes)
        else:
            free(self.ptr)


cdef HostBlock host_block(size_t nbytes):
    cdef HostBlock block = HostBlock.__new__(HostBlock)
    if nbytes >= KEPT_FROM:
        block.ptr = take_spare(nbytes)
    # A cache line, and the widest vector register there is.
    if nbytes > 0 and block.ptr == NULL and posix_memalign(&block.ptr, 64, nbytes) != 0:
        drop_spares()
        if posix_memalign(&block.ptr, 64, nbytes) != 0:
            block.ptr = NULL
            raise MemoryError(f"no {nbytes} bytes of host memory left")
    block.nbytes = nbytes
    return block


@cython.final
cdef class _View:
    """What NumPy keeps as the base of a view: the owner, described in NumPy's own protocol."""
    cdef readonly dict __array_interface__
    cdef object owner


cdef object array_view(object owner, void* data, uint8_t code, uint8_t bits, int ndim, const int64_t* shape,
                       const int64_t* strides, bint readonly):
    cdef _View view
    cdef int itemsize = bits // 8
    cdef str typestr = typestr_of(code, bits)
    dtype = numpy_dtype(code, bits)
    lengths = tuple([shape[i] for i in range(ndim)])
    if element_count(ndim, shape) == 0:
        array = np.empty(lengths, dtype)
        array.flags.writeable = not readonly
        return array
    foreign = typestr[1] == "V"
    view = _View.__new__(_View)
    view.owner = owner
    view.__array_interface__ = {
        "shape": lengths,
        "strides": tuple([strides[i] * itemsize for i in range(ndim)]),
        # NumPy has no typestr for these types: they pass as integers of their width and are renamed afterwards.
        "typestr": typestr_of(CODE_UINT, bits) if foreign else typestr,
        "data": (<uintptr_t>data, readonly),
        "version": 3,
    }
    array = np.asarray(view)
    return array.view(dtype) if foreign else array
