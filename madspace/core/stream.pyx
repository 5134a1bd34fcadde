"""Streams: our own, and other libraries' handles."""
import _thread

cimport cython
from cpython.ref cimport PyObject
from cython.operator cimport dereference
from libc.stdint cimport uintptr_t
from libcpp.unordered_map cimport unordered_map

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUdevice, CUresult, CUstream

from madspace.core cimport _driver as drv
from madspace.core._leaks cimport remember
from madspace.core._numbers cimport whole_number
from madspace.core._teardown cimport is_closed, refuse
from madspace.core._watch cimport LEAKS, watchers
from madspace.core.device cimport Device, get_device

from madspace.core.device import as_device
from madspace.errors import ClosedError, DeviceMismatchError

cdef enum:
    LEGACY = 1          # the driver's names for its two default streams; 0 would mean either
    PER_THREAD = 2

cdef object making = _thread.RLock()
cdef unordered_map[uintptr_t, PyObject*] made       # handles of ours that are valid, and their Streams


cdef class Waitable:
    cdef int hold_back(self, Stream later) except -1:
        raise NotImplementedError


# The destructor needs the members: the collector must not clear them first.
@cython.no_gc_clear
cdef class Stream(Waitable):
    """A queue of device work. Work on one stream runs in order, work on different streams does not.

    Parameters
    ----------
    device : Device, int or str, optional
        Where it runs; device 0 if left out.
    priority : int, optional
        Smaller is more urgent; 0, the least urgent, by default. The device's range is the driver's, often -5 to 0.

    Attributes
    ----------
    device : Device
        The device.

    Raises
    ------
    ValueError
        For a priority outside the device's range.
    DriverNotFoundError, DriverError, ForkError
        As from ``Device``.

    Notes
    -----
    The stream does not synchronise with CUDA's legacy default stream. Two Stream objects are equal when they stand for
    the same handle on the same device.
    """

    def __cinit__(self):
        self.closed_ = True     # until there is a handle
        self.holds_.store(0)

    def __init__(self, device=None, priority=0):
        if self.handle_ != NULL:
            raise TypeError("Stream: __init__ was called twice")
        cdef Device where = get_device(0) if device is None else as_device(device)
        create(self, where, priority)
        if watchers() & LEAKS:
            remember(self)

    @staticmethod
    def from_handle(handle, *, device=None, owner=None):
        """Wrap a stream that another library made.

        Parameters
        ----------
        handle : int
            The driver's handle (``CUstream``, ``cudaStream_t``). 0 is CUDA's legacy default stream, as is 1; 2 is the
            per-thread default stream.
        device : Device, int or str, optional
            The device that the stream belongs to; device 0 if left out.
        owner : object, optional
            What keeps the handle alive; it is referenced as long as the handle may be used. Without one the caller sees
            to it that the handle outlives the Stream; buffers allocated on it belong to the device's own stream then.

        Returns
        -------
        Stream
            Never destroys the handle.

        Raises
        ------
        DeviceMismatchError
            When the stream belongs to another device.
        """
        cdef Device where = get_device(0) if device is None else as_device(device)
        cdef Stream stream = foreign_stream(where, checked_handle(handle, "handle"), owner)
        cdef CUdevice actual
        cdef int pushed
        if <uintptr_t>stream.handle_ > PER_THREAD:
            pushed = where.push()
            try:
                actual = where.handle_
                with nogil:
                    # The driver does not tell for a stream that is being captured.
                    if not drv.stream_is_capturing(stream.handle_):
                        drv.stream_get_device(stream.handle_, &actual)
            finally:
                where.pop(pushed)
            if actual != where.handle_:
                raise DeviceMismatchError(f"handle: expected a stream of device {where.id}, got one of device {actual}")
        return stream

    @property
    def handle(self):
        """The driver's handle, an int, never 0. It is valid until the stream is closed."""
        return <uintptr_t>self.handle_

    @property
    def closed(self):
        """Whether close() was called."""
        return self.closed_

    @property
    def priority(self):
        """The priority that the driver uses, an int."""
        cdef int value
        self.check_open()
        cdef int pushed = self.device.push()
        try:
            with nogil:
                drv.stream_get_priority(self.handle_, &value)
        finally:
            self.device.pop(pushed)
        return value

    @property
    def is_capturing(self):
        """Whether work on this stream is being captured into a graph."""
        cdef int answer
        self.check_open()
        cdef int pushed = self.device.push()
        try:
            with nogil:
                answer = drv.stream_is_capturing(self.handle_)
        finally:
            self.device.pop(pushed)
        return bool(answer)

    def __cuda_stream__(self):
        """Answer the protocol by which libraries take streams of each other: ``(0, handle)``."""
        self.check_open()
        return 0, <uintptr_t>self.handle_

    def synchronize(self):
        """Wait on the host until all work queued so far is done.

        Raises
        ------
        KernelFaultError
            When a kernel crashed.
        CaptureError
            When the stream is being captured; the capture goes on.
        ClosedError
            When the stream is closed.
        """
        self.check_open()
        cdef int pushed = self.device.push()
        try:
            self.refuse_in_capture("cuStreamSynchronize")
            with nogil:
                drv.stream_synchronize(self.handle_)
        finally:
            self.device.pop(pushed)

    def query(self):
        """Tell, without waiting, whether all work queued so far is done.

        Returns
        -------
        bool

        Raises
        ------
        KernelFaultError, CaptureError, ClosedError
            As from synchronize().
        """
        cdef int answer
        self.check_open()
        cdef int pushed = self.device.push()
        try:
            self.refuse_in_capture("cuStreamQuery")
            with nogil:
                answer = drv.stream_query(self.handle_)
        finally:
            self.device.pop(pushed)
        return bool(answer)

    def wait(self, earlier):
        """Make later work of this stream wait, on the device, for work queued elsewhere. The host does not wait.

        Parameters
        ----------
        earlier : Event or Stream
            An Event: for what it recorded last (nothing, if it was never recorded). A Stream: for all that is queued on
            it now. Either may be of another device.

        Raises
        ------
        CaptureError
            When this stream is being captured and `earlier` is not part of that capture.
        ClosedError
            When one of them is closed.
        TypeError
            For anything else.
        """
        self.check_open()
        if not isinstance(earlier, Waitable):
            raise TypeError(f"earlier: expected an Event or a Stream, got {type(earlier).__name__}")
        (<Waitable>earlier).hold_back(self)

    def record(self, event=None):
        """Mark this point of the stream.

        Parameters
        ----------
        event : Event, optional
            The event to record; a new one without timing if left out.

        Returns
        -------
        Event
            The event.

        Raises
        ------
        DeviceMismatchError
            When the event belongs to another device.
        ClosedError
            When the stream or the event is closed.
        TypeError
            For anything else.
        """
        self.check_open()
        if event is None:
            from madspace.core.event import Event

            event = Event(self.device)
        elif not isinstance(event, Waitable) or isinstance(event, Stream):
            raise TypeError(f"event: expected an Event, got {type(event).__name__}")
        event.record(self)
        return event

    def close(self):
        """End the use of this object; idempotent.

        The work that is queued still runs. The handle is destroyed at once, or, while buffers remain that were
        allocated on this stream, when the last of them is freed; a foreign handle is only let go.

        Raises
        ------
        ValueError
            For the device's own stream, which everybody shares.
        """
        if self.closed_:
            return
        if self is self.device.stream_:
            raise ValueError(f"close: the own stream of device {self.device.id} is shared and stays open")
        self.closed_ = True
        cdef CUresult code = self.drop()
        if code != cydriver.CUDA_SUCCESS:
            drv.raise_code(code, "cuStreamDestroy")

    def __dealloc__(self):
        if not self.closed_:
            self.closed_ = True
            drv.report(self.drop(), "cuStreamDestroy")

    def __enter__(self):
        self.check_open()
        return self

    def __exit__(self, *exc_info):
        if self.closed_ or self is not self.device.stream_:     # that one is everybody's and stays open
            self.close()

    def __eq__(self, other):
        if not isinstance(other, Stream):
            return NotImplemented
        return self.handle_ == (<Stream>other).handle_ and self.device == (<Stream>other).device

    def __hash__(self):
        return hash((<uintptr_t>self.handle_, self.device))

    def __repr__(self):
        state = "closed" if self.closed_ else "open"
        return f"<Stream {<uintptr_t>self.handle_:#x} of device {self.device.id if self.device else None}, {state}>"

    cdef int hold_back(self, Stream later) except -1:
        from madspace.core.event import wait_for_stream     # that module needs this one

        wait_for_stream(later, self)
        return 0

    cdef int check_open(self) except -1:
        if self.closed_:
            raise ClosedError(f"stream: expected an open stream, got {self!r}")
        return 0

    cdef int refuse_in_capture(self, str call) except -1:
        cdef int capturing
        with nogil:
            capturing = drv.stream_is_capturing(self.handle_)
        if capturing:
            raise drv.error_of(cydriver.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, call, f"{self!r} is being captured")
        return 0

    cdef int hold(self) except -1:
        self.check_open()
        self.holds_.fetch_add(1)
        return 0

    cdef CUresult drop(self) noexcept:
        cdef CUresult code = cydriver.CUDA_SUCCESS
        if self.holds_.fetch_sub(1) == 1:
            if self.owned_:
                made.erase(<uintptr_t>self.handle_)
                with nogil:
                    code = drv.quiet_stream_destroy(self.device.context_, self.handle_)
            self.owner_ = None
        return code


