from libc.stdint cimport uint64_t


# Lets go of what took part in a capture that has ended, by its id. Returns what was forked off in it and not joined, as
# text for an error message; empty where there is nothing.
cdef str end_forks(uint64_t capture)
