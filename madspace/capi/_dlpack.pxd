from madspace.capi cimport ms_api


cdef int add_dlpack(ms_api* table) noexcept
