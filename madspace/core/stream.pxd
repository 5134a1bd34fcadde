from cuda.bindings.cydriver cimport CUresult, CUstream
from libcpp.atomic cimport atomic

from madspace.core.device cimport Device


cdef class Stream


cdef class Waitable:            # what Stream.wait takes: Event and Stream
    cdef int hold_back(self, Stream later) except -1


cdef class Stream(Waitable):
    cdef readonly Device device
    cdef CUstream handle_        # never NULL: the legacy default stream is 1, the per-thread one 2
    cdef object owner_           # what keeps a foreign handle alive, else None
    cdef bint owned_             # made by us, destroyed by us
    cdef bint closed_
    cdef atomic[int] holds_      # who needs the handle: one for the open Stream, one for each Buffer to be freed on it
    cdef int check_open(self) except -1
    cdef int refuse_in_capture(self, str call) except -1    # for what would break a capture of this stream
    cdef int hold(self) except -1                           # the handle stays valid, also after close(), until ...
    cdef CUresult drop(self) noexcept                       # ... as many drop()s
    cdef object __weakref__


cdef Stream own_stream(Device device)           # the device's own non-blocking stream
cdef Stream foreign_stream(Device device, CUstream handle, object owner)    # wraps; 0 becomes 1
# The one of a handle that another library works on: ours where we made it, which can be held, else as foreign_stream().
cdef Stream told_by_handle(Device device, CUstream handle, object owner)
cdef Stream as_stream(object obj, Device device)    # Stream, int handle, __cuda_stream__, torch stream
