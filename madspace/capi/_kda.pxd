from madspace.capi cimport ms_api


cdef int add_kda(ms_api* table) noexcept
