"""Events, and the ordering of streams by events that nobody sees."""
cimport cython
from libc.stdint cimport uint64_t, uintptr_t

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUevent, CUresult, CUstream

from madspace.core cimport _driver as drv
from madspace.core._leaks cimport remember
from madspace.core._watch cimport LEAKS, watchers
from madspace.core.device cimport Device, get_device
from madspace.core.stream cimport Stream, Waitable, as_stream

from madspace.core.device import as_device
from madspace.errors import ClosedError, DeviceMismatchError, DriverError


cdef extern from *:
    """
    #include <cuda.h>
    #include <mutex>
    #include <vector>
    namespace {
    // Idle events of each device. The lock is never held during a driver call or while taking the GIL.
    struct IdleEvents {
      std::mutex lock;
      std::vector<std::vector<CUevent>> of_device;
      CUevent take(size_t device) noexcept {
        std::lock_guard<std::mutex> guard(lock);
        if (device >= of_device.size() || of_device[device].empty()) return nullptr;
        CUevent event = of_device[device].back();
        of_device[device].pop_back();
        return event;
      }
      bool give(size_t device, CUevent event) noexcept {
        try {
          std::lock_guard<std::mutex> guard(lock);
          if (device >= of_device.size()) of_device.resize(device + 1);
          of_device[device].push_back(event);
          return true;
        } catch (...) {
          return false;
        }
      }
    };
    // Never destroyed: threads may still give events back while the process exits.
    IdleEvents& idle_events = *new IdleEvents;
    }
    """
    cdef cppclass IdleEvents:
        CUevent take(size_t device) noexcept nogil
        bint give(size_t device, CUevent event) noexcept nogil
    IdleEvents idle_events


