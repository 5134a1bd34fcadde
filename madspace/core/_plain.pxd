# Driver calls for code that may have no interpreter: handles are plain pointers, results are the driver's codes,
# nothing is raised and the Python layer is never entered. The context is made current for the call. Once the gate is
# shut the code is that of a driver that is not there; _teardown.state() has the reason.
from libc.stdint cimport uint64_t

from madspace.core._shape cimport Shape
from madspace.core.device cimport Device


cdef int resolve_plain() except -1          # once, after the driver was started

cdef const char* error_name(int code) noexcept nogil
cdef const char* error_text(int code) noexcept nogil

cdef int context_synchronize(void* context) noexcept nogil

# 900 while it is captured, the next one likewise.
cdef int stream_synchronize(void* context, void* stream) noexcept nogil
cdef int stream_query(void* context, void* stream) noexcept nogil           # 600: not yet
# What the event recorded last, if anything, was in the capture of that id, 0 for none. 905 where the stream is in
# another capture, which goes on; 907 for an event of one that is over.
cdef int stream_wait_event(void* context, void* stream, void* event, bint recorded, uint64_t capture) noexcept nogil

# capture: in which one that was.
cdef int event_record(void* context, void* event, void* stream, uint64_t* capture) noexcept nogil
cdef int event_query(void* context, void* event) noexcept nogil
cdef int event_synchronize(void* context, void* event) noexcept nogil
cdef int event_elapsed(void* context, void* start, void* end, float* ms) noexcept nogil

cdef int mem_alloc(void* context, void* pool, size_t nbytes, void* stream, void** ptr) noexcept nogil
cdef int mem_free(void* context, void* ptr, void* stream) noexcept nogil
cdef int mem_copy(void* context, void* target, const void* source, size_t nbytes, void* stream) noexcept nogil
cdef int mem_fill(void* context, void* target, unsigned char value, size_t nbytes, void* stream) noexcept nogil

cdef int launch(void* context, void* function, const Shape* shape, void* stream, void** params) noexcept nogil
cdef int graph_launch(void* context, void* graph, void* stream) noexcept nogil      # 900 while the stream is captured

# The context of a device, for the calls above.
cdef void* device_context(Device device) noexcept
