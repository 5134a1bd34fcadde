from madspace.capi cimport ms_api, ms_device, ms_stream
from madspace.capi._status cimport Object
from madspace.core.stream cimport Stream


cdef int add_streams(ms_api* table) noexcept

cdef Object* find_stream(ms_stream stream, const char* name) noexcept nogil
# The device of a function that makes something on a CUDA device, and hands it out through `out`.
cdef Object* find_gpu(ms_device device, void* out, const char* name) noexcept nogil
# With the GIL held. None for NULL.
cdef Stream stream_object(Object* stream)
# A new handle, which keeps the driver's stream valid even where Python closes the Stream.
cdef ms_stream stream_handle(Stream stream) except NULL
