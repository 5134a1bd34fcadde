from madspace.capi cimport ms_api


cdef int add_kernels(ms_api* table) noexcept
