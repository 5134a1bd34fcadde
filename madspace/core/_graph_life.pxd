from cuda.bindings.cydriver cimport CUgraph, CUgraphNode, CUresult
from libcpp.vector cimport vector

from madspace.core._graph_operands cimport Operands
from madspace.core.device cimport Device
from madspace.core.stream cimport Stream


cdef class GraphLife:
    cdef readonly Device device
    cdef CUgraph handle_
    cdef GraphLife root          # of a conditional node's body: the graph that owns it; else None
    cdef Operands operands       # the root's, for bodies
    cdef bint closed_
    cdef int n_captures          # that go on into it, or into a body of it
    cdef bint tied               # has nodes that allow one executable at a time and no copies
    cdef object executable       # weak reference to the one of a tied graph
    cdef dict unfreed            # {address: None} of allocation nodes
    cdef Stream builder          # what nodes are captured from, one at a time; made at the first one
    cdef CUresult destroy(self) noexcept
    cdef int count_captures(self, int more) noexcept
    cdef bint is_awaited(self) noexcept             # a capture is to fill it
    cdef bint is_closed(self) noexcept              # itself, or the graph whose body it is
    cdef int adopt(self, CUgraph handle) except -1
    cdef int check_open(self) except -1
    cdef int check_device(self, Stream stream) except -1
    cdef int check_untied(self, str what) except -1
    cdef vector[CUgraphNode] node_list(self) except *
    cdef object __weakref__
