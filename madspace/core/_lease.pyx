"""Memory that streams use in turn: each use behind the one before it, whoever queues it."""
cimport cython
from cpython.pythread cimport PyThread_get_thread_ident
from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUcontext, CUdeviceptr
from libc.stdint cimport uint64_t, uintptr_t
from libc.string cimport memset

from madspace.core cimport _driver as drv
from madspace.core._dlpack_abi cimport DEVICE_CUDA
from madspace.core._foreign cimport complain
from madspace.core._recording cimport n_recordings, note_memory
from madspace.core._teardown cimport is_closed, refuse
from madspace.core._uses cimport PER_THREAD, Use, finish, is_captured, is_same, new_use, wait_for
from madspace.core.event cimport order_streams
from madspace.core.pool cimport defer_free
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport Tensor

from madspace.core._environment import is_on
from madspace.errors import CaptureError, WorkspaceError

cdef enum:
    LEGACY = 1
    NAN_BYTE = 0xFF         # four of them are a NaN, and so are eight

cdef int poison = -1        # not read yet
cdef list lost = []         # leases whose users could not be waited for


@cython.final
@cython.freelist(8)
@cython.no_gc_clear
cdef class Hold:
    def __dealloc__(self):
        if self.stream is not None:
            drv.report(self.stream.drop(), "cuStreamDestroy")


cdef Hold hold_on(Stream stream):
    """Keep a handle valid; None where that is not in our power, or where it means another stream in other threads."""
    cdef Hold hold
    cdef uintptr_t handle = <uintptr_t>stream.handle_
    if not stream.owned_ and stream.owner_ is None and handle != LEGACY or handle == PER_THREAD:
        return None
    stream.hold()
    hold = Hold.__new__(Hold)
    hold.stream = stream
    return hold


cdef bint poisons() except -1:
    global poison
    if poison < 0:
        poison = is_on("MADSPACE_POISON")
    return poison


cdef int fill(Tensor tensor, Stream stream) except -1:
    """Poison: what is read without having been written shows as NaN."""
    cdef size_t nbytes = tensor.count()
    cdef int pushed
    if nbytes == 0:
        return 0
    if stream is None:
        with nogil:
            memset(tensor.data_, NAN_BYTE, nbytes)
        return 0
    pushed = stream.device.push()
    try:
        with nogil:
            drv.memset_d8_async(<CUdeviceptr>tensor.data_, NAN_BYTE, nbytes, stream.handle_)
    finally:
        stream.device.pop(pushed)
    return 0


cdef uint64_t capture_of(Stream stream) except? 0:
    cdef uint64_t capture = 0
    cdef int status
    cdef int pushed = stream.device.push()
    try:
        with nogil:
            status = drv.stream_get_capture_info(stream.handle_, &capture)
    finally:
        stream.device.pop(pushed)
    if status == cydriver.CU_STREAM_CAPTURE_STATUS_INVALIDATED:
        raise drv.error_of(
            cydriver.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "cuStreamGetCaptureInfo", f"the capture of {stream!r}")
    return capture


cdef bint stays_away(Stream stream) except -1:
    """Whether the stream is in a capture, or is the legacy one and must not be touched because of one."""
    try:
        return is_captured(stream)
    except CaptureError:
        return True


