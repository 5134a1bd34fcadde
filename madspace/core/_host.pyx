"""Host memory: aligned blocks of our own, and NumPy arrays over what a tensor holds."""
cimport cython

from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.stdlib cimport free
from posix.stdlib cimport posix_memalign

from madspace.core._dtypes cimport CODE_UINT, numpy_dtype, typestr_of
from madspace.core._layout cimport element_count

import numpy as np


@cython.final
@cython.no_gc
cdef class HostBlock:
    def __dealloc__(self):
        free(self.ptr)


cdef HostBlock host_block(size_t nbytes):
    cdef HostBlock block = HostBlock.__new__(HostBlock)
    # A cache line, and the widest vector register there is.
    if nbytes > 0 and posix_memalign(&block.ptr, 64, nbytes) != 0:
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
