from cuda.bindings.cydriver cimport CUgraph, CUresult, CUstreamCaptureMode

from madspace.core._recording cimport Recording
from madspace.core.graph cimport Graph
from madspace.core.stream cimport Stream


# The capture of a stream, from begin() to finish(). One that is dropped in between ends.
cdef class Capture:
    cdef Stream stream
    cdef CUstreamCaptureMode mode
    cdef Graph graph             # what it becomes, or is added to
    cdef bint into               # the latter
    cdef tuple after             # of GraphNode, in that graph
    cdef str unjoined            # what was forked off and not joined, once it has ended
    cdef Recording recording     # while it goes on
    cdef int begin(self) except -1
    cdef int finish(self) except -1         # the graph has what was captured, or an exception tells why not
    cdef CUresult cancel(self) noexcept
    cdef CUresult end(self, CUgraph* handle) noexcept       # `recording` stays where it could not be ended
    cdef int let_go(self) noexcept      # of the stream and the graph, afterwards


cdef Capture new_capture(Stream stream, CUstreamCaptureMode mode, Graph graph, bint into, tuple after)
