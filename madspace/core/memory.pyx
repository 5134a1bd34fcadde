"""Buffers: device memory that goes back only after its last reader."""
cimport cython
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_WRITABLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer,
)

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUresult

from madspace.core cimport _driver as drv
from madspace.core._allocation cimport give_memory, take_memory
from madspace.core._attach cimport attach
from madspace.core._leaks cimport remember
from madspace.core._numbers cimport whole_number
from madspace.core._recording cimport Recording, n_recordings, note_memory, recording_of, recording_with
from madspace.core._staging cimport upload
from madspace.core._teardown cimport is_closed
from madspace.core._uses cimport (
    Use, Uses, Work, finish_unnoted, is_captured, is_same, key_of, lasting, uses_of, work_on,
)
from madspace.core._watch cimport LEAKS, watchers
from madspace.core.allocator cimport Allocator
from madspace.core.current cimport pick_stream
from madspace.core.device cimport Device
from madspace.core.pool cimport MemoryPool, defer_free, own_pool
from madspace.core.stream cimport Stream

from madspace.core._refusal import refusal
from madspace.errors import ClosedError, DeviceMismatchError, ShapeError

# Pools and buffers are met in the same place.
globals()["MemoryPool"] = MemoryPool


@cython.freelist(32)
@cython.no_gc_clear         # the destructor needs the stream and the events
cdef class Buffer:
    """A block of device memory, from MemoryPool.allocate().

    Attributes
    ----------
    nbytes : int
        Its size.
    pool : MemoryPool
        Where it comes from, kept alive.
    stream : Stream
        The stream it was allocated on, kept alive; the free is queued there. The device's own stream where that was
        the per-thread default stream, or a handle without an owner.

    Notes
    -----
    The memory goes back when the buffer is closed or collected, in any thread, also after its stream was closed: the
    free waits, on the device, for every stream that used the buffer. Nothing waits on the host.
    """

    def __cinit__(self):
        self.closed_ = True     # until it has its memory

    def __init__(self):
        raise TypeError("Buffer: use MemoryPool.allocate()")

    @property
    def ptr(self):
        """Device address, an int; 0 for a buffer of no bytes and after close()."""
        return self.ptr_

    @property
    def device(self):
        """The Device that holds the memory."""
        return self.pool.device

    @property
    def device_id(self):
        """Number of the device that holds the memory."""
        return self.pool.device.id

    @property
    def closed(self):
        """Whether close() was called."""
        return self.closed_

    def __len__(self):
        return self.nbytes

    def copy_from_host(self, source, *, stream=None):
        """Fill the buffer from host memory.

        Parameters
        ----------
        source : bytes, numpy.ndarray, or any object with the buffer protocol
            C-contiguous, of exactly `nbytes` bytes.
        stream : Stream, int, or any object that ``to_stream`` takes, optional
            Where the copy is queued; if left out that of a ``madspace.stream`` block,
            else the buffer's.

        Raises
        ------
        ShapeError
            When `source` has another size.
        BufferError
            When `source` is not C-contiguous.
        CaptureError
            When the stream is being captured.
        ClosedError
            When the buffer or the stream is closed.

        Notes
        -----
        Asynchronous. The bytes go by way of page-locked memory, so the source may change as soon as the call returns.
        """
        cdef Py_buffer view
        cdef Stream where = pick_stream(stream, self.pool.device, self.stream)
        expect_buffer(source, "source")
        PyObject_GetBuffer(source, &view, PyBUF_C_CONTIGUOUS)
        try:
            transfer(self, &view, where, True)
        finally:
            PyBuffer_Release(&view)

    def copy_to_host(self, out=None, *, stream=None):
        """Copy the buffer to host memory.

        Parameters
        ----------
        out : bytearray, numpy.ndarray, or any object with the writable buffer protocol, optional
            C-contiguous, of exactly `nbytes` bytes; a new bytearray if left out.
        stream : Stream, int, or any object that ``to_stream`` takes, optional
            Where the copy is queued; if left out that of a ``madspace.stream`` block,
            else the buffer's.

        Returns
        -------
        object
            `out`.

        Raises
        ------
        ShapeError, BufferError, CaptureError, ClosedError
            As from copy_from_host().

        Notes
        -----
        Waits on the host for the stream.
        """
        cdef Py_buffer view
        cdef Stream where = pick_stream(stream, self.pool.device, self.stream)
        if out is None:
            self.check_open()
            out = bytearray(self.nbytes)
        expect_buffer(out, "out")
        PyObject_GetBuffer(out, &view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)
        try:
            transfer(self, &view, where, False)
        finally:
            PyBuffer_Release(&view)
        return out

    def copy_from(self, Buffer source not None, *, stream=None):
        """Fill the buffer from another one, of the same or another device, asynchronously.

        Parameters
        ----------
        source : Buffer
            Of exactly `nbytes` bytes.
        stream : Stream, int, or any object that ``to_stream`` takes, optional
            Where the copy is queued, a stream of this buffer's device; if left out that of a ``madspace.stream`` block,
            else the buffer's.

        Raises
        ------
        ShapeError
            When `source` has another size.
        ClosedError
            When one of the buffers or the stream is closed.
        """
        cdef Stream where = pick_stream(stream, self.pool.device, self.stream)
        cdef Device device = self.pool.device
        cdef Device other = source.pool.device
        self.check_open()
        source.check_open()
        if source.nbytes != self.nbytes:
            raise ShapeError(f"source: expected {self.nbytes} bytes, got {source.nbytes}")
        if self.nbytes == 0 or source is self:
            return
        cdef int pushed = device.push()
        try:
            source.before(where, False)
            self.before(where, True)
            with nogil:
                if other is device:
                    drv.memcpy_dtod_async(self.ptr_, source.ptr_, self.nbytes, where.handle_)
                else:
                    drv.memcpy_peer_async(
                        self.ptr_, device.context_, source.ptr_, other.context_, self.nbytes, where.handle_)
            try:
                source.after(where, False)
            finally:
                self.after(where, True)
        finally:
            device.pop(pushed)

    def fill(self, value, *, stream=None):
        """Set every byte, asynchronously.

        Parameters
        ----------
        value : int
            The byte, 0 to 255.
        stream : Stream, int, or any object that ``to_stream`` takes, optional
            Where it is queued; if left out that of a ``madspace.stream`` block,
            else the buffer's.

        Raises
        ------
        TypeError, ValueError
            When `value` is not a byte.
        ClosedError
            When the buffer or the stream is closed.
        """
        cdef Stream where = pick_stream(stream, self.pool.device, self.stream)
        number = whole_number(value, "value")
        if not 0 <= number <= 255:
            raise ValueError(f"value: expected a byte, 0 to 255, got {number}")
        cdef unsigned char byte = number
        self.check_open()
        if self.nbytes == 0:
            return
        cdef int pushed = self.pool.device.push()
        try:
            self.before(where, True)
            with nogil:
                drv.memset_d8_async(self.ptr_, byte, self.nbytes, where.handle_)
            self.after(where, True)
        finally:
            self.pool.device.pop(pushed)

    def close(self):
        """Give the memory back, in stream order; idempotent. Work that was queued before still has it."""
        cdef CUresult code
        if self.closed_:
            return
        self.closed_ = True
        code = self.free()
        if code != cydriver.CUDA_SUCCESS:
            drv.raise_code(code, "cuMemFreeAsync")

    def __dealloc__(self):
        if not self.closed_:
            self.closed_ = True
            drv.report(self.free(), "cuMemFreeAsync")

    def __enter__(self):
        self.check_open()
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __repr__(self):
        state = ", closed" if self.closed_ else ""
        number = None if self.pool is None else self.pool.device.id
        return f"<Buffer {self.ptr_:#x} of {self.nbytes} bytes on device {number}{state}>"

    cdef int check_open(self) except -1:
        if self.closed_:
            raise ClosedError(f"buffer: expected an open buffer, got {self!r}")
        return 0

    cdef int before(self, Stream stream, bint write) except -1:
        if stream is self.stream and self.uses_ is None and not self.closed_:
            return 0
        return self.before_in(work_on(stream), write)

    cdef int after(self, Stream stream, bint write) except -1:
        if stream is self.stream and n_recordings == 0 and (not write or self.writer_ is stream):
            return 0
        return self.after_in(work_on(stream), write)

    cdef int before_in(self, Work work, bint write) except -1:
        if self.closed_:
            self.check_open()
        if work.stream is self.stream or is_same(work.stream, self.stream):
            return 0 if self.uses_ is None else self.join(work, write)
        return self.before_elsewhere(work, write)

    cdef int after_in(self, Work work, bint write) except -1:
        if n_recordings != 0:
            try:
                note_memory(work.stream, self, write)
            except Exception:
                self.note_use(work, write)
                raise
        return self.note_use(work, write)

    cdef int note_use(self, Work work, bint write) except -1:
        if work.stream is self.stream or is_same(work.stream, self.stream):
            # Written elsewhere since before(), by another thread: come behind that as well.
            return self.join(work, False) if write and self.writer_ is not self.stream else 0
        return self.after_elsewhere(work, write)

    # Another thread may use the buffer while a call below is in the driver: what was there before is looked up once,
    # and what was noted meanwhile stays.

    cdef int join(self, Work work, bint write) except -1:
        # The own stream comes behind the other ones: all of them for a write, the last writer for a read. What it has
        # waited for is forgotten, since everything later is ordered behind the own stream.
        cdef dict uses
        cdef Stream writer
        cdef Use use
        if work.is_captured():
            return 0
        writer = self.writer_
        if self.uses_ is None or not (write or writer is not self.stream):
            return 0
        uses = self.uses_.by_stream
        key = key_of(writer)
        uses = dict(uses) if write else {key: uses[key]} if key in uses else {}
        for use in uses.values():
            work.wait_for(use)
        # What another thread wrote meanwhile, be it on the same stream, is still to be waited for.
        if self.writer_ is writer and (self.uses_ is None or self.uses_.by_stream.get(key) is uses.get(key)):
            self.writer_ = self.stream
        self.forget(uses)
        return 0

    cdef int forget(self, dict uses) except -1:
        if self.uses_ is not None:
            self.uses_ = uses_of({key: use for key, use in self.uses_.by_stream.items() if uses.get(key) is not use})
        return 0

    cdef int before_elsewhere(self, Work work, bint write) except -1:
        cdef Uses uses = self.uses_
        cdef Stream writer = self.writer_
        cdef Use use
        if self.ptr_ == 0:
            return 0
        if write or writer is self.stream:
            work.come_behind(self.stream)
        if uses is None or work.is_captured():
            return 0
        if write:
            for use in list(uses.by_stream.values()):
                work.wait_for(use)
        elif writer is not self.stream:
            # Also where the handle is this stream's: it may be a new stream under a dead one's handle.
            work.wait_for(uses.by_stream[key_of(writer)])
        return 0

    cdef int after_elsewhere(self, Work work, bint write) except -1:
        cdef Use use
        try:
            if self.ptr_ == 0 or work.is_captured():
                return 0
            if work.key is None:
                work.key = key_of(work.stream)
            use = work.note(None if self.uses_ is None else self.uses_.by_stream.get(work.key))
        except Exception:
            finish_unnoted(work.stream)
            raise
        if self.uses_ is None:
            self.uses_ = uses_of({work.key: use})
        else:
            self.uses_.by_stream[work.key] = use
        if write:
            self.writer_ = work.stream
        return 0

    cdef CUresult free(self) noexcept:
        cdef CUresult code
        cdef bint captured = False
        if self.ptr_ == 0 or is_closed() or (n_recordings != 0 and bequeath(self)):
            return cydriver.CUDA_SUCCESS
        code = give_memory(self.pool, self.allocator_, self.ptr_, self.nbytes, self.stream, self.uses_, &captured)
        if captured:
            defer(self)
        else:
            self.uses_ = None
            self.ptr_ = 0
        return code