# The destructor needs the members: the collector must not clear them first.
@cython.no_gc_clear
cdef class Event(Waitable):
    """A point in a stream that can be waited for, asked for, and timed.

    Parameters
    ----------
    device : Device, int or str, optional
        The device whose streams it can be recorded on; device 0 if left out.
    timing : bool, optional
        Whether it takes the time when it is reached, for elapsed_since(). Without, it is cheaper to wait for.

    Attributes
    ----------
    device : Device
        The device.
    timing : bool
        As given.

    Raises
    ------
    DriverNotFoundError, DriverError, ForkError
        As from ``Device``.
    """

    def __cinit__(self):
        self.closed_ = True     # until there is a handle

    def __init__(self, device=None, timing=False):
        if self.handle_ != NULL:
            raise TypeError("Event: __init__ was called twice")
        cdef Device where = get_device(0) if device is None else as_device(device)
        cdef unsigned int flags = cydriver.CU_EVENT_DEFAULT if timing else cydriver.CU_EVENT_DISABLE_TIMING
        cdef int pushed = where.push()
        try:
            with nogil:
                drv.event_create(&self.handle_, flags)
            self.device = where
            self.timing = timing
            self.closed_ = False
        finally:
            where.pop(pushed)
        if watchers() & LEAKS:
            remember(self)

    @property
    def handle(self):
        """The driver's handle (``CUevent``), an int. It is valid until the event is closed."""
        return <uintptr_t>self.handle_

    @property
    def closed(self):
        """Whether close() was called."""
        return self.closed_

    def record(self, stream):
        """Mark the present end of a stream; replaces what was recorded before.

        Parameters
        ----------
        stream : Stream, int, or any object that ``to_stream`` takes
            The stream, of this event's device.

        Raises
        ------
        DeviceMismatchError
            When the stream is one of another device.
        ClosedError
            When the event or the stream is closed.
        """
        if self.closed_:
            self.check_open()           # there may be no device
        cdef Stream where = as_stream(stream, self.device)
        cdef uint64_t capture
        self.check_open()               # again: the line above may run code of the caller
        cdef int pushed = self.device.push()
        try:
            with nogil:
                drv.stream_get_capture_info(where.handle_, &capture)
                drv.event_record(self.handle_, where.handle_)
        finally:
            self.device.pop(pushed)
        self.recorded_ = True
        self.capture_ = capture

    def query(self):
        """Tell, without waiting, whether the recorded work is done.

        Returns
        -------
        bool
            True for an event that was never recorded.

        Raises
        ------
        KernelFaultError
            When a kernel crashed.
        CaptureError
            When the event was recorded in a capture; the capture goes on.
        """
        cdef int answer
        self.check_open()
        self.refuse_captured("cuEventQuery")
        cdef int pushed = self.device.push()
        try:
            with nogil:
                answer = drv.event_query(self.handle_)
        finally:
            self.device.pop(pushed)
        return bool(answer)

    def synchronize(self):
        """Wait on the host until the recorded work is done; returns at once when nothing was recorded.

        Raises
        ------
        KernelFaultError, CaptureError
            As from query().
        """
        self.check_open()
        self.refuse_captured("cuEventSynchronize")
        cdef int pushed = self.device.push()
        try:
            with nogil:
                drv.event_synchronize(self.handle_)
        finally:
            self.device.pop(pushed)

    def elapsed_since(self, Event earlier not None):
        """Time on the device between two events.

        Parameters
        ----------
        earlier : Event
            The first of the two, of the same device; both made with ``timing=True``, recorded, and reached.

        Returns
        -------
        float
            Milliseconds, with a resolution of about half a microsecond. Negative if `earlier` came later.

        Raises
        ------
        DeviceMismatchError
            When the events belong to different devices.
        DriverError
            When one was made without timing or never recorded (code 400), or is not reached yet (code 600; wait with
            synchronize()). Three different messages.
        CaptureError
            When one was recorded in a capture; the capture goes on.
        """
        cdef float ms = 0
        cdef CUresult code
        self.check_open()
        earlier.check_open()
        if self.device is not earlier.device:
            raise DeviceMismatchError(
                f"earlier: expected an event of device {self.device.id}, got one of device {earlier.device.id}")
        explain_untimed(self, earlier)
        earlier.refuse_captured("cuEventElapsedTime")
        self.refuse_captured("cuEventElapsedTime")
        cdef int pushed = self.device.push()
        try:
            with nogil:
                drv.event_elapsed_time(&ms, earlier.handle_, self.handle_, &code)
        finally:
            self.device.pop(pushed)
        if code == cydriver.CUDA_ERROR_NOT_READY:
            raise drv.error_of(
                code, "cuEventElapsedTime", "not finished: one of the events is not reached yet, synchronize() first")
        if code == cydriver.CUDA_ERROR_INVALID_HANDLE:
            explain_unrecorded(self, earlier)
        if code != cydriver.CUDA_SUCCESS:
            drv.raise_code(code, "cuEventElapsedTime")
        return ms

    def close(self):
        """Destroy the event; idempotent. Waits that are queued for it stay valid."""
        cdef CUresult code
        if self.closed_:
            return
        self.closed_ = True
        with nogil:
            code = drv.quiet_event_destroy(self.device.context_, self.handle_)
        if code != cydriver.CUDA_SUCCESS:
            drv.raise_code(code, "cuEventDestroy")

    def __dealloc__(self):
        cdef CUresult code
        if not self.closed_:
            self.closed_ = True
            with nogil:
                code = drv.quiet_event_destroy(self.device.context_, self.handle_)
            drv.report(code, "cuEventDestroy")

    def __enter__(self):
        self.check_open()
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __repr__(self):
        state = "closed" if self.closed_ else "recorded" if self.recorded_ else "not recorded"
        return f"<Event {<uintptr_t>self.handle_:#x} of device {self.device.id if self.device else None}, {state}>"

    cdef int check_open(self) except -1:
        if self.closed_:
            raise ClosedError(f"event: expected an open event, got {self!r}")
        return 0

    cdef int hold_back(self, Stream later) except -1:
        cdef uint64_t capture
        self.check_open()
        cdef int pushed = later.device.push()       # a default stream's handle means that of the current context
        try:
            with nogil:
                drv.stream_get_capture_info(later.handle_, &capture)
            # The driver would refuse it as well, and break the capture. A stream that is not captured joins the event's
            # capture while that goes on, and is refused afterwards without harm.
            if self.recorded_ and capture != 0 and capture != self.capture_:
                raise drv.error_of(
                    cydriver.CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "cuStreamWaitEvent",
                    f"{later!r} is being captured, {self!r} was not recorded in that capture")
            try:
                with nogil:
                    drv.stream_wait_event(later.handle_, self.handle_)
            except DriverError as error:
                # Driver 580 calls an event of a capture that is over an invalid argument.
                if self.capture_ == 0 or error.code != cydriver.CUDA_ERROR_INVALID_VALUE:
                    raise
                raise drv.error_of(
                    cydriver.CUDA_ERROR_CAPTURED_EVENT, "cuStreamWaitEvent",
                    f"{self!r} was recorded in a capture that is over") from error
        finally:
            later.device.pop(pushed)
        return 0

    cdef int refuse_captured(self, str call) except -1:
        # The driver would refuse it as well, and break the capture.
        if self.capture_ != 0:
            raise drv.error_of(cydriver.CUDA_ERROR_CAPTURED_EVENT, call, f"{self!r} was recorded in a capture")
        return 0


