"""Page-locked host memory, which the device copies to and from while the host goes on."""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uintptr_t

from madspace.core cimport _driver as drv
from madspace.core._leaks cimport remember
from madspace.core._numbers cimport byte_count
from madspace.core._pinned_blocks cimport Block, all_done, put_block, take_block, unlock_idle
from madspace.core._recording cimport n_recordings, note_memory
from madspace.core._teardown cimport is_closed
from madspace.core._uses cimport PER_THREAD, Use, Uses, is_captured, is_done, key_of, new_use, wait_for
from madspace.core._watch cimport LEAKS, watchers
from madspace.core.current cimport pick_stream
from madspace.core.device cimport Device, get_device
from madspace.core.memory cimport Buffer
from madspace.core.stream cimport Stream

import numpy as np

from madspace.core.device import as_device
from madspace.errors import ClosedError, DTypeError, ShapeError


@cython.no_gc_clear         # the destructor needs the block
cdef class PinnedBuffer:
    """A block of page-locked ("pinned") host memory.

    Parameters
    ----------
    nbytes : int
        Bytes, uninitialised; 0 gives a buffer with ``ptr`` 0.
    device : Device, int or str, optional
        In whose context the memory is locked; device 0 if left out. Buffers of every device may copy from and to it.

    Attributes
    ----------
    nbytes : int
        Its size.
    device : Device
        As given.

    Raises
    ------
    OutOfMemoryError
        When no more memory can be locked.
    TypeError, ValueError
        When `nbytes` is no number of bytes.
    DriverNotFoundError, DriverError, ForkError
        As from ``Device``.

    Notes
    -----
    Copies are queued and return at once, also inside of captures. They are ordered among each other, on whatever
    streams they are, by events on the device. What the host does with the memory is not: synchronize() before it reads
    what was copied here, and before it changes what is being copied from here.

    The memory is reused, by a later PinnedBuffer of about the same size, when the device is done with it; nothing waits
    when this object is closed or collected. trim() gives idle memory back to the system. Whoever captures a copy keeps
    this object alive for as long as the graph may be launched.

    Examples
    --------
    >>> import madspace
    >>> def upload(array, buffer, stream):
    ...     staged = madspace.PinnedBuffer(array.nbytes)
    ...     staged.numpy(array.dtype)[:] = array.ravel()
    ...     staged.copy_to(buffer, stream=stream)      # `staged` may go now
    """

    def __cinit__(self):
        self.closed_ = True     # until it has its memory

    def __init__(self, nbytes, device=None):
        if not self.closed_ or self.device is not None:
            raise TypeError("PinnedBuffer: __init__ was called twice")
        cdef size_t size = byte_count(nbytes, "nbytes")
        cdef Device where = get_device(0) if device is None else as_device(device)
        if size > 0:
            self.block_ = take_block(size, where)
        self.nbytes = size
        self.device = where
        self.uses_ = Uses.__new__(Uses)
        self.closed_ = False
        if watchers() & LEAKS:
            remember(self)

    @property
    def ptr(self):
        """Address, on the host and on every device, an int; 0 for a buffer of no bytes and after close()."""
        return 0 if self.block_ is None else <uintptr_t>self.block_.ptr

    @property
    def closed(self):
        """Whether close() was called."""
        return self.closed_

    def __len__(self):
        return self.nbytes

    def __getbuffer__(self, Py_buffer* view, int flags):
        self.check_open()
        PyBuffer_FillInfo(view, self, NULL if self.block_ is None else self.block_.ptr, self.nbytes, 0, flags)
        self.n_views_ += 1

    def __releasebuffer__(self, Py_buffer* view):
        self.n_views_ -= 1

    def numpy(self, dtype="uint8"):
        """View the memory as an array.

        Parameters
        ----------
        dtype : numpy.dtype or what makes one, optional
            Type of the elements, whose size divides `nbytes`.

        Returns
        -------
        numpy.ndarray
            One-dimensional, writable; it keeps this object alive and open.

        Raises
        ------
        ValueError
            When the size of an element does not divide `nbytes`.
        DTypeError
            When `dtype` is none.
        ClosedError
            When the buffer is closed.
        """
        self.check_open()
        try:
            kind = np.dtype(dtype)
        except (TypeError, ValueError, SyntaxError):        # the latter two for text
            raise DTypeError(f"dtype: expected a numpy dtype, got {dtype!r}") from None
        if kind.itemsize == 0 or self.nbytes % kind.itemsize:
            raise ValueError(f"dtype: expected elements whose size divides {self.nbytes} bytes, got {kind!r}")
        return np.frombuffer(self, kind) if self.nbytes > 0 else np.empty(0, kind)

    def copy_to(self, Buffer buffer not None, *, stream=None):
        """Copy the whole content to device memory, without waiting.

        Parameters
        ----------
        buffer : Buffer
            Of exactly `nbytes` bytes.
        stream : Stream, int, or any object that ``to_stream`` takes, optional
            Where the copy is queued, a stream of the buffer's device; if left out that of a ``madspace.stream`` block,
            else the buffer's.

        Raises
        ------
        ShapeError
            When `buffer` has another size.
        ClosedError
            When one of them or the stream is closed.
        """
        copy(self, buffer, stream, True)

    def copy_from(self, Buffer buffer not None, *, stream=None):
        """Copy device memory here, without waiting; it has arrived after synchronize() of this object or the stream.

        Parameters
        ----------
        buffer : Buffer
            Of exactly `nbytes` bytes.
        stream : Stream, int, or any object that ``to_stream`` takes, optional
            Where the copy is queued, a stream of the buffer's device; if left out that of a ``madspace.stream`` block,
            else the buffer's.

        Raises
        ------
        ShapeError, ClosedError
            As from copy_to().
        """
        copy(self, buffer, stream, False)

    def query(self):
        """Tell, without waiting, whether all copies so far are done, those in captures left aside.

        Returns
        -------
        bool

        Raises
        ------
        KernelFaultError
            When a kernel crashed.
        ClosedError
            When the buffer is closed.
        """
        self.check_open()
        return all_done(self.uses_)

    def synchronize(self):
        """Wait on the host until all copies so far are done, those in captures left aside.

        Raises
        ------
        KernelFaultError, ClosedError
            As from query().
        """
        cdef Use use
        cdef int pushed
        self.check_open()
        for use in list(self.uses_.by_stream.values()):
            if not is_done(use):
                pushed = use.device.push()
                try:
                    with nogil:
                        drv.event_synchronize(use.event)
                finally:
                    use.device.pop(pushed)

    @staticmethod
    def trim():
        """Give idle page-locked memory back to the system.

        Raises
        ------
        DriverError
            When the driver refuses; what is left stays idle.

        Notes
        -----
        Memory that a device still uses stays. The driver may wait for the device meanwhile.
        """
        unlock_idle()

    def close(self):
        """Let the memory go, to be reused when the device is done with it; idempotent, and nothing waits.

        Raises
        ------
        BufferError
            While there are views of it (numpy(), memoryview), or another thread is in the midst of a copy.
        """
        if self.closed_:
            return
        if self.n_views_ > 0:
            raise BufferError(
                f"close: expected neither views of the memory nor copies in other threads, got {self.n_views_}: drop "
                "the arrays first")
        self.closed_ = True
        self.let_go()

    def __dealloc__(self):
        if not self.closed_:
            self.closed_ = True
            self.let_go()

    def __enter__(self):
        self.check_open()
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __repr__(self):
        state = ", closed" if self.closed_ else ""
        return f"<PinnedBuffer {self.ptr:#x} of {self.nbytes} bytes{state}>"

    cdef int check_open(self) except -1:
        if self.closed_:
            raise ClosedError(f"pinned buffer: expected an open one, got {self!r}")
        return 0

    cdef dict before(self, Stream stream, bint write):
        # A write comes behind all uses, a read behind the last write. A stream is always behind itself, but a new one
        # under a dead one's handle is not: hence the identity. The uses that a write came behind are for after().
        cdef dict waited
        cdef Use use
        if is_captured(stream):
            return None
        if write:
            waited = dict(self.uses_.by_stream)
            for use in waited.values():
                wait_for(stream, use)
            return waited
        if self.writer_ is not None and (self.writer_ is not stream or <uintptr_t>stream.handle_ == PER_THREAD):
            use = self.uses_.by_stream.get(key_of(self.writer_))
            if use is not None:     # None: another thread is in the midst of its own copy
                wait_for(stream, use)
        return None

    cdef int after(self, Stream stream, bint write, dict waited) except -1:
        cdef Use use
        if n_recordings != 0:
            note_memory(stream, self, write)
        if is_captured(stream):
            return 0
        key = key_of(stream)
        use = new_use(self.uses_.by_stream.get(key), stream)
        if write:
            # What another thread noted meanwhile stays.
            if waited is not None:
                self.uses_.by_stream = {
                    other: known for other, known in self.uses_.by_stream.items() if waited.get(other) is not known}
            self.writer_ = stream
        self.uses_.by_stream[key] = use
        return 0

    cdef int let_go(self) noexcept:
        cdef Block block = self.block_
        self.block_ = None
        if block is None or is_closed():
            return 0
        put_block(block, self.uses_)
        self.uses_ = None
        self.writer_ = None
        return 0


