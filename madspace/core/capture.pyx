"""Captures of our own: work that is put into a graph instead of being run."""
cimport cython
from libc.stdint cimport uintptr_t
from libcpp.vector cimport vector

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUcontext, CUgraph, CUgraphNode, CUresult, CUstream, CUstreamCaptureMode

from madspace.core cimport _driver as drv
from madspace.core cimport _driver_graphs as graphs
from madspace.core._attach cimport attach
from madspace.core._recording cimport Recording, begin_recording, end_recording
from madspace.core.event cimport order_streams
from madspace.core.forks cimport end_forks
from madspace.core.graph cimport Graph, new_graph
from madspace.core.graph_node cimport node_handles, nodes_of
from madspace.core.pool cimport free_deferred
from madspace.core.stream cimport Stream

from madspace.core._refusal import refusal
from madspace.core.stream import to_stream
from madspace.errors import CaptureError

cdef enum:
    LEGACY = 1

cdef dict MODES = {
    "global": cydriver.CU_STREAM_CAPTURE_MODE_GLOBAL,
    "thread_local": cydriver.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
    "relaxed": cydriver.CU_STREAM_CAPTURE_MODE_RELAXED,
}


# The destructor needs the members: the collector must not clear them first.
@cython.final
@cython.no_gc_clear
cdef class Capture:
    """A capture, from ``madspace.capture``; used once, in a ``with`` statement."""

    def __init__(self):
        raise TypeError("Capture: use madspace.capture(stream)")

    def __enter__(self):
        self.begin()
        return self.graph

    def __exit__(self, kind, value, traceback):
        if kind is not None:
            # What went wrong inside is what the caller needs to know.
            if self.recording is not None:
                self.cancel()
        else:
            self.finish()

    def __dealloc__(self):
        if self.recording is not None:
            drv.report(self.cancel(), "cuStreamEndCapture")
            if self.recording is not None:
                end_recording(self.recording)
                self.let_go()

    cdef int begin(self) except -1:
        cdef Recording recording
        cdef vector[CUgraphNode] after
        cdef CUstream stream = self.stream.handle_
        cdef int pushed, captured
        if self.recording is not None or (not self.into and not self.graph.is_awaited()):
            raise CaptureError("capture: expected a capture that was not used, call madspace.capture() for each")
        self.stream.check_open()
        if <uintptr_t>stream == LEGACY:
            raise drv.error_of(
                cydriver.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuStreamBeginCapture",
                "stream: expected any but the legacy default stream, which cannot be captured")
        if self.into:
            self.graph.check_open()
            after = node_handles(self.graph, self.after)
        recording = Recording.__new__(Recording)
        recording.stream = self.stream
        pushed = self.stream.device.push()
        try:
            with nogil:
                captured = drv.stream_is_capturing(stream)
            if captured:
                raise drv.error_of(
                    cydriver.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuStreamBeginCapture",
                    f"stream: expected one that is not being captured, got {self.stream!r}")
            with nogil:
                if self.into:
                    graphs.stream_begin_capture_to_graph(
                        stream, self.graph.handle_, after.data(), after.size(), self.mode)
                else:
                    graphs.stream_begin_capture(stream, self.mode)
            self.recording = recording
            self.graph.count_captures(1)
            try:
                self.stream.hold()      # its capture must be ended, also where the block closes it
                with nogil:
                    drv.stream_get_capture_info(stream, &recording.id)
                begin_recording(recording)
            except BaseException:
                self.cancel()
                raise
        finally:
            self.stream.device.pop(pushed)
        return 0

    cdef int finish(self) except -1:
        cdef CUgraph handle
        cdef Recording recording = self.recording
        cdef CUresult code
        if recording is None:
            raise CaptureError("capture: expected one that goes on, got one that was not begun or has ended")
        code = self.end(&handle)
        if code != cydriver.CUDA_SUCCESS:
            if self.recording is None:
                self.graph.closed_ = not self.into
                self.graph.operands.images.join(recording.images)       # of nodes that stay in a graph that was there
                self.let_go()
            what = self.unjoined if code == cydriver.CUDA_ERROR_STREAM_CAPTURE_UNJOINED else None
            raise drv.error_of(code, "cuStreamEndCapture", what or f"the capture of {self.stream!r}")
        if not self.into:
            self.graph.adopt(handle)
        self.graph.operands.take(recording)
        try:
            if recording.side is not None:
                # The memory that was taken there is used in the order of this stream from now on.
                order_streams(recording.side, self.stream)
        except BaseException:
            self.let_go()
            self.graph.close()
            raise
        self.let_go()
        return free_deferred()

    cdef CUresult cancel(self) noexcept:
        cdef CUgraph handle
        cdef Recording recording = self.recording       # whose code the graph has
        cdef CUresult code = self.end(&handle)
        cdef CUresult destroyed = cydriver.CUDA_SUCCESS
        if self.recording is not None:
            return code
        if self.into:
            self.graph.operands.images.join(recording.images)
        else:
            self.graph.closed_ = True
            if handle != NULL:
                with nogil:
                    destroyed = graphs.quiet_graph_destroy(handle)
                if destroyed != cydriver.CUDA_SUCCESS:
                    recording.images.lose()
        self.let_go()
        # A capture that was broken has ended as well.
        return cydriver.CUDA_SUCCESS if 900 <= <int>code < 909 else code

    cdef CUresult end(self, CUgraph* handle) noexcept:
        cdef CUcontext context = self.stream.device.context_
        cdef CUstream stream = self.stream.handle_
        cdef CUresult code
        cdef bint captured = False
        with nogil:
            code = graphs.quiet_stream_end_capture(context, stream, handle)
            if code != cydriver.CUDA_SUCCESS:
                # Where not even the call came through, the stream would stay captured for good.
                drv.quiet_is_capturing(context, stream, &captured)
                if captured:
                    graphs.quiet_stream_end_capture(context, stream, handle)
                    if handle[0] != NULL and not self.into:
                        graphs.quiet_graph_destroy(handle[0])
                    handle[0] = NULL
                    drv.quiet_is_capturing(context, stream, &captured)
        # In the wrong thread it goes on, for the right one to end it.
        if not captured:
            self.unjoined = end_forks(self.recording.id)
            end_recording(self.recording)
            self.recording = None
        return code

    cdef int let_go(self) noexcept:
        self.graph.count_captures(-1)
        drv.report(self.stream.drop(), "cuStreamDestroy")
        return 0


