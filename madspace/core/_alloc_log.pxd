from libc.stdint cimport uint64_t

cdef enum Action:
    ALLOCATE
    FREE
    FAILURE     # an allocation that was refused

# One line in the log; for those who have seen LOG among the watchers. Never raises: a log that cannot be written warns
# once and ends.
cdef void log_event(Action action, int device_id, uint64_t ptr, uint64_t nbytes, uint64_t stream) noexcept
