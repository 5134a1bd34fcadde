"""The stream of calls that name none: ``with madspace.stream(s)``, ``get_stream``, ``set_stream``."""
cimport cython
from cpython.contextvars cimport PyContextVar_New, PyContextVar_Set, get_value_no_default
from cpython.ref cimport PyObject
from libc.stdint cimport uintptr_t

from cuda.bindings.cydriver cimport CUdevice, CUstream

from madspace.core cimport _driver as drv
from madspace.core._attach cimport attach
from madspace.core.device cimport Device, get_device
from madspace.core.stream cimport Stream, as_stream, foreign_stream, own_stream

from madspace.core._refusal import refusal
from madspace.core.device import as_device
from madspace.errors import StreamScopeError


cdef extern from *:
    """
    static inline PyObject* ms_running_frame(void) { return (PyObject*)PyEval_GetFrame(); }
    """
    PyObject* ms_running_frame()            # borrowed; NULL where no Python runs


cdef enum:
    PER_THREAD = 2              # handles up to it mean another stream on each device
    SUSPENDABLE = 0x2A0         # code flags of generators, coroutines and asynchronous generators


# One link of the chain of choices, innermost first. Links do not change: tasks share them by their copied contexts.
@cython.final
@cython.freelist(8)
cdef class Choice:
    cdef Stream stream          # None: back to no choice, whatever is further out
    cdef bint everywhere        # a default stream by its handle alone: that of every device
    cdef StreamScope scope      # the block it was made in; None outside of all
    cdef Choice outer


# A context variable: each thread and each asyncio task has its own value, the innermost Choice or None.
cdef object current = PyContextVar_New("madspace.stream", NULL)
cdef bint used = False          # whether anybody has ever chosen


cdef Choice link(Stream stream, bint everywhere, StreamScope scope, Choice outer):
    cdef Choice choice = Choice.__new__(Choice)
    choice.stream, choice.everywhere, choice.scope, choice.outer = stream, everywhere, scope, outer
    return choice


cdef Stream chosen_stream(Device device):
    cdef Choice choice
    if not used:
        return None
    choice = <Choice>get_value_no_default(current, None)
    while choice is not None:
        if choice.stream is None:
            return None
        if choice.stream.device is device:
            choice.stream.check_open()
            return choice.stream
        if choice.everywhere:
            return foreign_stream(device, choice.stream.handle_, None)
        choice = choice.outer
    return None


cdef Stream pick_stream(object stream, Device device, Stream fallback=None):
    cdef Stream chosen
    if stream is not None:
        return as_stream(stream, device)
    chosen = chosen_stream(device)
    if chosen is not None:
        return chosen
    return own_stream(device) if fallback is None else fallback


cdef Choice choice_of(object stream, object device, StreamScope scope, Choice outer):
    """A link for what the caller calls a stream."""
    cdef Stream chosen
    if isinstance(stream, Stream):
        return link(as_stream(stream, (<Stream>stream).device if device is None else as_device(device)), False, scope,
                    outer)
    if device is None:
        device = getattr(stream, "device_index", None)      # torch's streams tell
    if device is not None:
        return link(as_stream(stream, as_device(device)), False, scope, outer)
    chosen = as_stream(stream, get_device(0))
    if <uintptr_t>chosen.handle_ <= PER_THREAD:
        return link(chosen, True, scope, outer)
    chosen = on_its_device(chosen)
    return link(chosen, False, scope, outer)


cdef Stream on_its_device(Stream stream):
    """The stream of device 0 as one of the device that the driver tells for its handle."""
    cdef CUstream handle = stream.handle_
    cdef CUdevice actual = stream.device.handle_
    cdef int pushed = stream.device.push()
    try:
        with nogil:
            if not drv.stream_is_capturing(handle):     # the driver does not tell for a captured one
                drv.stream_get_device(handle, &actual)
    finally:
        stream.device.pop(pushed)
    if actual == stream.device.handle_:
        return stream
    return foreign_stream(get_device(actual), handle, stream.owner_)


@cython.final
cdef class StreamScope:
    """A block whose calls use a stream, from ``madspace.stream(s)``; a context manager that gives the Stream."""
    cdef Choice choice
    cdef bint entered
    cdef bint dropped           # a block further out has ended first, and said so
    cdef object frame           # of the generator or coroutine that entered it, else None

    def __init__(self):
        raise TypeError("StreamScope: use madspace.stream(s)")

    def __enter__(self):
        global used
        cdef PyObject* frame = ms_running_frame()
        if self.entered:
            raise StreamScopeError("stream: expected a block that is not entered, call madspace.stream() for each")
        if self.choice.stream is not None:
            self.choice.stream.check_open()
        used = True
        PyContextVar_Set(current, link(self.choice.stream, self.choice.everywhere, self,
                                       get_value_no_default(current, None)))
        self.entered, self.dropped = True, False
        if frame is not NULL and (<object>frame).f_code.co_flags & SUSPENDABLE:
            self.frame = <object>frame
        return self.choice.stream

    def __exit__(self, kind, value, traceback):
        cdef Choice innermost = get_value_no_default(current, None)
        if not self.entered:
            raise StreamScopeError("stream: expected a block that was entered, got one that was not or that has ended")
        self.entered, self.frame = False, None
        if innermost is not None and innermost.scope is self:
            PyContextVar_Set(current, behind(innermost, self))
            return
        if self.dropped:
            return
        if not holds(innermost, self):
            raise StreamScopeError(
                f"stream: the block of {self.choice.stream!r} ended in another thread or task than it began in; the "
                "choice there is left as it is")
        PyContextVar_Set(current, repaired(innermost, self))
        raise StreamScopeError(
            f"stream: expected blocks to end in the order of their nesting, got the end of that of "
            f"{self.choice.stream!r} before that of {innermost.stream!r} (a generator suspended in a block does that); "
            "the order is repaired")