cdef int create(Stream stream, Device device, object priority) except -1:
    cdef int least, greatest
    cdef CUstream handle
    cdef int level
    cdef object number = whole_number(priority, "priority")
    cdef int pushed = device.push()
    try:
        if number != 0:
            with nogil:
                drv.ctx_get_stream_priority_range(&least, &greatest)
            if not greatest <= number <= least:
                raise ValueError(f"priority: expected {greatest} to {least} on device {device.id}, got {number}")
        level = number
        with nogil:
            drv.stream_create(&handle, cydriver.CU_STREAM_NON_BLOCKING, level)
        stream.owned_ = True
        adopt(stream, device, handle)
        made[<uintptr_t>handle] = <PyObject*>stream
    finally:
        device.pop(pushed)
    return 0


cdef int adopt(Stream stream, Device device, CUstream handle) except -1:
    stream.device = device
    stream.handle_ = handle
    stream.holds_.store(1)
    stream.closed_ = False
    return 0


cdef Stream own_stream(Device device):
    cdef Stream stream
    if device.stream_ is not None:
        return device.stream_
    # Before the lock: in a forked child nobody may be left to release it.
    if is_closed():
        refuse("cuStreamCreate")
    with making:
        if device.stream_ is None:
            stream = Stream.__new__(Stream)
            create(stream, device, 0)
            if device.stream_ is None:      # not made meanwhile by what the collector ran
                device.stream_ = stream
    return device.stream_


