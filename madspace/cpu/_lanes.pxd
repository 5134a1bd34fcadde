from libc.stdint cimport int64_t

ctypedef void (*HostRun)(const void* args, long long begin, long long end) noexcept nogil


cdef class HostFunction:
    cdef HostRun run_
    cdef readonly str name
    cdef readonly str isa


cdef HostFunction host_function(str name)

# Runs the kernel over events [0, n) on the thread pool; the GIL must not be held.
cdef void run_events(HostRun run, const void* args, int64_t n) noexcept nogil

# The same over pieces of work of another size: `grain` of them are handed out at a time.
cdef void run_pieces(HostRun run, const void* args, int64_t n, int64_t grain) noexcept nogil

# How many threads work on one call.
cdef int n_threads() noexcept nogil
