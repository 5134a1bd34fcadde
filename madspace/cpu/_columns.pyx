"""Arrays of a batch to and from compact columns in one block of host memory, on several threads."""
from cpython.buffer cimport PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uintptr_t
from libcpp.vector cimport vector

from madspace.core._copy cimport strided_copy
from madspace.core._layout cimport compact_strides
from madspace.core.tensor cimport MAX_NDIM
from madspace.cpu._lanes cimport run_pieces


cdef extern from "../cpu/stream_copy.h" namespace "madspace" nogil:
    void stream_copy(char* to, const char* source, size_t n)


cdef enum:
    PIECE = 1 << 17              # bytes that a thread takes at a time: some 10 us, many in a chunk for each thread


# An array and its place in the block.
cdef struct Column:
    char* data
    int64_t offset               # in the block, in bytes
    int64_t row                  # bytes of a row
    int64_t itemsize
    bint flat                    # its rows follow each other without gaps
    int ndim
    int64_t shape[MAX_NDIM]
    int64_t strides[MAX_NDIM]    # in elements
    int64_t compact[MAX_NDIM]

cdef struct Job:
    const Column* columns
    size_t n_columns
    char* block
    int64_t first                # row of the arrays that is the block's first one
    bint to_block


cdef class Columns:
    """Arrays with one row per event, and where each has its rows in a block.

    Parameters
    ----------
    arrays : list of numpy.ndarray
        Aligned, of any strides, of native byte order.
    offsets : list of int
        For each the place of its first row in the block, in bytes.
    writable : bool
        Whether the arrays will be written.
    """

    cdef vector[Column] columns_
    cdef int64_t row_            # bytes of all rows of an event
    cdef list arrays_            # kept alive

    def __cinit__(self, list arrays, list offsets, bint writable):
        self.arrays_ = arrays
        for array, offset in zip(arrays, offsets, strict=True):
            self.add(array, offset, writable)

    cdef int add(self, object array, int64_t offset, bint writable) except -1:
        cdef Py_buffer view
        cdef Column column
        cdef int i
        PyObject_GetBuffer(array, &view, PyBUF_STRIDES | (PyBUF_WRITABLE if writable else 0))
        try:
            if not 1 <= view.ndim <= MAX_NDIM:
                raise ValueError(f"arrays: expected 1 to {MAX_NDIM} axes, got {view.ndim}")
            column.data, column.offset, column.ndim, column.itemsize = <char*>view.buf, offset, view.ndim, view.itemsize
            column.row = view.itemsize
            for i in range(view.ndim):
                column.shape[i] = view.shape[i]
                column.strides[i] = view.strides[i] // view.itemsize
                if i > 0:
                    column.row *= view.shape[i]
        finally:
            PyBuffer_Release(&view)
        compact_strides(column.ndim, column.shape, column.compact)
        column.flat = True
        for i in range(column.ndim):
            if column.shape[i] != 1 and column.strides[i] != column.compact[i]:
                column.flat = False
        self.row_ += column.row
        self.columns_.push_back(column)
        return 0

    def pack(self, uintptr_t block, int64_t first, int64_t n):
        """Copy n rows, from `first` on, of each array to a block at this address."""
        self.copy(block, first, n, True)

    def unpack(self, uintptr_t block, int64_t first, int64_t n):
        """Copy n rows of each from a block at this address to the arrays, from row `first` on."""
        self.copy(block, first, n, False)

    cdef int copy(self, uintptr_t block, int64_t first, int64_t n, bint to_block) except -1:
        cdef Job job
        cdef size_t i
        if n <= 0 or self.row_ == 0:
            return 0
        for i in range(self.columns_.size()):
            if not 0 <= first <= self.columns_[i].shape[0] - n:
                raise ValueError(f"n: expected rows of {self.columns_[i].shape[0]}, got {n} from {first} on")
        job.columns, job.n_columns = self.columns_.data(), self.columns_.size()
        job.block, job.first, job.to_block = <char*>block, first, to_block
        with nogil:
            run_pieces(copy_rows, &job, n, max(1, PIECE // self.row_))
        return 0


cdef void copy_rows(const void* args, long long begin, long long end) noexcept nogil:
    cdef const Job* job = <const Job*>args
    cdef const Column* column
    cdef int64_t shape[MAX_NDIM]
    cdef int64_t start
    cdef char* there
    cdef char* here
    cdef size_t i
    cdef int k
    for i in range(job.n_columns):
        column = &job.columns[i]
        if column.row == 0:
            continue
        start = job.first + begin
        there = job.block + column.offset + begin * column.row
        here = column.data + start * column.strides[0] * column.itemsize
        if column.flat:
            if job.to_block:
                stream_copy(there, here, (end - begin) * column.row)
            else:
                stream_copy(here, there, (end - begin) * column.row)
            continue
        shape[0] = end - begin
        for k in range(1, column.ndim):
            shape[k] = column.shape[k]
        if job.to_block:
            strided_copy(there, column.compact, here, column.strides, shape, column.ndim, column.itemsize)
        else:
            strided_copy(here, column.strides, there, column.compact, shape, column.ndim, column.itemsize)