attach(Buffer, "__new__", refusal("Buffer: use MemoryPool.allocate()"))


cdef Buffer allocate(Device device, size_t nbytes, Stream stream):
    return allocate_from(own_pool(device), nbytes, stream)


cdef Buffer allocate_from(MemoryPool pool, size_t nbytes, Stream stream):
    cdef Buffer buffer
    cdef Allocator allocator = pool.allocator_      # read once: it may be replaced at any time
    cdef Stream user = stream
    cdef int pushed
    pool.check_open()
    stream.check_open()
    if stream.device is not pool.device:
        raise DeviceMismatchError(f"stream: expected one of device {pool.device.id}, got {stream!r}")
    # The free may come when the handle is dead, or from a thread where it is another stream. Uses are noted as on any.
    stream = lasting(user)
    if stream is not user and is_captured(user) and recording_of(user) is None:
        raise drv.error_of(
            cydriver.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuMemAllocFromPoolAsync",
            "the stream is being captured: pass out= (and workspace=) so that nothing is allocated")
    buffer = Buffer.__new__(Buffer)
    buffer.nbytes = nbytes
    buffer.pool = pool
    buffer.allocator_ = allocator
    buffer.stream = stream
    buffer.writer_ = stream
    if nbytes > 0:
        pushed = pool.device.push()
        try:
            buffer.ptr_ = take_memory(pool, allocator, nbytes, stream)
            buffer.closed_ = False
            if n_recordings != 0:
                note_memory(user, buffer, True)         # taken for a graph, used by it or not
        finally:
            pool.device.pop(pushed)
        if watchers() & LEAKS:
            remember(buffer)
    else:
        buffer.closed_ = False
    return buffer


