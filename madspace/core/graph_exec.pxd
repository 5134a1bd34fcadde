from cuda.bindings.cydriver cimport CUgraphExec, CUresult

from madspace.core._graph_operands cimport Operands
from madspace.core.device cimport Device
from madspace.core.graph cimport Graph


cdef class GraphExec:
    cdef readonly Device device
    cdef readonly Graph graph    # whose nodes set_kernel() takes
    cdef CUgraphExec handle_
    cdef Operands operands
    cdef list order              # the Ordered among them
    cdef int n_ordered           # their number, for who has no GIL
    cdef bint closed_
    cdef CUresult destroy(self) noexcept
    cdef int check_open(self) except -1
    cdef int need(self, Operands operands) except -1
    cdef object __weakref__
