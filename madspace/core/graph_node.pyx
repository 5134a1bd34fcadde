"""The nodes of graphs."""
cimport cython
from libc.stdint cimport uintptr_t
from libcpp.vector cimport vector

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUgraphNode

from madspace.core cimport _driver_graphs as graphs
from madspace.core._attach cimport attach

from madspace.core._refusal import refusal

# By CUgraphNodeType.
cdef tuple KINDS = (
    "kernel", "memcpy", "memset", "host", "child", "empty", "event wait", "event record", "semaphore signal",
    "semaphore wait", "alloc", "free", "memory operations", "conditional",
)


@cython.final
cdef class GraphNode:
    """A node of a Graph, from its add_ methods or nodes().

    Attributes
    ----------
    graph : Graph
        The graph that it is in.
    kind : str
        ``"kernel"``, ``"memcpy"``, ``"memset"``, ``"host"``, ``"child"``, ``"empty"``, ``"event wait"``,
        ``"event record"``, ``"semaphore signal"``, ``"semaphore wait"``, ``"alloc"``, ``"free"``,
        ``"memory operations"`` or ``"conditional"``.
    bodies : tuple of Graph
        Of a conditional node from add_if() or add_while(); else empty.
    ptr : int or None
        Address of the memory of an allocation node from add_alloc(); else None.
    """

    def __init__(self):
        raise TypeError("GraphNode: use the add_ methods of a Graph")

    @property
    def handle(self):
        """The driver's handle (``CUgraphNode``), an int. It is valid until the graph is closed."""
        return <uintptr_t>self.handle_

    def __eq__(self, other):
        if not isinstance(other, GraphNode):
            return NotImplemented
        return self.handle_ == (<GraphNode>other).handle_ and self.graph is (<GraphNode>other).graph

    def __hash__(self):
        return hash(<uintptr_t>self.handle_)

    def __repr__(self):
        return f"<GraphNode {<uintptr_t>self.handle_:#x}, {self.kind}, of {self.graph!r}>"


attach(GraphNode, "__new__", refusal("GraphNode: use the add_ methods of a Graph"))


cdef GraphNode make_node(object graph, CUgraphNode handle):
    cdef cydriver.CUgraphNodeType kind
    cdef GraphNode node
    with nogil:
        graphs.graph_node_get_type(handle, &kind)
    node = GraphNode.__new__(GraphNode)
    node.graph = graph
    node.handle_ = handle
    node.kind = KINDS[<int>kind] if 0 <= <int>kind < len(KINDS) else f"kind {<int>kind}"
    node.bodies = ()
    return node


cdef tuple nodes_of(object after):
    try:
        nodes = iter(after)
    except TypeError:
        raise TypeError(f"after: expected GraphNodes, got {type(after).__name__}") from None
    return tuple(nodes)


cdef vector[CUgraphNode] node_handles(object graph, tuple nodes) except *:
    cdef vector[CUgraphNode] handles
    for node in nodes:
        if not isinstance(node, GraphNode):
            raise TypeError(f"after: expected GraphNodes, got {type(node).__name__}")
        if (<GraphNode>node).graph is not graph:
            raise ValueError(f"after: expected nodes of {graph!r}, got {node!r}")
        handles.push_back((<GraphNode>node).handle_)
    return handles
