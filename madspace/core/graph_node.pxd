from cuda.bindings.cydriver cimport CUgraphNode
from libcpp.vector cimport vector


cdef class GraphNode:
    cdef readonly object graph
    cdef CUgraphNode handle_
    cdef readonly str kind
    cdef readonly tuple bodies
    cdef readonly object ptr


cdef GraphNode make_node(object graph, CUgraphNode handle)
# What `after` names, which may be any iterable. TypeError.
cdef tuple nodes_of(object after)
# For the driver. TypeError, ValueError where one is no node of the graph.
cdef vector[CUgraphNode] node_handles(object graph, tuple nodes) except *