cdef int copy(PinnedBuffer pinned, Buffer buffer, object stream, bint to_device) except -1:
    cdef Stream where = pick_stream(stream, buffer.pool.device, buffer.stream)
    pinned.check_open()
    buffer.check_open()
    where.check_open()
    if buffer.nbytes != pinned.nbytes:
        raise ShapeError(f"buffer: expected {pinned.nbytes} bytes, got {buffer.nbytes}")
    return copy_part(pinned, 0, buffer, 0, pinned.nbytes, where, to_device)


cdef int copy_part(PinnedBuffer pinned, size_t at, Buffer buffer, size_t offset, size_t nbytes, Stream where,
                   bint to_device) except -1:
    cdef Device device = buffer.pool.device
    cdef char* host
    cdef dict waited
    cdef int pushed
    if nbytes == 0:
        return 0
    pinned.n_views_ += 1        # nobody closes it meanwhile
    pushed = -1
    try:
        pushed = device.push()
        waited = pinned.before(where, not to_device)
        buffer.before(where, to_device)
        host = <char*>pinned.block_.ptr + at
        with nogil:
            if to_device:
                drv.memcpy_htod_async(buffer.ptr_ + offset, host, nbytes, where.handle_)
            else:
                drv.memcpy_dtoh_async(host, buffer.ptr_ + offset, nbytes, where.handle_)
        buffer.after(where, to_device)
        pinned.after(where, not to_device, waited)
    finally:
        pinned.n_views_ -= 1
        if pushed != -1:
            device.pop(pushed)
    return 0
