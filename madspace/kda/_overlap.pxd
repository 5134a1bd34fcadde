from madspace.kda._check cimport Call


# ValueError where an array that is written shares memory with another one, but for initial_state as final_state. The
# first `nbytes` bytes of the workspace count as written; scratch is NULL without one.
cdef int refuse_overlaps(Call* call, char* scratch, size_t nbytes) except -1