def allocate_buffer(MemoryPool pool not None, size_t nbytes, Stream stream not None):
    """Allocate from a pool; MemoryPool.allocate() calls it."""
    return allocate_from(pool, nbytes, stream)


cdef int defer(Buffer buffer) except -1:
    return defer_free(heir_of(buffer))


cdef bint bequeath(Buffer buffer) except -1:
    """Leave memory that a capture of ours uses to its graph, which will go on using it."""
    cdef Buffer heir
    cdef Recording recording = recording_with(buffer)
    if recording is None:
        return False
    heir = heir_of(buffer)
    recording.note(heir, recording.memory.pop(id(buffer))[1])
    return True


cdef Buffer heir_of(Buffer buffer):
    # The buffer itself may be in its destructor: another one inherits the memory, and the hold on the stream.
    cdef Buffer heir = Buffer.__new__(Buffer)
    heir.nbytes = buffer.nbytes
    heir.pool = buffer.pool
    heir.allocator_ = buffer.allocator_
    heir.stream = buffer.stream
    heir.writer_ = buffer.writer_
    heir.uses_ = buffer.uses_
    heir.ptr_ = buffer.ptr_
    heir.closed_ = False
    buffer.uses_ = None
    buffer.ptr_ = 0
    return heir


cdef int expect_buffer(object thing, str name) except -1:
    if not PyObject_CheckBuffer(thing):
        raise TypeError(f"{name}: expected an object with the buffer protocol, got {type(thing).__name__}")
    return 0


cdef int transfer(Buffer buffer, Py_buffer* view, Stream stream, bint to_device) except -1:
    cdef int pushed
    buffer.check_open()
    if <size_t>view.len != buffer.nbytes:
        raise ShapeError(f"{'source' if to_device else 'out'}: expected {buffer.nbytes} bytes, got {view.len}")
    if buffer.nbytes == 0:
        return 0
    pushed = buffer.pool.device.push()
    try:
        stream.refuse_in_capture("cuMemcpyHtoDAsync" if to_device else "cuMemcpyDtoHAsync")
        buffer.before(stream, to_device)
        if to_device:
            upload(buffer.ptr_, view.buf, buffer.nbytes, stream)
        else:
            with nogil:
                drv.memcpy_dtoh_async(view.buf, buffer.ptr_, buffer.nbytes, stream.handle_)
        buffer.after(stream, to_device)
        if not to_device:
            with nogil:
                drv.stream_synchronize(stream.handle_)
    finally:
        buffer.pool.device.pop(pushed)
    return 0
