from madspace.capi cimport ms_api


cdef int add_graphs(ms_api* table) noexcept
