from madspace.capi cimport ms_api


cdef int add_workspaces(ms_api* table) noexcept
