from libcpp.vector cimport vector

cdef enum:
    REGION_ALIGNMENT = 256      # what pools give, and enough for tensor maps


cdef class WorkspaceLayout:
    cdef vector[size_t] offsets
    cdef vector[size_t] sizes
    cdef readonly size_t nbytes
    cdef readonly size_t alignment
    # The index of the new region. ValueError, OverflowError.
    cdef Py_ssize_t add(self, size_t nbytes, size_t alignment) except -1
    cdef Py_ssize_t number(self, object index) except -1
    cdef int check_index(self, Py_ssize_t index) except -1
