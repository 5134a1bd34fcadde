from libc.stdint cimport uint64_t


# What was forked off in a capture, by its id, and not joined: text for an error message, empty where there is nothing.
cdef str unjoined_in(uint64_t capture)
