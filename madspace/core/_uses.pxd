from cuda.bindings.cydriver cimport CUcontext, CUevent, CUresult, CUstream

from madspace.core.device cimport Device
from madspace.core.stream cimport Stream

cdef enum:
    PER_THREAD = 2      # the handle of the per-thread default stream: another stream in every thread


# The last use of a buffer by one stream: an event out of the pool, which goes back there with this object.
cdef class Use:
    cdef Device device
    cdef CUevent event


# Work about to be queued on a stream, on several buffers perhaps: what is asked of the driver, and told to it, once for
# all of them. settle() between the work's two brackets, when the answers may be others.
cdef class Work:
    cdef Stream stream
    cdef object key             # of the stream
    cdef int captured           # -1: not asked yet
    cdef Stream home            # the buffers' stream that was ordered before it last
    cdef Use earlier            # that was waited for last
    cdef Use use
    cdef bint is_captured(self) except -1
    cdef int come_behind(self, Stream home) except -1           # unless that would reach into a capture or out of it
    cdef int wait_for(self, Use earlier) except -1
    cdef Use note(self, Use earlier)                            # as of now, and behind the earlier one (None: none)
    cdef int settle(self) except -1


cdef Work work_on(Stream stream)

# The stream where its handle means the same stream as long as the object is there; else the device's own one: for the
# per-thread default stream, and for a handle that no one keeps, which may be dead when memory is given back.
cdef Stream lasting(Stream stream)
# Uses of a piece of memory by stream. The collector does not see it: it would empty the dict before the destructor of
# the memory, which waits for these uses.
cdef class Uses:
    cdef dict by_stream          # {key_of(stream): Use}

cdef Uses uses_of(dict by_stream)    # None for none

cdef object key_of(Stream stream)
cdef bint is_same(Stream one, Stream other) noexcept
cdef int is_captured(Stream stream) except -1
cdef int wait_for(Stream stream, Use use) except -1             # stream's later work, on the device
cdef Use new_use(Use earlier, Stream stream)                    # as of now, and behind the earlier one (None: none)
cdef bint is_done(Use use) except -1                            # asked, not waited for
cdef int wait_until_done(Use use) except -1                     # on the host
# What nobody could note must be over before the memory goes to others; called where noting a use has failed.
cdef int finish_unnoted(Stream stream) except -1
cdef int finish(Stream stream) except -1                        # all of its work, on the host
# The stream's later work behind all uses (None: none), unless it is being captured.
cdef CUresult wait_behind(Uses uses, CUcontext context, CUstream stream, bint* captured) noexcept
