from libc.stdint cimport uint64_t

from cuda.bindings.cydriver cimport CUevent, CUstream

from madspace.core.device cimport Device
from madspace.core.stream cimport Stream, Waitable


cdef class Event(Waitable):
    cdef readonly Device device
    cdef readonly bint timing
    cdef CUevent handle_
    cdef bint recorded_
    cdef bint closed_
    cdef uint64_t capture_       # in which it was recorded last; 0 for none
    cdef int check_open(self) except -1
    cdef int refuse_captured(self, str call) except -1
    cdef object __weakref__


# Device-side ordering without timing: work queued on `later` from now on waits for what `earlier` holds now.
# Uses a pooled event; queues nothing when both are the same handle.
cdef int order(Device device, CUstream earlier, CUstream later) except -1
cdef int order_streams(Stream earlier, Stream later) except -1      # the same, also between devices

# The pool of events without timing. An event that has been waited for may go back at once: a wait is for what was
# recorded when it was queued. One recorded in a capture must not go back (destroy it).
cdef CUevent take_event(Device device) except NULL      # device's context is current
cdef void give_event(Device device, CUevent event) noexcept nogil
