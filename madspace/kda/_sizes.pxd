from libc.stdint cimport int64_t, uint64_t


# Bytes of workspace that a call with these sizes needs, the same for all D; 0 where 64 bits do not hold its sizes.
cdef uint64_t workspace_bytes(int64_t total, int64_t heads, int64_t n_sequences) noexcept nogil

# Bytes of workspace that a call must be given, if it is given one; ShapeError where 64 bits do not hold its sizes. The
# same for all D, so that one workspace serves them all.
cdef uint64_t required_workspace(int64_t total, int64_t heads, int64_t n_sequences) except 0

# Whether the bytes of n states of so many heads are a number of 62 bits.
cdef bint states_fit(int64_t n, int64_t heads) noexcept nogil

# Whether n rows that far apart, in elements, lie within 62 bits.
cdef bint steps_fit(int64_t n, int64_t step) noexcept nogil