@cython.final
@cython.no_gc_clear         # the destructor needs the members
cdef class Lease:
    def __dealloc__(self):
        cdef CUcontext context
        if self.tensor is None or is_closed():
            return
        try:
            if self.settle():
                self.poison()
            else:
                defer_free(heir_of(self))
        except Exception as error:
            # Rather lost than reused under those who still work on it.
            lost.append(heir_of(self))
            complain(f"the memory of a workspace was kept, since its last stream could not be waited for: {error}")
        if self.mark != NULL:
            context = self.tensor.work_stream().device.context_
            with nogil:
                drv.quiet_event_destroy(context, self.mark)

    cdef int before(self, Stream stream) except -1:
        self.take_turn(stream)
        try:
            if stream is not None:
                stream.check_open()
                if self.ordered:
                    self.order(stream)
                if self.shared:
                    self.tensor.before(stream, True)
            if self.fresh:
                fill(self.tensor, stream)
                self.fresh = False
        except BaseException:
            self.leave()
            raise
        self.stream = stream
        return 0

    cdef int after(self, Stream stream) except -1:
        if self.depth == 0 or self.holder != <unsigned long>PyThread_get_thread_ident():
            raise WorkspaceError("after: expected a before() of this thread, got none")
        try:
            try:
                if poisons():
                    fill(self.tensor, stream)
            finally:
                if stream is not None:
                    self.note_all(stream)
        finally:
            self.leave()
        return 0

    cdef int note_all(self, Stream stream) except -1:
        # Whatever fails: the others have been told.
        try:
            if n_recordings != 0:
                note_memory(stream, self, True)
        finally:
            try:
                if self.ordered:
                    self.note(stream)
            finally:
                if self.shared:
                    self.tensor.after(stream, True)
        return 0

    cdef int leave(self) except -1:
        self.depth -= 1
        if self.depth == 0:
            self.coming = None
            self.turn.unlock()
        return 0

    cdef int take_turn(self, Stream stream) except -1:
        # Between the two brackets the latest use is not noted yet: whoever came in then would not wait for it.
        cdef unsigned long me = <unsigned long>PyThread_get_thread_ident()
        if self.depth > 0 and self.holder == me:
            if stream is not None and not is_same(stream, self.stream):
                raise WorkspaceError(
                    f"workspace: expected {self.stream!r}, the stream of the call that uses it, got {stream!r}")
            self.depth += 1
            return 0
        if not self.turn.try_lock():
            if stream is not None and is_closed():      # in a forked child nobody may be left to unlock it
                refuse("cuStreamWaitEvent")
            with nogil:
                self.turn.lock()
        self.holder = me
        self.depth = 1
        return 0

    cdef int order(self, Stream stream) except -1:
        cdef Hold last = self.last
        self.now = capture_of(stream)
        if self.now != 0:
            return self.order_captured(stream)
        if last is None:
            if self.use is not None:
                wait_for(stream, self.use)
            self.coming = hold_on(stream)
        elif is_same(last.stream, stream):
            self.coming = last
        else:
            self.coming = hold_on(stream)
            if stays_away(last.stream):
                raise drv.error_of(
                    cydriver.CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "cuEventRecord",
                    f"workspace: {last.stream!r}, which used it last, is being captured, {stream!r} is not")
            order_streams(last.stream, stream)
        return 0

    cdef int order_captured(self, Stream stream) except -1:
        cdef int pushed
        if self.capture != self.now:
            if self.is_captured_now():
                raise drv.error_of(
                    cydriver.CUDA_ERROR_STREAM_CAPTURE_MERGE, "cuStreamWaitEvent",
                    f"workspace: used in the capture of {self.capturer.stream!r}, which still goes on, and now in "
                    f"another one, of {stream!r}")
            self.coming = hold_on(stream)
            return 0
        if self.capturer is not None and is_same(self.capturer.stream, stream):
            self.coming = self.capturer
            return 0
        if not self.is_marked:
            raise drv.error_of(
                cydriver.CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "cuStreamWaitEvent",
                "workspace: its last use in this capture could not be noted, so that no other stream can wait for it")
        self.coming = hold_on(stream)
        pushed = stream.device.push()
        try:
            with nogil:
                drv.stream_wait_event(stream.handle_, self.mark)
        finally:
            stream.device.pop(pushed)
        return 0

    cdef bint is_captured_now(self) except -1:
        # A stream that took part in a capture is in it until it ends.
        return self.capture != 0 and self.capturer is not None and capture_of(self.capturer.stream) == self.capture

    cdef int note(self, Stream stream) except -1:
        cdef int pushed
        cdef Use use = None
        if self.now == 0:
            if self.coming is None:
                # One that is kept valid gets its event when another stream comes, if ever.
                try:
                    use = new_use(None, stream)
                except Exception:
                    finish(stream)
                    self.use = self.last = None
                    raise
            self.use, self.last = use, self.coming
            return 0
        self.capture = self.now
        self.capturer = self.coming
        self.is_marked = False
        pushed = stream.device.push()
        try:
            with nogil:
                if self.mark == NULL:
                    drv.event_create(&self.mark, cydriver.CU_EVENT_DISABLE_TIMING)
                drv.event_record(self.mark, stream.handle_)
        finally:
            stream.device.pop(pushed)
        self.is_marked = True
        return 0

    cdef int share(self) except -1:
        if self.shared or self.tensor.device_type_ != DEVICE_CUDA:
            return 0
        if not self.settle():
            raise drv.error_of(
                cydriver.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuStreamWaitEvent",
                f"workspace: {self.stream!r}, which used it last, or {self.tensor.work_stream()!r} is being captured")
        self.shared = True
        return 0

    cdef int end(self) except -1:
        if self.settle() and self.is_ours_alone():
            self.poison()
            if self.tensor.buffer_ is not None:
                self.tensor.buffer_.close()
        return 0

    cdef bint is_ours_alone(self) noexcept:
        # A graph may have what was used in a capture.
        return self.owned and not self.shared and self.capture == 0

    cdef int poison(self) except -1:
        if poisons() and self.is_ours_alone() and (self.tensor.buffer_ is None or not self.tensor.buffer_.closed_):
            fill(self.tensor, self.tensor.work_stream())
        return 0

    cdef bint settle(self) except -1:
        """Put the stream on which the memory is freed behind the last use; False: not while that is being captured."""
        cdef Stream home = self.tensor.work_stream()
        cdef Hold last = self.last
        if home is None:
            return True
        if self.use is not None or last is not None and not is_same(last.stream, home):
            if stays_away(home) or last is not None and stays_away(last.stream):
                return False
            if last is None:
                wait_for(home, self.use)
            else:
                order_streams(last.stream, home)
            # Whatever comes now waits for the home stream.
            self.use = None
            self.last = None
        return True


cdef Lease heir_of(Lease lease):
    """Move what is owned into a new object: this one is in its destructor."""
    cdef Lease heir = Lease.__new__(Lease)
    heir.tensor, heir.last, heir.use = lease.tensor, lease.last, lease.use
    heir.owned, heir.shared, heir.capture = lease.owned, lease.shared, lease.capture
    return heir


cdef Lease lease_of(Tensor tensor, bint owned, bint ordered):
    cdef Lease lease = Lease.__new__(Lease)
    cdef Stream home = tensor.work_stream()
    lease.tensor = tensor
    lease.owned = owned
    lease.ordered = ordered
    lease.stream = home
    lease.shared = not owned and tensor.buffer_ is not None
    if home is not None and ordered and not lease.shared:
        # What was queued before on the stream on which the memory came: the allocation, its producer's work.
        lease.last = hold_on(home)
        if lease.last is None and capture_of(home) == 0:
            lease.use = new_use(None, home)
    if poisons():
        lease.fresh = True
        if owned:
            fill(tensor, home)
            lease.fresh = False
    return lease
