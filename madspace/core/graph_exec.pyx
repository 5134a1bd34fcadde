"""Executable graphs: launched, updated, kept together with what they use."""
import weakref

cimport cython
from libc.stdint cimport uintptr_t
from libc.string cimport memset

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUresult

from madspace.core cimport _driver as drv
from madspace.core cimport _driver_graphs as graphs
from madspace.core._attach cimport attach
from madspace.core._graph_operands cimport Operands, Ordered
from madspace.core._leaks cimport remember
from madspace.core._watch cimport LEAKS, watchers
from madspace.core.current cimport pick_stream
from madspace.core.graph cimport Graph
from madspace.core.graph_node cimport GraphNode, make_node
from madspace.core.stream cimport Stream

from madspace.core._refusal import refusal
from madspace.core.graph import Graph as empty_graph
from madspace.errors import ClosedError, DeviceMismatchError, DriverError

# By CUgraphInstantiateResult.
cdef tuple REFUSALS = (
    "", "", "its structure is invalid", "an operation is not supported", "its nodes belong to several contexts",
    "a condition is not used by any node",
)
# By CUgraphExecUpdateResult.
cdef tuple DIFFERENCES = (
    "", "", "the nodes or what they come after differ", "the kind of a node differs", "the kernel of a node differs",
    "parameters of a node differ in a way that is not supported", "a node cannot be updated",
    "the kernel of a node differs in a way that is not supported", "attributes of a node differ",
)


# The destructor needs the members: the collector must not clear them first.
@cython.no_gc_clear
cdef class GraphExec:
    """A graph that can be launched, from Graph.instantiate().

    Attributes
    ----------
    device : Device
        Where it runs.
    graph : Graph
        The graph that it was made of.

    Notes
    -----
    Launches of one GraphExec come one after the other, also on different streams. It keeps alive what its nodes use.
    """

    def __cinit__(self):
        self.closed_ = True     # until there is a handle

    def __init__(self):
        raise TypeError("GraphExec: use Graph.instantiate()")

    @property
    def handle(self):
        """The driver's handle (``CUgraphExec``), an int. It is valid until this object is closed."""
        return <uintptr_t>self.handle_

    @property
    def closed(self):
        """Whether close() was called."""
        return self.closed_

    def launch(self, stream=None):
        """Run the graph once, asynchronously.

        Parameters
        ----------
        stream : Stream, int, or any object that ``to_stream`` takes, optional
            Where it is queued, in order there as one piece of work; the one that ``get_stream`` tells if left out.

        Raises
        ------
        ClosedError
            When this object, the stream, or a buffer that the graph uses was closed.
        DeviceMismatchError
            When the stream belongs to another device.
        CaptureError
            When the stream is being captured: there is no node for an executable. Graph.add_child() takes a Graph.
        DriverError
            When the driver refuses the launch.

        Notes
        -----
        Allocates nothing. The launch comes behind earlier work on the memory that the graph uses, and later uses come
        behind it, whatever their streams; on the streams that the memory was allocated on this costs nothing.
        """
        cdef Stream where
        cdef Ordered operand
        cdef list order
        cdef Py_ssize_t n_ready = 0
        cdef bint launched = False
        cdef int pushed, capturing
        where = pick_stream(stream, self.device)
        self.check_open()               # after what may run code of the caller
        pushed = self.device.push()
        try:
            with nogil:
                capturing = drv.stream_is_capturing(where.handle_)
            if capturing:
                raise drv.error_of(
                    cydriver.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuGraphLaunch",
                    f"{where!r} is being captured; what a capture can hold is the Graph, through add_child()")
            order = self.order
            for operand in order:
                operand.before(where)
                n_ready += 1
            with nogil:
                graphs.graph_launch(self.handle_, where.handle_)
            launched = True
            for operand in order:
                n_ready -= 1
                operand.after(where)
        finally:
            if n_ready > 0:
                give_back(order[-n_ready:] if launched else order[:n_ready], where)
            self.device.pop(pushed)

    def upload(self, stream=None):
        """Prepare the device for the first launch, asynchronously; without it that launch takes longer.

        Parameters
        ----------
        stream : Stream, int, or any object that ``to_stream`` takes, optional
            Where it is queued; the one that ``get_stream`` tells if left out.

        Raises
        ------
        CaptureError
            When the stream is being captured.
        ClosedError, DeviceMismatchError
            As from launch().
        """
        cdef Stream where
        cdef int pushed
        where = pick_stream(stream, self.device)
        self.check_open()
        pushed = self.device.push()
        try:
            where.refuse_in_capture("cuGraphUpload")
            with nogil:
                graphs.graph_upload(self.handle_, where.handle_)
        finally:
            self.device.pop(pushed)

    def update(self, Graph graph not None):
        """Take over the parameters of another graph, which must have the same nodes in the same places.

        Parameters
        ----------
        graph : Graph
            Captured anew, say: the same calls with other memory or other numbers.

        Raises
        ------
        DriverError
            When the graphs differ in more than that; the message says in what, and nothing has changed. Code 910.
        ValueError
            For a body, and when an allocation is not freed in the graph.
        DeviceMismatchError, ClosedError
            When `graph` is of another device; when one of the two is closed.

        Notes
        -----
        Holds from the next launch on; what was launched before is not touched. Much cheaper than instantiate().
        """
        cdef cydriver.CUgraphExecUpdateResultInfo info
        cdef CUresult code
        cdef int pushed
        self.check_open()
        check_source(graph)
        if graph.device is not self.device:
            raise DeviceMismatchError(f"graph: expected one of device {self.device.id}, got {graph!r}")
        memset(&info, 0, sizeof(info))
        pushed = self.device.push()
        try:
            with nogil:
                graphs.graph_exec_update(self.handle_, graph.handle_, &info, &code)
        finally:
            self.device.pop(pushed)
        if code != cydriver.CUDA_SUCCESS:
            told = DIFFERENCES[<int>info.result] if 0 <= <int>info.result < len(DIFFERENCES) else ""
            if told and info.errorNode != NULL:
                try:
                    told += f", at a {make_node(graph, info.errorNode).kind} node"
                except DriverError:
                    pass        # a node that the driver cannot name takes nothing from the reason
            raise drv.error_of(code, "cuGraphExecUpdate", told)
        self.need(graph.operands)

    def set_kernel(self, GraphNode node not None, kernel, grid, block, *args, shared=0):
        """Replace what a kernel node launches.

        Parameters
        ----------
        node : GraphNode
            A kernel node of `graph`, which stays as it is.
        kernel, grid, block, *args, shared
            As for ``Kernel.launch``; a cluster or a cooperative grid stays what the node has.

        Raises
        ------
        ValueError
            When `node` is no kernel node, or not one of `graph`.
        DriverError
            When the driver refuses the change.
        ShapeError, TypeError, OverflowError, DeviceMismatchError, ClosedError
            As from Graph.add_kernel().

        Notes
        -----
        Holds from the next launch on.
        """
        cdef cydriver.CUDA_KERNEL_NODE_PARAMS params
        cdef Graph scratch
        cdef GraphNode model
        cdef Operands operands
        cdef int pushed
        if node.graph is not self.graph or node.kind != "kernel":
            raise ValueError(f"node: expected a kernel node of {self.graph!r}, got {node!r}")
        scratch = empty_graph(self.device)
        model = scratch.add_kernel(kernel, grid, block, *args, shared=shared)
        self.check_open()
        self.graph.check_open()         # without it the node is gone
        operands = Operands.__new__(Operands)
        operands.join(self.operands)
        operands.join(scratch.operands)
        pushed = self.device.push()
        try:
            with nogil:
                graphs.graph_kernel_node_get_params(model.handle_, &params)
                graphs.graph_exec_kernel_node_set_params(self.handle_, node.handle_, &params)
        finally:
            self.device.pop(pushed)
        self.need(operands)

    def close(self):
        """Give it back; idempotent. Launches that are queued still run."""
        cdef CUresult code
        if self.closed_:
            return
        self.closed_ = True
        code = self.destroy()
        self.operands = None
        self.order = []
        if code != cydriver.CUDA_SUCCESS:
            drv.raise_code(code, "cuGraphExecDestroy")

    def __dealloc__(self):
        if not self.closed_:
            self.closed_ = True
            drv.report(self.destroy(), "cuGraphExecDestroy")

    def __enter__(self):
        self.check_open()
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __repr__(self):
        state = "closed" if self.closed_ else "open"
        return f"<GraphExec {<uintptr_t>self.handle_:#x} of device {self.device.id if self.device else None}, {state}>"

    cdef CUresult destroy(self) noexcept:
        cdef CUresult code
        with nogil:
            code = graphs.quiet_graph_exec_destroy(self.handle_)
        if code != cydriver.CUDA_SUCCESS:
            self.operands.images.lose()
        return code

    cdef int check_open(self) except -1:
        if self.closed_:
            raise ClosedError(f"graph: expected an open GraphExec, got {self!r}")
        return 0

    cdef int need(self, Operands operands) except -1:
        # The graph may get more nodes later, with more memory, which are none of this object's.
        cdef Operands own = Operands.__new__(Operands)
        own.join(operands)
        self.operands = own
        self.order = own.order()
        self.n_ordered = <int>len(self.order)
        return 0


