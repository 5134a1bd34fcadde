"""Arrays of a batch to and from compact columns in one block of host memory, on several threads."""
from cpython.buffer cimport PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memcpy
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

# Rows of a block's columns, in pieces.
cdef struct Copy:
    const Column* columns
    size_t n_columns
    char* block
    int64_t first                # row of the arrays that is the block's first one
    int64_t n
    int64_t grain                # rows of a piece
    int64_t n_pieces
    bint to_block
    bint past_caches


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
    past_caches : bool
        Whether copies write past the caches: for what nobody reads soon.

    Raises
    ------
    ValueError
        An array has no axis or too many, or will be written and is read-only.
    """

    cdef vector[Column] columns_
    cdef int64_t row_            # bytes of all rows of an event
    cdef bint past_caches_
    cdef list arrays_            # kept alive

    def __cinit__(self, list arrays, list offsets, bint writable, bint past_caches):
        self.arrays_, self.past_caches_ = arrays, past_caches
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

    cdef Copy rows(self, uintptr_t block, int64_t first, int64_t n, bint to_block) except *:
        cdef Copy copy
        cdef size_t i
        for i in range(self.columns_.size()):
            if n < 0 or not 0 <= first <= self.columns_[i].shape[0] - n:
                raise ValueError(f"n: expected rows of {self.columns_[i].shape[0]}, got {n} from {first} on")
        copy.columns, copy.n_columns = self.columns_.data(), self.columns_.size()
        copy.block, copy.first, copy.n = <char*>block, first, n
        copy.grain = max(1, PIECE // max(1, self.row_))
        copy.n_pieces = 0 if self.row_ == 0 else (n + copy.grain - 1) // copy.grain
        copy.to_block, copy.past_caches = to_block, self.past_caches_
        return copy


# Several copies, whose pieces are numbered one after the other.
cdef struct Job:
    const Copy* copies
    size_t n_copies


def copy_rows(list copies):
    """Copy rows of arrays to blocks and back, all of it at once.

    Parameters
    ----------
    copies : list of (Columns, int, int, int, bool)
        The arrays, the address of the block, the row of the arrays that is the block's first one, the number of rows,
        and whether they go to the block. Who calls sees to it that the blocks are large enough, and that nothing else
        uses them meanwhile.

    Raises
    ------
    ValueError
        An array does not have these rows; nothing is copied then.

    Notes
    -----
    Returns when all is copied, without the interpreter's lock meanwhile.
    """
    cdef vector[Copy] known
    cdef Columns columns
    cdef Job job
    cdef int64_t n_pieces = 0
    for columns, block, first, n, to_block in copies:
        known.push_back(columns.rows(block, first, n, to_block))
        n_pieces += known.back().n_pieces
    job.copies, job.n_copies = known.data(), known.size()
    if n_pieces > 0:
        with nogil:
            run_pieces(copy_pieces, &job, n_pieces, 1)


cdef void copy_pieces(const void* args, long long begin, long long end) noexcept nogil:
    cdef const Job* job = <const Job*>args
    cdef const Copy* copy
    cdef int64_t piece, row
    cdef size_t i
    while begin < end:
        piece = begin
        for i in range(job.n_copies):
            copy = &job.copies[i]
            if piece < copy.n_pieces:
                row = piece * copy.grain
                copy_piece(copy, row, min(row + copy.grain, copy.n))
                break
            piece -= copy.n_pieces
        begin += 1


cdef void copy_piece(const Copy* copy, int64_t begin, int64_t end) noexcept nogil:
    cdef const Column* column
    cdef int64_t shape[MAX_NDIM]
    cdef char* there
    cdef char* here
    cdef size_t i
    cdef int k
    for i in range(copy.n_columns):
        column = &copy.columns[i]
        if column.row == 0:
            continue
        there = copy.block + column.offset + begin * column.row
        here = column.data + (copy.first + begin) * column.strides[0] * column.itemsize
        if column.flat:
            copy_bytes(there if copy.to_block else here, here if copy.to_block else there, (end - begin) * column.row,
                       copy.past_caches)
            continue
        shape[0] = end - begin
        for k in range(1, column.ndim):
            shape[k] = column.shape[k]
        if copy.to_block:
            strided_copy(there, column.compact, here, column.strides, shape, column.ndim, column.itemsize)
        else:
            strided_copy(here, column.strides, there, column.compact, shape, column.ndim, column.itemsize)


cdef inline void copy_bytes(char* to, const char* source, size_t n, bint past_caches) noexcept nogil:
    if past_caches:
        stream_copy(to, source, n)
    else:
        memcpy(to, source, n)