def default_stream(Device device not None):
    """The device's own stream, as ``device.default_stream``."""
    return own_stream(device)


cdef Stream foreign_stream(Device device, CUstream handle, object owner):
    cdef Stream stream = Stream.__new__(Stream)
    stream.owner_ = owner
    adopt(stream, device, handle if handle != NULL else <CUstream><uintptr_t>LEGACY)
    return stream


cdef Stream told_by_handle(Device device, CUstream handle, object owner):
    cdef unordered_map[uintptr_t, PyObject*].iterator found = made.find(<uintptr_t>handle)
    cdef Stream stream
    if found == made.end():
        return foreign_stream(device, handle, owner)
    stream = <Stream>dereference(found).second
    # A closed one is there as long as its memory is: nobody else may rely on it.
    return foreign_stream(device, handle, None) if stream.closed_ else stream


cdef Stream as_stream(object obj, Device device):
    cdef Stream stream
    if isinstance(obj, Stream):
        stream = obj
        stream.check_open()
        if stream.device is not device:
            raise DeviceMismatchError(f"stream: expected one of device {device.id}, got {stream!r}")
        return stream
    if obj is None or isinstance(obj, bool):
        raise TypeError(
            f"stream: expected a Stream, an int handle or an object with __cuda_stream__, got {obj}; leave the "
            "argument out for the default"
        )
    if hasattr(obj, "__index__"):
        return foreign_stream(device, checked_handle(obj, "stream"), None)
    protocol = getattr(type(obj), "__cuda_stream__", None)
    if protocol is not None:
        return foreign_stream(device, protocol_handle(obj), obj)
    handle = getattr(obj, "cuda_stream", None)      # torch
    if handle is None:
        raise TypeError(
            f"stream: expected a Stream, an int handle or an object with __cuda_stream__, got {type(obj).__name__}")
    number = getattr(obj, "device_index", device.id)
    if number != device.id:
        raise DeviceMismatchError(f"stream: expected one of device {device.id}, got {obj!r}")
    return foreign_stream(device, checked_handle(handle, "stream.cuda_stream"), obj)


cdef CUstream protocol_handle(object obj) except? NULL:
    method = obj.__cuda_stream__
    if not callable(method):
        raise TypeError(
            f"stream: __cuda_stream__ of {type(obj).__name__} must be a method, got {type(method).__name__}")
    answer = method()
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise TypeError(f"stream: {type(obj).__name__}.__cuda_stream__() must return (0, handle), got {answer!r}")
    if answer[0] != 0:
        raise TypeError(
            f"stream: {type(obj).__name__}.__cuda_stream__() must speak version 0 of the protocol, got {answer[0]!r}")
    return checked_handle(answer[1], "stream.__cuda_stream__()[1]")


cdef CUstream checked_handle(object handle, str name) except? NULL:
    if isinstance(handle, bool) or not hasattr(handle, "__index__"):
        raise TypeError(f"{name}: expected an int handle, got {type(handle).__name__}")
    number = handle.__index__()
    if not 0 <= number <= <uintptr_t>-1:
        raise ValueError(f"{name}: expected a stream handle, 0 or more, got {number}")
    return <CUstream><uintptr_t>number


def to_stream(obj, device=None):
    """Turn what libraries call a stream into a Stream.

    Parameters
    ----------
    obj : Stream, int, torch.cuda.Stream or any object with ``__cuda_stream__``
        An int is a driver handle, with 0 and 1 for the legacy default stream and 2 for the per-thread one. None is
        refused.
    device : Device, int or str, optional
        The device that it belongs to; a Stream's own, else device 0, if left out.

    Returns
    -------
    Stream
        `obj` itself where it is a Stream, else a wrapper that keeps `obj` alive.

    Raises
    ------
    TypeError, ValueError
        For anything else, and where ``__cuda_stream__`` does not return ``(0, handle)``.
    DeviceMismatchError
        When it belongs to another device.
    """
    if device is None:
        return as_stream(obj, (<Stream>obj).device if isinstance(obj, Stream) else get_device(0))
    return as_stream(obj, as_device(device))
