"""Workspaces: scratch memory that belongs to the caller, and that ops use in turn."""
cimport cython
from libc.stdint cimport uintptr_t

from madspace.core._dlpack_abi cimport DEVICE_CPU
from madspace.core._lease cimport Lease
from madspace.core._scratch cimport allocate, borrow, checked_size, growth_stream, refuse_in_capture, view_of
from madspace.core.device cimport Device, get_device
from madspace.core.regions cimport REGION_ALIGNMENT, WorkspaceLayout
from madspace.core.stream cimport Stream

from madspace.core.device import as_device_or_host
from madspace.errors import ClosedError, DeviceMismatchError, WorkspaceError

cdef enum:
    HOST_ALIGNMENT = 16         # what arrays on the host have, whoever made them

# Layouts and workspaces are met in the same place.
globals()["WorkspaceLayout"] = WorkspaceLayout


@cython.final
@cython.freelist(8)
cdef class Workspace:
    """Scratch memory for ops that take ``workspace=``, allocated once and used again and again.

    Parameters
    ----------
    nbytes : int
        Bytes; see the op for how many it needs, or `largest_request` after a run.
    device : Device, int or str, optional
        Where the memory is: a CUDA device, or ``"cpu"`` for ops on the host. The stream's device, else device 0, if
        left out.
    stream : Stream, int, or any object that ``to_stream`` takes, optional
        Stream of the allocation; the one that ``get_stream`` tells if left out.

    Attributes
    ----------
    nbytes : int
        Its size.
    largest_request : int
        The most bytes that any op, ``require`` or ``carve`` has asked of it, also where that was too much: the size
        that is needed.
    borrowed : bool
        Whether the memory is another array's, see ``wrap``.

    Raises
    ------
    OutOfMemoryError, CaptureError, DeviceMismatchError, ClosedError
        As from ``MemoryPool.allocate``.
    WorkspaceError
        For a negative size.

    Notes
    -----
    The contents are undefined before and after each use; nothing may be kept there from one call to the next.

    Ops may share a workspace on any streams and from any threads. A use on another stream than the one before waits
    for that one, on the device. Within one CUDA graph capture the same holds among the uses of that capture; uses in
    two captures at the same time are refused. How a graph's launches are ordered with other uses is up to its owner:
    ``madspace`` graphs do it themselves. A stream known by its handle alone (an int) is not asked whether its capture
    still goes on, since it may be gone.

    With ``MADSPACE_POISON=1`` in the environment a workspace is filled with the byte 0xFF, NaN in every float type,
    when it is made, after every use, and when its memory goes back.
    """

    def __init__(self, nbytes, device=None, stream=None):
        if self.nbytes or self.lease_ is not None:
            raise TypeError("Workspace: __init__ was called twice")
        size = checked_size(nbytes)
        if device is None:
            self.device_ = (<Stream>stream).device if isinstance(stream, Stream) else get_device(0)
        else:
            self.device_ = as_device_or_host(device)
            if self.device_ is None and stream is not None:
                raise ValueError(f"stream: expected None on the cpu, got {stream!r}")
        self.lease_ = allocate(self.device_, size, stream)
        self.nbytes = size

    @staticmethod
    def wrap(array):
        """Use the memory of an array.

        Parameters
        ----------
        array : array_like, uint8, contiguous, writable, of any shape
            Tensor, torch.Tensor, CuPy or NumPy array, or what else speaks DLPack, ``__cuda_array_interface__`` or the
            buffer protocol. It is kept alive.

        Returns
        -------
        Workspace
            On the array's device. The first use waits, on the device, for what the array's owner has queued so far on
            its stream. What is done with the array outside of ops is ordered with later uses only by the streams, but
            for a Tensor, which keeps account of its uses itself.

        Raises
        ------
        WorkspaceError
            When the array is not one of uint8, contiguous and writable.
        TypeError, BufferError, DTypeError
            As from ``asarray``.
        """
        return borrowed(borrow(array, None, "array", True))

    @property
    def ptr(self):
        """Address of the first byte, an int; 0 without bytes and after close()."""
        return 0 if self.lease_ is None else <uintptr_t>self.lease_.tensor.data_

    @property
    def device(self):
        """``"cpu"``, or the Device that holds the memory."""
        return "cpu" if self.device_ is None else self.device_

    @property
    def device_id(self):
        """Number of the CUDA device, None on the host."""
        return None if self.device_ is None else (<Device>self.device_).id

    @property
    def stream(self):
        """The Stream that used it last (or on which it was allocated); None on the host and after close()."""
        return None if self.lease_ is None else self.lease_.stream

    @property
    def closed(self):
        """Whether close() was called."""
        return self.lease_ is None

    def __len__(self):
        return self.nbytes

    def require(self, nbytes, *, stream=None):
        """Make sure of a size: grow where it is smaller, without keeping the contents.

        Parameters
        ----------
        nbytes : int
            Bytes that are needed at least.
        stream : Stream, int, or any object that ``to_stream`` takes, optional
            Stream of a new allocation. If left out: that of a ``madspace.stream`` block, else that of the present one.

        Raises
        ------
        WorkspaceError
            When borrowed memory is too small, or within a use of this thread.
        CaptureError
            When it would have to grow while the stream is being captured, or during a capture that has used it.
        OutOfMemoryError
            When there is no room for the new memory beside the old.
        ClosedError
            When the workspace is closed.

        Notes
        -----
        Asynchronous. The old memory goes back behind its last use; after an error the workspace is as before.
        """
        cdef Lease old
        cdef Lease new
        cdef Stream where = None
        self.check_open()
        size = checked_size(nbytes)
        self.largest_request = max(self.largest_request, size)
        if size <= self.nbytes:
            return
        if self.borrowed:
            raise WorkspaceError(
                f"workspace: too small: expected at least {size} bytes, got {self.nbytes} borrowed ones")
        old = take_over(self)
        try:
            if size <= self.nbytes:     # by another thread, meanwhile
                return
            if self.device_ is not None:
                where = growth_stream(old, stream)
                refuse_in_capture(old, where)
            new = allocate(self.device_, size, where)
            old.settle()
            self.lease_ = new
            self.nbytes = size
            old.end()
        finally:
            old.leave()

    def tensor(self):
        """Give the bytes as a Tensor.

        Returns
        -------
        Tensor, shape (nbytes,), uint8
            A view, which keeps the memory. From now on each use is also ordered with those of the view.

        Raises
        ------
        CaptureError
            When a stream that used the workspace before is being captured.
        ClosedError
            When the workspace is closed.
        """
        self.check_open()
        return view_of(self.lease_, <char*>self.lease_.tensor.data_, self.nbytes)

    def carve(self, WorkspaceLayout layout not None):
        """Deal the regions of a layout.

        Parameters
        ----------
        layout : WorkspaceLayout
            The regions; they need ``layout.nbytes`` bytes.

        Returns
        -------
        list of Tensor, each of shape (size,), uint8
            Views, in the order of the regions; see ``tensor``.

        Raises
        ------
        WorkspaceError
            When the workspace is too small or not aligned as the layout asks.
        CaptureError, ClosedError
            As from ``tensor``.
        """
        cdef size_t i
        self.check(self.device_, layout.nbytes, None, "workspace", layout.alignment)
        return [view_of(self.lease_, self.region(layout, i), layout.sizes[i]) for i in range(layout.sizes.size())]

    cpdef int check(self, Device device, size_t nbytes, Stream stream=None, str name="workspace",
                    size_t alignment=0) except -1:
        """Check that a call can use the workspace; what ops do before they queue anything.

        Parameters
        ----------
        device : Device or None
            Of the call, None for the CPU.
        nbytes : int
            Bytes that it needs.
        stream : Stream, optional
            Of the call.
        name : str, optional
            The argument, for messages.
        alignment : int, optional
            Bytes that the address must be a multiple of; 256 if 0. On the host 16 are enough.

        Raises
        ------
        WorkspaceError
            When it lies on another device, is too small, or is not aligned.
        ClosedError
            When the workspace or the stream is closed.
        DeviceMismatchError
            When the stream is of another device.
        """
        cdef uintptr_t address
        if nbytes > self.largest_request:
            self.largest_request = nbytes
        if self.lease_ is None:
            raise ClosedError(f"{name}: expected an open workspace, got {self!r}")
        if self.device_ is not device:
            wanted = "memory of the CPU" if device is None else f"a CUDA tensor or Workspace of cuda:{device.id}"
            given = "the CPU" if self.device_ is None else f"cuda:{self.device_id}"
            raise WorkspaceError(f"{name}: expected {wanted}, got memory of {given}")
        if stream is not None:
            stream.check_open()
            if stream.device is not device:
                raise DeviceMismatchError(
                    f"stream: expected {'None on the CPU' if device is None else f'one of device {device.id}'}, "
                    f"got {stream!r}")
        if nbytes > self.nbytes:
            raise WorkspaceError(f"{name}: too small: expected at least {nbytes} bytes, got {self.nbytes}")
        if alignment == 0:
            alignment = REGION_ALIGNMENT
        if device is None and alignment > HOST_ALIGNMENT:
            alignment = HOST_ALIGNMENT
        address = <uintptr_t>self.lease_.tensor.data_
        if address % alignment:
            raise WorkspaceError(f"{name}: expected an address aligned to {alignment} bytes, got {address:#x}")
        return 0

    cpdef int before(self, Stream stream) except -1:
        """Begin a use: later work of the stream comes behind the use before, on the device.

        For authors of ops; between the two calls the workspace belongs to the calling thread, and others wait.

        Parameters
        ----------
        stream : Stream or None
            Of the work, None on the host.

        Raises
        ------
        CaptureError
            When the stream is in another capture than a use before whose capture still goes on, or is not being
            captured and the stream of the use before is. Nothing was queued then.
        ClosedError
            When the workspace or the stream is closed.
        """
        cdef Lease lease
        while True:
            self.check_open()
            lease = self.lease_
            lease.before(stream)
            if lease is self.lease_:
                return 0
            lease.leave()       # it grew or was closed while this thread waited

    cpdef int after(self, Stream stream) except -1:
        """End a use, with the stream given to ``before``, also where the work could not be queued (``finally``).

        WorkspaceError without a ``before`` of this thread.
        """
        self.check_open()
        return self.lease_.after(stream)

    def close(self):
        """Give the memory back behind its last use, or let go of a borrowed array; idempotent.

        Views of it keep it. Where one of its streams is being captured it goes back later.

        Raises
        ------
        WorkspaceError
            Within a use of this thread.
        """
        cdef Lease lease
        if self.lease_ is None:
            return
        lease = take_over(self)
        try:
            self.lease_ = None
            lease.end()
        finally:
            lease.leave()

    def __enter__(self):
        self.check_open()
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __repr__(self):
        where = "the CPU" if self.device_ is None else f"device {self.device_id}"
        state = "closed" if self.lease_ is None else "borrowed" if self.borrowed else "open"
        return f"<Workspace {self.ptr:#x} of {self.nbytes} bytes on {where}, {state}>"

    cdef int check_open(self) except -1:
        if self.lease_ is None:
            raise ClosedError(f"workspace: expected an open workspace, got {self!r}")
        return 0

    cdef char* region(self, WorkspaceLayout layout, Py_ssize_t index) except? NULL:
        self.check_open()
        layout.check_index(index)
        if layout.offsets[index] + layout.sizes[index] > self.nbytes:
            raise WorkspaceError(
                f"workspace: too small: expected at least {layout.offsets[index] + layout.sizes[index]} bytes for "
                f"region {index}, got {self.nbytes}")
        return <char*>self.lease_.tensor.data_ + layout.offsets[index]


