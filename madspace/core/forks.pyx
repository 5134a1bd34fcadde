"""Side streams for work that may run beside other work: ``fork_streams`` and ``join_streams``."""
import _thread

cimport cython
from libc.stdint cimport uint64_t

from madspace.core cimport _driver as drv
from madspace.core._attach cimport attach
from madspace.core._foreign cimport complain
from madspace.core._numbers cimport whole_number
from madspace.core._recording cimport make_stream
from madspace.core._teardown cimport is_closed
from madspace.core.device cimport Device
from madspace.core.event cimport order_streams
from madspace.core.stream cimport Stream, foreign_stream

from madspace.core._refusal import refusal
from madspace.core.stream import to_stream

cdef enum:
    MOST = 1024                 # streams of one fork


cdef object changing = _thread.RLock()
cdef dict idle = {}             # {device id: [Stream, ...]}: nobody else has them
# {id of a capture: [Branch, ...]}. A stream that takes part in a capture is in it until its end: it can neither be
# destroyed nor used elsewhere before.
cdef dict captured = {}


# Keeps the stream that a side stream stands for, and gives it back once neither its user nor a buffer has it.
@cython.final
@cython.no_gc_clear
cdef class Branch:
    cdef Stream stream          # of the pool
    cdef Stream origin          # forked off
    cdef uint64_t capture       # in which that was; 0 for none
    cdef bint joined

    def __dealloc__(self):
        if self.stream is not None and not is_closed():
            put_back(self.stream)


cdef void put_back(Stream stream) noexcept:
    try:
        idle.setdefault(stream.device.id, []).append(stream)
    except MemoryError:
        pass                    # it is destroyed instead


cdef Stream take_stream(Device device):
    cdef list there = idle.get(device.id)
    if there:
        try:
            return there.pop()
        except IndexError:      # another thread was quicker
            pass
    return make_stream(device)


cdef uint64_t capture_of(Stream stream) except? 0:
    cdef uint64_t capture = 0
    cdef int pushed = stream.device.push()
    try:
        with nogil:
            drv.stream_get_capture_info(stream.handle_, &capture)
    finally:
        stream.device.pop(pushed)
    return capture


cdef int forget_ended() except -1:
    """Let go of what took part in captures that are over."""
    cdef Branch branch
    for capture in list(captured):
        branches = captured.get(capture)
        # A fork that failed, or a capture that was broken, may have left some of them outside.
        if branches and not any([capture_of((<Branch>branch).stream) == capture for branch in branches]):
            captured.pop(capture, None)
    return 0


cdef str end_forks(uint64_t capture):
    cdef Branch branch
    cdef dict counts = {}
    for branch in captured.pop(capture, ()):
        if not branch.joined:
            counts[branch.origin] = counts.get(branch.origin, 0) + 1
    return ", ".join([f"{n} of the streams that fork_streams() forked off {origin!r} were not joined, call "
                      "join_streams() before the capture ends" for origin, n in counts.items()])


cdef Stream branch_off(Stream origin, uint64_t capture):
    cdef Branch branch = Branch.__new__(Branch)
    branch.origin, branch.capture = origin, capture
    branch.stream = take_stream(origin.device)
    if capture != 0:
        captured.setdefault(capture, []).append(branch)
    order_streams(origin, branch.stream)
    return foreign_stream(origin.device, branch.stream.handle_, branch)


cdef int join_one(Stream stream, Stream side) except -1:
    cdef Branch branch
    if isinstance(side.owner_, Branch):
        branch = side.owner_
        order_streams(side, stream)
        branch.joined = True
        side.close()            # its stream may be another fork's from now on
    else:
        order_streams(side, stream)
    return 0


