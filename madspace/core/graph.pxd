from madspace.core._graph_life cimport GraphLife
from madspace.core.device cimport Device
from madspace.core.graph_node cimport GraphNode


cdef class Graph(GraphLife):
    cdef GraphNode add_captured(self, object work, tuple after)
    cdef GraphNode add_conditional(self, object condition, tuple after, int kind, int n_bodies)


cdef Graph new_graph(Device device)                 # without nodes: for a capture to fill