cdef Lease take_over(Workspace workspace):
    """The lease, when no call is in the middle of a use any more; to be left again."""
    cdef Lease lease
    while True:
        workspace.check_open()
        lease = workspace.lease_
        lease.take_turn(None)
        if lease.depth > 1:
            lease.leave()
            raise WorkspaceError("workspace: expected no use by this thread to go on, got a before() without after()")
        if lease is workspace.lease_:
            return lease
        lease.leave()


cdef Workspace as_workspace(object array, Stream stream, str name):
    if type(array) is Workspace:
        return <Workspace>array
    return borrowed(borrow(array, stream, name, False))


cdef Workspace borrowed(Lease lease):
    cdef Workspace workspace = Workspace.__new__(Workspace)
    if lease.tensor.device_type_ != DEVICE_CPU:
        workspace.device_ = get_device(lease.tensor.device_id_)
    workspace.borrowed = True
    workspace.nbytes = lease.tensor.count()
    workspace.lease_ = lease
    return workspace


def take_workspace(array, *, Stream stream=None, str name="workspace"):
    """Turn an op's argument into a Workspace for one call: a Workspace as it is, a plain uint8 array borrowed.

    Of a plain array only the memory is looked at: that calls on several streams do not overlap in it is up to the
    caller. WorkspaceError unless it is uint8, contiguous and writable; `name` is the argument, for messages.
    """
    return as_workspace(array, stream, name)
