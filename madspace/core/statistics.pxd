from libc.stdint cimport uint64_t

# Told to all active scopes; for those who have seen STATISTICS among the watchers.
cdef void count_allocation(uint64_t nbytes) noexcept nogil
cdef void count_free(uint64_t nbytes) noexcept nogil
