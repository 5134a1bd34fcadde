from madspace.capi cimport ms_api
from madspace.capi._status cimport Object


cdef int add_memory(ms_api* table) noexcept

# As ms_alloc() and ms_free() with looked-up handles; nbytes is not 0, ptr not NULL.
cdef int allocate_on(Object* device, size_t nbytes, Object* stream, void** ptr) noexcept nogil
cdef int free_on(Object* device, void* ptr, Object* stream) noexcept nogil