attach(Capture, "__new__", refusal("Capture: use madspace.capture(stream)"))


cdef Capture new_capture(Stream stream, CUstreamCaptureMode mode, Graph graph, bint into, tuple after):
    cdef Capture capture = Capture.__new__(Capture)
    capture.stream = stream
    capture.mode = mode
    capture.graph = graph
    capture.into = into
    capture.after = after
    return capture


def capture_node(Graph graph not None, Stream stream not None, tuple after not None, work):
    """Make one node of what ``work(stream)`` queues; the methods of Graph call it.

    Returns
    -------
    int
        The driver's handle of the node.
    """
    cdef CUgraphNode handle
    cdef CUgraphNode node = NULL
    cdef Capture capture = new_capture(stream, cydriver.CU_STREAM_CAPTURE_MODE_RELAXED, graph, True, after)
    capture.begin()
    try:
        work(stream)
        find_node(stream, &node)
    except BaseException:
        # What failed after it was queued must not be left in the graph.
        node = NULL
        find_node(stream, &node)
        capture.cancel()
        for handle in node_handles(graph, after):
            if handle == node:
                node = NULL
        if node != NULL:
            with nogil:
                graphs.graph_destroy_node(node)
        raise
    capture.finish()
    return <uintptr_t>node


cdef int find_node(Stream stream, CUgraphNode* node) except -1:
    cdef int pushed = stream.device.push()
    try:
        with nogil:
            graphs.stream_capture_tail(stream.handle_, node)
    finally:
        stream.device.pop(pushed)
    return 0


def capture(stream, mode="relaxed", *, Graph into=None, after=()):
    """Put the work of a block into a graph instead of running it: ``with madspace.capture(stream) as graph:``.

    Parameters
    ----------
    stream : Stream, int, or any object that ``to_stream`` takes
        What is queued on it in the block, by whichever library, becomes nodes of the graph, in the order of the stream.
        Streams that wait for it (``other.wait(stream)``) are captured with it and must be waited for before the end.
    mode : {"relaxed", "thread_local", "global"}, optional
        What else may happen meanwhile: calls that could disturb a capture, a plain memory allocation by another library
        say, break it in ``"global"`` mode if they come from any thread, in ``"thread_local"`` mode if from this one.
        What madspace does of this kind breaks none.
    into : Graph, optional
        Add the work to this graph, or to the body of a conditional node, instead of making a new one.
    after : iterable of GraphNode, optional
        Nodes of `into` that the work comes after; none by default.

    Returns
    -------
    Capture
        A context manager that gives the Graph: `into` if that is given, else a new one, complete at the end of the
        block.

    Raises
    ------
    CaptureError
        At the start: for the legacy default stream, and for a stream that is being captured. At the end: when a stream
        that took part was not joined, or an operation broke the capture; the message names the rule.
    DeviceMismatchError
        When `into` is of another device.
    ClosedError
        When the stream or `into` is closed.
    ValueError
        For another mode, and for `after` without `into`.

    Notes
    -----
    An exception in the block ends the capture and passes; the stream is as before. The thread that begins a capture
    must end it, but in relaxed mode.

    The graph keeps alive what the captured calls used: Buffers, Tensors, memory of other libraries that madspace took
    in, kernels. Buffers closed in the block become the graph's. Results that are allocated in the block lie at the same
    place at every launch and are valid until the next one; this memory is not shared between the results of a graph.
    Nothing that was queued before is waited for by what is captured: the launch is put behind it. Kernels must have
    been loaded before: see preload().

    Examples
    --------
    >>> import madspace
    >>> def run_twice(mapping, inputs, stream):
    ...     with madspace.capture(stream) as graph:
    ...         result = mapping.map_forward(inputs, stream=stream)
    ...     executable = graph.instantiate()
    ...     executable.launch(stream)
    ...     executable.launch(stream)
    ...     return result
    """
    cdef Stream where = to_stream(stream)
    cdef tuple before = nodes_of(after)
    if not isinstance(mode, str) or mode not in MODES:
        raise ValueError(f"mode: expected one of {tuple(MODES)}, got {mode!r}")
    if into is None:
        if before:
            raise ValueError("after: expected nothing without into=, got nodes")
        return new_capture(where, MODES[mode], new_graph(where.device), False, ())
    into.check_open()
    into.check_device(where)
    return new_capture(where, MODES[mode], into, True, before)