cdef int explain_untimed(Event later, Event earlier) except -1:
    cdef Event event
    for event, name in ((earlier, "earlier"), (later, "later")):
        if not event.timing:
            raise DriverError(
                f"cuEventElapsedTime: {name} was made without timing; make it with Event(timing=True)",
                400, "CUDA_ERROR_INVALID_HANDLE", "cuEventElapsedTime")
    return 0


cdef int explain_unrecorded(Event later, Event earlier) except -1:
    # Asked only after the driver refused: other code may have recorded the event by its handle.
    cdef Event event
    for event, name in ((earlier, "earlier"), (later, "later")):
        if not event.recorded_:
            raise DriverError(
                f"cuEventElapsedTime: {name} was not recorded; record it on a stream first",
                400, "CUDA_ERROR_INVALID_HANDLE", "cuEventElapsedTime")
    return 0


cdef CUevent take_event(Device device) except NULL:
    cdef CUevent event = idle_events.take(device.id)
    if event == NULL:
        with nogil:
            drv.event_create(&event, cydriver.CU_EVENT_DISABLE_TIMING)
    return event


cdef void give_event(Device device, CUevent event) noexcept nogil:
    if not idle_events.give(device.id, event):
        drv.quiet_event_destroy(device.context_, event)


cdef int order(Device device, CUstream earlier, CUstream later) except -1:
    if earlier == later:
        return 0
    cdef int pushed = device.push()
    try:
        order_within(device, earlier, device, later)
    finally:
        device.pop(pushed)
    return 0


cdef int order_streams(Stream earlier, Stream later) except -1:
    if earlier.device is later.device:
        return order(earlier.device, earlier.handle_, later.handle_)
    cdef int pushed = earlier.device.push()
    try:
        order_within(earlier.device, earlier.handle_, later.device, later.handle_)
    finally:
        earlier.device.pop(pushed)
    return 0


cdef int order_within(Device device, CUstream earlier, Device later_device, CUstream later) except -1:
    # The earlier stream's context is current. Everything that can be refused is asked before the streams are touched.
    cdef int pushed, earlier_captured, later_captured
    cdef CUevent event
    cdef CUresult code
    with nogil:
        earlier_captured = drv.stream_is_capturing(earlier)
    pushed = later_device.push()
    try:
        with nogil:
            later_captured = drv.stream_is_capturing(later)
    finally:
        later_device.pop(pushed)
    if later_captured and not earlier_captured:
        raise drv.error_of(
            cydriver.CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "cuStreamWaitEvent",
            f"stream {<uintptr_t>later:#x} is being captured, stream {<uintptr_t>earlier:#x} is not")
    if earlier_captured:
        # Never one of the pool: those were recorded before, outside of the capture.
        with nogil:
            drv.event_create(&event, cydriver.CU_EVENT_DISABLE_TIMING)
    else:
        event = take_event(device)
    try:
        with nogil:
            drv.event_record(event, earlier)
        pushed = later_device.push()
        try:
            with nogil:
                drv.stream_wait_event(later, event)
        finally:
            later_device.pop(pushed)
    finally:
        if earlier_captured:
            with nogil:
                code = drv.quiet_event_destroy(device.context_, event)
            drv.report(code, "cuEventDestroy")
        else:
            give_event(device, event)
    return 0


def wait_for_stream(Stream later not None, Stream earlier not None):
    """Order two streams; Stream.wait() calls it."""
    earlier.check_open()
    order_streams(earlier, later)