attach(StreamScope, "__new__", refusal("StreamScope: use madspace.stream(s)"))


cdef Choice behind(Choice choice, StreamScope scope):
    """What was chosen before the block, with all that set_stream() chose in it taken back."""
    while choice is not None and choice.scope is scope:
        choice = choice.outer
    return choice


cdef bint holds(Choice choice, StreamScope scope):
    while choice is not None:
        if choice.scope is scope:
            return True
        choice = choice.outer
    return False


cdef Choice repaired(Choice choice, StreamScope ending):
    """The chain without a block in its midst, and without those in it that suspended generators hold open."""
    cdef Choice kept
    if choice.scope is ending:
        return behind(choice, ending)
    kept = repaired(choice.outer, ending)
    if choice.scope is not None and is_suspended(choice.scope.frame):
        choice.scope.dropped = True
        return kept
    return link(choice.stream, choice.everywhere, choice.scope, kept)


cdef bint is_suspended(object frame):
    """Whether the frame, of a generator, is not among those that run now."""
    cdef PyObject* running = ms_running_frame()
    caller = <object>running if running is not NULL else None
    if frame is None:
        return False
    while caller is not None:
        if caller is frame:
            return False
        caller = caller.f_back
    return True


def stream(stream, device=None):
    """Use a stream for all calls of a block that name none: ``with madspace.stream(s):``.

    Parameters
    ----------
    stream : Stream, int, torch.cuda.Stream or any object with ``__cuda_stream__``
        An int is a driver handle; 0 and 1 are the legacy default stream, 2 the per-thread one.
    device : Device, int or str, optional
        The device that it belongs to, where neither the object nor the driver tells. Default streams that are given
        by their handle alone are those of every device.

    Returns
    -------
    StreamScope
        A context manager that gives the Stream, for one block at a time.

    Raises
    ------
    TypeError, ValueError
        For what is no stream, None among it.
    DeviceMismatchError
        When it belongs to another device than `device`.
    ClosedError
        When it is closed: here, at the start of the block, or in a call of the block.
    StreamScopeError
        At the end, when blocks were left in another order than that of their nesting, as by a generator that is
        suspended in one. The order is repaired first: after the block the stream is the one from before it.

    Notes
    -----
    A call takes the stream from its ``stream=`` argument, else from the innermost block whose stream is of the call's
    device, else from the framework that owns its first array, else it takes the device's own. Each thread and each
    asyncio task has its own choice; a task starts with that of its creator. Calls without a block in the process pay
    one comparison. Kernels that are bound keep the stream that they were bound to.

    Examples
    --------
    >>> import madspace
    >>> def run_beside(mapping, inputs, side):
    ...     with madspace.stream(side):
    ...         return mapping.map_forward(inputs)
    """
    cdef StreamScope scope = StreamScope.__new__(StreamScope)
    scope.choice = choice_of(stream, device, None, None)
    return scope


def get_stream(device=None):
    """Tell the stream that a call here would use for arrays which no framework owns.

    Parameters
    ----------
    device : Device, int or str, optional
        The call's device; that of the innermost choice if left out, else device 0.

    Returns
    -------
    Stream
        The chosen one, else the device's own.

    Raises
    ------
    ClosedError
        When the chosen stream was closed.
    """
    cdef Choice innermost = get_value_no_default(current, None)
    if device is None and innermost is not None and innermost.stream is not None:
        return pick_stream(None, innermost.stream.device)
    return pick_stream(None, get_device(0) if device is None else as_device(device))


def set_stream(stream, device=None):
    """Choose the stream of later calls that name none, in this thread or asyncio task.

    Parameters
    ----------
    stream : Stream, int, torch.cuda.Stream, any object with ``__cuda_stream__``, or None
        As for ``stream``; None takes back what was chosen, for all devices.
    device : Device, int or str, optional
        As for ``stream``.

    Raises
    ------
    TypeError, ValueError, DeviceMismatchError, ClosedError
        As from ``stream``.

    Notes
    -----
    In a ``with madspace.stream(s)`` block it counts until the end of the block, then the choice from before the block
    is back.
    """
    global used
    cdef Choice innermost = get_value_no_default(current, None)
    cdef StreamScope scope = None if innermost is None else innermost.scope
    cdef Choice outer
    cdef Choice made
    if stream is None:
        outer = behind(innermost, scope)
        made = None if scope is None else link(None, False, scope, outer)
    else:
        made = choice_of(stream, device, scope, None)
        made.outer = without_device(innermost, scope, made)
    used = True
    PyContextVar_Set(current, made)


cdef Choice without_device(Choice choice, StreamScope scope, Choice instead):
    """The chain without what was chosen in this block for the same device, so that it does not grow."""
    if choice is None or choice.scope is not scope:
        return choice
    if choice.stream is not None and (instead.everywhere or choice.stream.device is instead.stream.device):
        return without_device(choice.outer, scope, instead)
    return link(choice.stream, choice.everywhere, scope, without_device(choice.outer, scope, instead))
