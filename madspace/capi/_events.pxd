from madspace.capi cimport ms_api


cdef int add_events(ms_api* table) noexcept