attach(GraphExec, "__new__", refusal("GraphExec: use Graph.instantiate()"))


cdef int give_back(list operands, Stream stream) except -1:
    """End the use of what a launch that failed has not come to."""
    cdef Ordered operand
    for operand in operands:
        operand.cancel(stream)
    return 0


cdef int check_source(Graph graph) except -1:
    graph.check_open()
    if graph.root is not None:
        raise ValueError("graph: expected a whole graph, got the body of a conditional node")
    if graph.unfreed:
        raise ValueError(f"graph: expected every allocation to be freed, got {len(graph.unfreed)} without add_free()")
    return graph.operands.check()


def new_executable(Graph graph not None):
    """Instantiate a graph; Graph.instantiate() calls it."""
    cdef cydriver.CUDA_GRAPH_INSTANTIATE_PARAMS params
    cdef GraphExec executable
    cdef CUresult code
    cdef int pushed
    check_source(graph)
    if graph.tied and graph.executable is not None:
        other = graph.executable()
        if other is not None and not other.closed:
            raise ValueError(
                "graph: expected none with allocation or conditional nodes and another open GraphExec, which allows no "
                f"second one, got {graph!r}; close {other!r}")
    executable = GraphExec.__new__(GraphExec)
    executable.device = graph.device
    executable.graph = graph
    executable.need(graph.operands)
    memset(&params, 0, sizeof(params))
    pushed = graph.device.push()
    try:
        with nogil:
            graphs.graph_instantiate(&executable.handle_, graph.handle_, &params, &code)
        executable.closed_ = code != cydriver.CUDA_SUCCESS
    finally:
        graph.device.pop(pushed)
    if code != cydriver.CUDA_SUCCESS:
        told = REFUSALS[<int>params.result_out] if 0 <= <int>params.result_out < len(REFUSALS) else ""
        raise drv.error_of(code, "cuGraphInstantiateWithParams", told)
    if graph.tied:
        graph.executable = weakref.ref(executable)
    if watchers() & LEAKS:
        remember(executable)
    return executable