@cython.final
cdef class Fork:
    """Side streams of a stream, from ``madspace.fork_streams``: a sequence of Streams, and a context manager.

    At the end of its ``with`` block, also after an exception, those that are open are joined.

    Attributes
    ----------
    origin : Stream
        The stream that they were forked off.
    """
    cdef readonly Stream origin
    cdef tuple sides

    def __init__(self):
        raise TypeError("Fork: use madspace.fork_streams(stream, n)")

    def __len__(self):
        return len(self.sides)

    def __getitem__(self, index):
        return self.sides[index]

    def __iter__(self):
        return iter(self.sides)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        try:
            self.join()
        except Exception as error:
            if kind is None:
                raise
            # What went wrong inside is what the caller needs to know.
            complain(f"the side streams of {self.origin!r} could not be joined: {error}")

    def __repr__(self):
        n_open = sum([not (<Stream>side).closed_ for side in self.sides])
        return f"<Fork of {self.origin!r}, {len(self.sides)} streams, {n_open} not joined>"

    cdef int join(self) except -1:
        return join_all(self.origin, [side for side in self.sides if not (<Stream>side).closed_])


attach(Fork, "__new__", refusal("Fork: use madspace.fork_streams(stream, n)"))


cdef int join_all(Stream stream, list sides) except -1:
    cdef Stream side
    error = None
    for side in sides:
        try:
            join_one(stream, side)
        except Exception as failure:        # the others are joined all the same
            error = error or failure
    if error is not None:
        raise error
    return 0


def fork_streams(stream, n):
    """Fork streams off a stream: what is queued on them may run beside each other and beside what follows on it.

    Parameters
    ----------
    stream : Stream, int, or any object that ``to_stream`` takes
        The origin. All that is queued on it so far comes before the work on the side streams.
    n : int
        How many, 1 to 1024.

    Returns
    -------
    Fork
        A sequence of `n` Streams of the same device, for ``join_streams``; as a context manager it joins them to the
        origin at the end of the block, also after an exception.

    Raises
    ------
    TypeError, ValueError
        For what is no stream, and another number.
    ClosedError
        When the stream is closed.
    DriverError
        When the driver refuses an event or a stream; what was forked by then is joined.

    Notes
    -----
    Asynchronous: the order is made by events on the device. The side streams come from a pool and do not synchronise
    with the legacy default stream. They end with the join; buffers that were allocated on them stay.

    In a capture the side streams take part, and must be joined before it ends: otherwise the end of a
    ``madspace.capture`` raises a CaptureError that names the fork, and everything can be captured again.

    Examples
    --------
    >>> import madspace
    >>> def run_both(one, other, inputs, stream):
    ...     with madspace.fork_streams(stream, 2) as sides:
    ...         return one.map_forward(inputs, stream=sides[0]), other.map_forward(inputs, stream=sides[1])
    """
    cdef Stream origin = to_stream(stream)
    cdef Fork fork = Fork.__new__(Fork)
    cdef list sides = []
    cdef uint64_t capture
    number = whole_number(n, "n")
    if not 1 <= number <= MOST:
        raise ValueError(f"n: expected 1 to {MOST} streams, got {number}")
    with changing:
        if captured:
            forget_ended()
        capture = capture_of(origin)
        try:
            for _ in range(number):
                sides.append(branch_off(origin, capture))
        except BaseException:
            join_all(origin, sides)
            raise
    fork.origin, fork.sides = origin, tuple(sides)
    return fork


def join_streams(stream, streams):
    """Make a stream wait, on the device, for all that is queued on others so far.

    Parameters
    ----------
    stream : Stream, int, or any object that ``to_stream`` takes
        The one whose later work comes behind theirs; mostly the origin of the fork.
    streams : Fork, or iterable of Stream
        Side streams, which end with this, or other ones, which do not.

    Raises
    ------
    CaptureError
        When one is being captured and the other is not.
    ClosedError
        When one of them is closed, as side streams are after a join. Nothing is joined then.
    TypeError, ValueError
        For what is no stream.
    DriverError
        When the driver refuses a wait; the others are joined all the same.

    Notes
    -----
    Asynchronous: the host does not wait.
    """
    cdef Stream where = to_stream(stream)
    cdef list sides = []
    if isinstance(streams, Stream) or not hasattr(streams, "__iter__"):
        raise TypeError(f"streams: expected streams, as from fork_streams(), got {type(streams).__name__}")
    for side in streams:
        sides.append(to_stream(side, None if isinstance(side, Stream) else where.device))
    where.check_open()          # again: the lines above may run code of the caller
    join_all(where, sides)
