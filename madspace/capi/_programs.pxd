from madspace.capi cimport ms_api


cdef int add_programs(ms_api* table) noexcept
