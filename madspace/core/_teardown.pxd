# Whether driver calls are allowed: the driver was started here, the interpreter is not leaving, no fork came between.
cdef enum State:
    FRESH       # the driver was not started in this process
    STARTING
    READY
    CLOSED      # the interpreter is leaving
    FORKED      # child of a process that had started the driver


cdef int state() noexcept nogil
cdef bint is_closed() noexcept nogil        # anything but READY: what destructors ask before they touch the driver
cdef int refuse(const char* call) except -1 with gil    # raises what fits a state that forbids calls
cdef int watch_fork() except -1             # before the driver starts: STARTING
cdef void give_up() noexcept nogil          # it did not start: FRESH
cdef int open_gate() except -1              # it started: READY, and CLOSED again at exit
