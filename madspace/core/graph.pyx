"""Graphs: device work that is described once and launched as a whole."""

cimport cython
from libc.stdint cimport uintptr_t
from libc.string cimport memset
from libcpp.vector cimport vector

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUDA_MEM_ALLOC_NODE_PARAMS, CUdeviceptr, CUgraph, CUgraphNode

from madspace.core cimport _driver_graphs as graphs
from madspace.core._graph_life cimport GraphLife
from madspace.core._numbers cimport byte_count, whole_number
from madspace.core._recording cimport make_stream
from madspace.core.device cimport Device
from madspace.core.graph_node cimport GraphNode, make_node, node_handles, nodes_of
from madspace.core.kernel cimport Kernel
from madspace.core.memory cimport Buffer

from madspace.errors import DeviceMismatchError

cdef object capture_node = None         # of the layers above, from their first use on
cdef object new_executable = None


@cython.no_gc_clear         # as the base
cdef class Graph(GraphLife):
    """Work for a device, launched as a whole, again and again: from ``madspace.capture``, or put together node by node.

    Parameters
    ----------
    device : Device, int or str, optional
        Where the work runs; device 0 if left out. The graph has no nodes at first.

    Attributes
    ----------
    device : Device
        The device.

    Raises
    ------
    DriverNotFoundError, DriverError, ForkError
        As from ``Device``.

    Notes
    -----
    A graph is run by a GraphExec, which instantiate() makes of the nodes that there are by then. Nodes run in an order
    that respects `after`, and at the same time where it allows that. What they use (Buffers, memory of Tensors,
    kernels) stays alive as long as the graph, its copies and its executables. Not to be changed by two threads at a
    time.
    """

    def clone(self):
        """Copy the graph.

        Returns
        -------
        Graph
            With copies of all nodes, for the same memory.

        Raises
        ------
        ValueError
            For a body, and for a graph with allocation, free or conditional nodes.
        """
        cdef Graph copy
        cdef CUgraph handle
        self.check_open()
        self.check_untied("clone")
        with nogil:
            graphs.graph_clone(&handle, self.handle_)
        copy = new_graph(self.device)
        copy.adopt(handle)
        copy.operands.join(self.operands)
        return copy

    def instantiate(self):
        """Make what can be launched of the present nodes.

        Returns
        -------
        GraphExec
            Independent of later changes of this graph.

        Raises
        ------
        ValueError
            For a body; when an allocation is not freed in the graph; when a graph with allocation or conditional nodes
            has an open GraphExec already.
        DriverError
            When the driver refuses the graph; the message says why.
        """
        global new_executable
        if new_executable is None:
            from madspace.core.graph_exec import new_executable
        return new_executable(self)

    def add_kernel(self, Kernel kernel not None, grid, block, *args, after=(), **options):
        """Add the launch of a kernel.

        Parameters
        ----------
        kernel : Kernel
            The kernel; it is loaded now.
        grid, block, *args, **options
            As for ``Kernel.launch``, without `stream`. Values are those of now, Buffers and Tensors stay alive.
        after : iterable of GraphNode, optional
            Nodes of this graph that must be done first.

        Returns
        -------
        GraphNode

        Raises
        ------
        ValueError
            When a node of `after` is not of this graph.
        ShapeError, TypeError, OverflowError, DeviceMismatchError, ClosedError, DriverError
            As from ``Kernel.launch``.
        """
        if "stream" in options:
            raise TypeError("stream: expected none, the graph's launch has one")
        self.check_open()
        kernel.load(self.device)
        return self.add_captured(
            lambda stream: kernel.launch(grid, block, *args, stream=stream, **options), nodes_of(after))

    def add_fill(self, Buffer buffer not None, value, *, after=()):
        """Add setting every byte of a buffer, as Buffer.fill() does.

        Parameters
        ----------
        buffer : Buffer
            The buffer, not of 0 bytes.
        value : int
            The byte, 0 to 255.
        after : iterable of GraphNode, optional
            Nodes of this graph that must be done first.

        Returns
        -------
        GraphNode

        Raises
        ------
        ValueError
            When `value` is not a byte, the buffer has none, or a node of `after` is not of this graph.
        DeviceMismatchError, ClosedError
            When the buffer is of another device, or closed.
        """
        expect_bytes("buffer", buffer)
        return self.add_captured(lambda stream: buffer.fill(value, stream=stream), nodes_of(after))

    def add_copy(self, Buffer target not None, Buffer source not None, *, after=()):
        """Add the copy of a buffer to another one, as Buffer.copy_from() does.

        Parameters
        ----------
        target, source : Buffer
            Two buffers of one size, not of 0 bytes.
        after : iterable of GraphNode, optional
            Nodes of this graph that must be done first.

        Returns
        -------
        GraphNode

        Raises
        ------
        ShapeError
            When the sizes differ.
        ValueError
            When they are one, have no bytes, or a node of `after` is not of this graph.
        DeviceMismatchError, ClosedError
            When a buffer is of another device, or closed.
        """
        expect_bytes("target", target)
        if source is target:
            raise ValueError("source: expected another buffer than target, got the same")
        return self.add_captured(lambda stream: target.copy_from(source, stream=stream), nodes_of(after))

    def add_child(self, Graph other not None, *, after=()):
        """Add a whole graph as one node.

        Parameters
        ----------
        other : Graph
            Copied as it is now.
        after : iterable of GraphNode, optional
            Nodes of this graph that must be done first.

        Returns
        -------
        GraphNode

        Raises
        ------
        ValueError
            When `other` is this graph, a body, or has allocation, free or conditional nodes; when a node of `after` is
            not of this graph.
        DeviceMismatchError, ClosedError
            When `other` is of another device, or one of the two is closed.
        """
        cdef CUgraphNode handle
        cdef vector[CUgraphNode] before
        cdef tuple nodes = nodes_of(after)
        self.check_open()
        other.check_open()
        if other is self:
            raise ValueError("other: expected another graph, got the same")
        other.check_untied("other")
        if other.device is not self.device:
            raise DeviceMismatchError(f"other: expected a graph of device {self.device.id}, got {other!r}")
        before = node_handles(self, nodes)
        with nogil:
            graphs.graph_add_child(&handle, self.handle_, before.data(), before.size(), other.handle_)
        self.operands.join(other.operands)
        return make_node(self, handle)

    def add_alloc(self, nbytes, *, after=()):
        """Add an allocation: memory that the graph has from this node to the one of add_free().

        Parameters
        ----------
        nbytes : int
            Bytes, at least one.
        after : iterable of GraphNode, optional
            Nodes of this graph that must be done first.

        Returns
        -------
        GraphNode
            Its `ptr` is the address, an int for the arguments of kernels that come after it. Graphs share physical
            memory, so that the contents do not last from launch to launch.

        Raises
        ------
        TypeError, ValueError
            When `nbytes` is no number of bytes or 0, or a node of `after` is not of this graph; for a body, which can
            have no such nodes.
        OutOfMemoryError
            When the device has no room.
        """
        cdef CUDA_MEM_ALLOC_NODE_PARAMS params
        cdef CUgraphNode handle
        cdef vector[CUgraphNode] before
        cdef GraphNode node
        cdef size_t size = byte_count(nbytes, "nbytes")
        cdef tuple nodes = nodes_of(after)
        cdef int pushed
        self.check_open()
        if self.root is not None:
            raise ValueError("add_alloc: expected a graph, got the body of a conditional node")
        if size == 0:
            raise ValueError("nbytes: expected at least 1, got 0")
        before = node_handles(self, nodes)
        memset(&params, 0, sizeof(params))
        params.poolProps.allocType = cydriver.CU_MEM_ALLOCATION_TYPE_PINNED
        params.poolProps.location.type = cydriver.CU_MEM_LOCATION_TYPE_DEVICE
        params.poolProps.location.id = self.device.id
        params.bytesize = size
        pushed = self.device.push()
        try:
            with nogil:
                graphs.graph_add_mem_alloc(&handle, self.handle_, before.data(), before.size(), &params)
        finally:
            self.device.pop(pushed)
        self.tied = True
        self.unfreed[params.dptr] = None
        node = make_node(self, handle)
        node.ptr = params.dptr
        return node

    def add_free(self, GraphNode allocation not None, *, after=()):
        """Add giving the memory of add_alloc() back.

        Parameters
        ----------
        allocation : GraphNode
            From add_alloc() of this graph, not freed yet.
        after : iterable of GraphNode, optional
            Nodes of this graph that must be done first: all that use the memory.

        Returns
        -------
        GraphNode

        Raises
        ------
        ValueError
            When `allocation` is none, or a node of `after` is not of this graph.
        """
        cdef CUgraphNode handle
        cdef vector[CUgraphNode] before
        cdef CUdeviceptr ptr
        cdef tuple nodes = nodes_of(after)
        self.check_open()
        if allocation.graph is not self or allocation.ptr not in self.unfreed:
            raise ValueError(f"allocation: expected a node of add_alloc() that was not freed, got {allocation!r}")
        ptr = allocation.ptr
        before = node_handles(self, (allocation, *nodes))
        with nogil:
            graphs.graph_add_mem_free(&handle, self.handle_, before.data(), before.size(), ptr)
        del self.unfreed[allocation.ptr]
        return make_node(self, handle)

    def add_condition(self, start=None):
        """Make a condition for add_if() or add_while().

        Parameters
        ----------
        start : int, optional
            Its value at the beginning of each launch. Without one a kernel must set it first.

        Returns
        -------
        int
            The driver's handle (``cudaGraphConditionalHandle``), which kernels set with ``cudaGraphSetConditional``.
            It must be used for one node.

        Raises
        ------
        TypeError, ValueError
            When `start` is no int of 32 bits without a sign.
        """
        cdef cydriver.CUgraphConditionalHandle handle
        cdef unsigned int value = 0 if start is None else word(start, "start", 32)
        cdef unsigned int flags = 0 if start is None else cydriver.CU_GRAPH_COND_ASSIGN_DEFAULT
        self.check_open()
        with nogil:
            graphs.graph_conditional_handle_create(&handle, self.handle_, self.device.context_, value, flags)
        self.tied = True
        return handle

    def add_if(self, condition, *, after=(), otherwise=False):
        """Add a choice: nodes that run where a condition is not zero, and others where it is.

        Parameters
        ----------
        condition : int
            From add_condition() of this graph.
        after : iterable of GraphNode, optional
            Nodes of this graph that must be done first, those that set the condition among them.
        otherwise : bool, optional
            Whether there is work for the other case, too.

        Returns
        -------
        GraphNode
            Its `bodies` are the Graph for the one case, and the one for the other case. They are filled by their add_
            methods, but for add_alloc() and add_free(), or by ``madspace.capture(stream, into=body)``.

        Raises
        ------
        ValueError
            When a node of `after` is not of this graph.
        DriverError
            When the driver has no such nodes, or refuses the condition.
        """
        return self.add_conditional(condition, nodes_of(after), cydriver.CU_GRAPH_COND_TYPE_IF, 2 if otherwise else 1)

    def add_while(self, condition, *, after=()):
        """Add a loop: nodes that run, all of them, as long as a condition is not zero.

        Parameters
        ----------
        condition : int
            From add_condition() of this graph. A kernel in the body has to set it to zero in the end.
        after : iterable of GraphNode, optional
            Nodes of this graph that must be done first.

        Returns
        -------
        GraphNode
            Its one body is to be filled as those of add_if().

        Raises
        ------
        ValueError, DriverError
            As from add_if().
        """
        return self.add_conditional(condition, nodes_of(after), cydriver.CU_GRAPH_COND_TYPE_WHILE, 1)

    cdef GraphNode add_captured(self, object work, tuple after):
        # Nodes are made by the calls that do the same work on a stream, with all their checks: captured, one at a time,
        # from a stream that nothing else runs on.
        cdef CUgraphNode handle
        self.check_open()
        node_handles(self, after)
        global capture_node
        if capture_node is None:
            from madspace.core.capture import capture_node
        if self.builder is None:
            self.builder = make_stream(self.device)
        handle = <CUgraphNode><uintptr_t>capture_node(self, self.builder, after, work)
        return make_node(self, handle)

    cdef GraphNode add_conditional(self, object condition, tuple after, int kind, int n_bodies):
        cdef cydriver.CUgraphNodeParams params
        cdef CUgraphNode handle
        cdef vector[CUgraphNode] before
        cdef GraphNode node
        cdef object number = word(condition, "condition", 64)
        self.check_open()
        before = node_handles(self, after)
        memset(&params, 0, sizeof(params))
        params.type = cydriver.CU_GRAPH_NODE_TYPE_CONDITIONAL
        params.conditional.handle = number
        params.conditional.type = <cydriver.CUgraphConditionalNodeType>kind
        params.conditional.size = n_bodies
        params.conditional.ctx = self.device.context_
        with nogil:
            graphs.graph_add_node(&handle, self.handle_, before.data(), before.size(), &params)
        node = make_node(self, handle)
        node.bodies = tuple([make_body(self, params.conditional.phGraph_out[i]) for i in range(n_bodies)])
        return node


cdef object word(object value, str name, object bits):
    number = whole_number(value, name)
    if not 0 <= number < 2**bits:
        raise ValueError(f"{name}: expected 0 to 2**{bits} - 1, got {number}")
    return number


cdef int expect_bytes(str name, Buffer buffer) except -1:
    buffer.check_open()
    if buffer.nbytes == 0:
        raise ValueError(f"{name}: expected a buffer of at least 1 byte, got {buffer!r}")
    return 0


cdef Graph make_body(Graph graph, CUgraph handle):
    cdef Graph body = new_graph(graph.device)
    body.root = graph if graph.root is None else graph.root
    body.operands = graph.operands
    body.adopt(handle)
    return body


cdef Graph new_graph(Device device):
    cdef Graph graph = Graph.__new__(Graph)
    graphs.prepare()
    graph.device = device
    graph.closed_ = False
    return graph
