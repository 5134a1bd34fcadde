# Who watches allocations. Everybody who allocates tests one flag; what it costs beyond that, only those pay who watch.
cdef enum Watcher:
    STATISTICS = 1      # a statistics() scope is active
    LOG = 2             # MADSPACE_ALLOC_LOG
    LEAKS = 4           # MADSPACE_LEAK_CHECK


cdef int watchers() noexcept nogil          # the Watchers that are on, 0 for none
cdef void watch(int watcher, bint on) noexcept nogil
