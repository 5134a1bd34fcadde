"""Which streams use a buffer: an event after each one's last use, for those who must wait for it."""
cimport cython
from libc.stdint cimport uintptr_t

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUcontext, CUresult, CUstream

from madspace.core cimport _driver as drv
from madspace.core.event cimport give_event, order_streams, take_event
from madspace.core.stream cimport Stream, own_stream


@cython.final
@cython.freelist(16)
@cython.no_gc_clear
cdef class Use:
    def __dealloc__(self):
        if self.event != NULL:
            give_event(self.device, self.event)


@cython.final
@cython.freelist(8)
@cython.no_gc               # a Use refers to no memory: there is no cycle through it
cdef class Uses:
    def __cinit__(self):
        self.by_stream = {}


cdef Uses uses_of(dict by_stream):
    cdef Uses uses
    if not by_stream:
        return None
    uses = Uses.__new__(Uses)
    uses.by_stream = by_stream
    return uses


@cython.final
@cython.freelist(8)
cdef class Work:
    cdef bint is_captured(self) except -1:
        if self.captured < 0:
            self.captured = is_captured(self.stream)
        return self.captured

    cdef int come_behind(self, Stream home) except -1:
        if self.home is home:
            return 0
        if self.is_captured() == is_captured(home):
            order_streams(home, self.stream)
        self.home = home
        return 0

    cdef int wait_for(self, Use earlier) except -1:
        if self.earlier is not earlier:
            wait_for(self.stream, earlier)
            self.earlier = earlier
        return 0

    cdef Use note(self, Use earlier):
        # A new stream under a dead one's handle, or another thread's default stream, must not forget that one: what is
        # noted comes behind what was noted before.
        if self.use is None or (earlier is not None and earlier is not self.earlier):
            self.use = new_use(earlier, self.stream)
            self.earlier = earlier
        return self.use

    cdef int settle(self) except -1:
        self.captured = -1
        self.home = None
        return 0


cdef Work work_on(Stream stream):
    cdef Work work = Work.__new__(Work)
    work.stream = stream
    work.captured = -1
    return work


cdef bint is_same(Stream one, Stream other) noexcept:
    # What a buffer belongs to is lasting (see allocate_from), so equal handles are the same stream.
    return one.handle_ == other.handle_ and one.device is other.device


cdef Stream lasting(Stream stream):
    cdef uintptr_t handle = <uintptr_t>stream.handle_
    if handle == PER_THREAD or (handle > PER_THREAD and not stream.owned_ and stream.owner_ is None):
        return own_stream(stream.device)
    return stream


cdef object key_of(Stream stream):
    # The handles of the default streams mean another stream on each device.
    cdef uintptr_t handle = <uintptr_t>stream.handle_
    if handle > PER_THREAD:
        return handle
    return stream.device.id, handle


cdef int is_captured(Stream stream) except -1:
    cdef int captured
    cdef int pushed = stream.device.push()
    try:
        with nogil:
            captured = drv.stream_is_capturing(stream.handle_)
    finally:
        stream.device.pop(pushed)
    return captured


cdef int wait_for(Stream stream, Use use) except -1:
    cdef int pushed = stream.device.push()
    try:
        with nogil:
            drv.stream_wait_event(stream.handle_, use.event)
    finally:
        stream.device.pop(pushed)
    return 0


cdef Use new_use(Use earlier, Stream stream):
    cdef Use use = Use.__new__(Use)
    cdef int pushed = stream.device.push()
    try:
        use.device = stream.device
        use.event = take_event(stream.device)
        with nogil:
            if earlier is not None:
                drv.stream_wait_event(stream.handle_, earlier.event)
            drv.event_record(use.event, stream.handle_)
    finally:
        stream.device.pop(pushed)
    return use


cdef bint is_done(Use use) except -1:
    cdef int done
    cdef int pushed = use.device.push()
    try:
        with nogil:
            done = drv.event_query(use.event)
    finally:
        use.device.pop(pushed)
    return done


cdef int wait_until_done(Use use) except -1:
    cdef int pushed = use.device.push()
    try:
        with nogil:
            drv.event_synchronize(use.event)
    finally:
        use.device.pop(pushed)
    return 0


cdef int finish(Stream stream) except -1:
    cdef int pushed = stream.device.push()
    try:
        with nogil:
            drv.stream_synchronize(stream.handle_)
    finally:
        stream.device.pop(pushed)
    return 0


cdef int finish_unnoted(Stream stream) except -1:
    # In a capture nothing runs.
    return 0 if is_captured(stream) else finish(stream)


cdef CUresult wait_behind(Uses uses, CUcontext context, CUstream stream, bint* captured) noexcept:
    cdef Use use
    cdef CUresult code
    with nogil:
        code = drv.quiet_is_capturing(context, stream, captured)
    if captured[0] or uses is None:
        return code
    for use in list(uses.by_stream.values()):     # another thread may add its own while this one is in the driver
        if code == cydriver.CUDA_SUCCESS:
            with nogil:
                code = drv.quiet_stream_wait_event(context, stream, use.event)
    return code
