cdef int load_library() except -1           # makes the driver library the one that cydriver will find; raises
