"""Which observers of allocations are on."""
from libcpp.atomic cimport atomic

cdef atomic[int] on_


cdef int watchers() noexcept nogil:
    return on_.load()


cdef void watch(int watcher, bint on) noexcept nogil:
    if on:
        on_.fetch_or(watcher)
    else:
        on_.fetch_and(~watcher)
