"""What all graphs have, whatever is in them: a handle, operands, an end."""
import os

cimport cython
from libc.stdint cimport uintptr_t
from libcpp.vector cimport vector

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUgraph, CUgraphNode, CUresult

from madspace.core cimport _driver as drv
from madspace.core cimport _driver_graphs as graphs
from madspace.core._graph_operands cimport Operands
from madspace.core._leaks cimport remember
from madspace.core._watch cimport LEAKS, watchers
from madspace.core.device cimport Device, get_device
from madspace.core.graph_node cimport make_node
from madspace.core.stream cimport Stream

from madspace.core.device import as_device
from madspace.errors import CaptureError, ClosedError, DeviceMismatchError

cdef frozenset TIED_KINDS = frozenset({"alloc", "free", "conditional"})


# The destructor needs the members: the collector must not clear them first.
@cython.no_gc_clear
cdef class GraphLife:
    """The base of Graph, never made alone."""

    def __cinit__(self):
        self.closed_ = True     # until there is a handle
        self.operands = Operands.__new__(Operands)
        self.unfreed = {}

    def __init__(self, device=None):
        cdef CUgraph handle
        if self.device is not None:
            raise TypeError("Graph: __init__ was called twice")
        cdef Device where = get_device(0) if device is None else as_device(device)
        graphs.prepare()
        with nogil:
            graphs.graph_create(&handle)
        self.device = where
        self.adopt(handle)

    @property
    def handle(self):
        """The driver's handle (``CUgraph``), an int. It is valid until the graph is closed."""
        return <uintptr_t>self.handle_

    @property
    def closed(self):
        """Whether close() was called, or the capture that should have filled it failed."""
        return self.is_closed()

    @property
    def n_nodes(self):
        """Number of nodes; those inside children and bodies are not counted."""
        cdef size_t n = 0
        self.check_open()
        with nogil:
            graphs.graph_get_nodes(self.handle_, NULL, &n)
        return n

    def nodes(self):
        """List the nodes.

        Returns
        -------
        tuple of GraphNode
            In the order in which the driver has them. `bodies` and `ptr` are known to the GraphNode only that the
            method which added the node has returned.
        """
        cdef CUgraphNode handle
        self.check_open()
        return tuple([make_node(self, handle) for handle in self.node_list()])

    def node_counts(self):
        """Count the nodes by kind.

        Returns
        -------
        dict
            Kind (see GraphNode) to number.
        """
        counts = {}
        for node in self.nodes():
            counts[node.kind] = counts.get(node.kind, 0) + 1
        return counts

    def debug_dot(self, path, *, verbose=False):
        """Write the graph as a drawing for Graphviz.

        Parameters
        ----------
        path : str or os.PathLike
            The file, which is replaced.
        verbose : bool, optional
            With all that the driver can tell about each node.

        Raises
        ------
        OSError
            When the file cannot be written.
        """
        if not isinstance(path, (str, bytes, os.PathLike)):
            raise TypeError(f"path: expected a str or os.PathLike, got {type(path).__name__}")
        cdef bytes encoded = os.fsencode(path)
        cdef const char* text = encoded
        cdef unsigned int flags = cydriver.CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE if verbose else 0
        self.check_open()
        with open(path, "w"):
            pass                # the driver would not say what is wrong with it
        with nogil:
            graphs.graph_debug_dot_print(self.handle_, text, flags)

    def close(self):
        """Give the graph back; idempotent. Executables made of it stay.

        Raises
        ------
        ValueError
            For a body, which ends with the graph that has it.
        CaptureError
            While a capture adds to it.
        """
        cdef CUresult code
        if self.closed_:
            return
        if self.root is not None:
            raise ValueError("close: expected a graph, got the body of a conditional node")
        if self.n_captures > 0:
            raise CaptureError(f"graph: expected one whose capture has ended, got {self!r}")
        self.closed_ = True
        if self.handle_ == NULL:
            return
        code = self.destroy()
        if code != cydriver.CUDA_SUCCESS:
            drv.raise_code(code, "cuGraphDestroy")

    def __dealloc__(self):
        if not self.closed_ and self.root is None and self.handle_ != NULL:
            self.closed_ = True
            drv.report(self.destroy(), "cuGraphDestroy")

    def __enter__(self):
        self.check_open()
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __repr__(self):
        state = "closed" if self.is_closed() else "being captured" if self.handle_ == NULL else "open"
        return f"<Graph {<uintptr_t>self.handle_:#x} of device {self.device.id if self.device else None}, {state}>"

    cdef CUresult destroy(self) noexcept:
        cdef CUresult code
        with nogil:
            code = graphs.quiet_graph_destroy(self.handle_)
        if code != cydriver.CUDA_SUCCESS:
            self.operands.images.lose()
        return code

    cdef int count_captures(self, int more) noexcept:
        cdef GraphLife whole = self if self.root is None else self.root
        whole.n_captures += more
        return 0

    cdef bint is_awaited(self) noexcept:
        return self.handle_ == NULL and not self.closed_

    cdef bint is_closed(self) noexcept:
        return self.closed_ or (self.root is not None and self.root.closed_)

    cdef int adopt(self, CUgraph handle) except -1:
        self.handle_ = handle
        self.closed_ = False
        if self.root is None and watchers() & LEAKS:
            remember(self)
        return 0

    cdef int check_open(self) except -1:
        if self.is_awaited():
            raise CaptureError(f"graph: expected one whose capture has ended, got {self!r}")
        if self.is_closed():
            raise ClosedError(f"graph: expected an open graph, got {self!r}")
        return 0

    cdef int check_device(self, Stream stream) except -1:
        if stream.device is not self.device:
            raise DeviceMismatchError(f"stream: expected one of device {self.device.id}, the graph's, got {stream!r}")
        return 0

    cdef int check_untied(self, str what) except -1:
        if self.root is not None:
            raise ValueError(f"{what}: expected a graph, got the body of a conditional node")
        if not TIED_KINDS.isdisjoint(self.node_counts()):
            raise ValueError(f"{what}: expected a graph without allocation, free and conditional nodes, got {self!r}")
        return 0

    cdef vector[CUgraphNode] node_list(self) except *:
        cdef vector[CUgraphNode] nodes
        cdef size_t n = 0
        with nogil:
            graphs.graph_get_nodes(self.handle_, NULL, &n)
        nodes.resize(n)
        if n > 0:
            with nogil:
                graphs.graph_get_nodes(self.handle_, nodes.data(), &n)
        return nodes
