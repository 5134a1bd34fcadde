# Keep an eye on a new object that has `closed`, weakly; for those who have seen LEAKS among the watchers.
cdef int remember(object thing) except -1
