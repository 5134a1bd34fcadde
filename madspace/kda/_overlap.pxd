from madspace.kda._check cimport Call


# Whether an array that is written shares memory with another one, but for initial_state as final_state: which (-1: the
# workspace), and with which. scratch and nbytes as below.
cdef bint find_overlap(Call* call, char* scratch, size_t nbytes, int* which, int* other) noexcept nogil

# ValueError where an array that is written shares memory with another one, but for initial_state as final_state. The
# first `nbytes` bytes of the workspace count as written; scratch is NULL without one.
cdef int refuse_overlaps(Call* call, char* scratch, size_t nbytes) except -1
