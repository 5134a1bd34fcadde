from madspace.core._code_image cimport CodeImages
from madspace.core._recording cimport Recording
from madspace.core.stream cimport Stream


# Memory of one kind that a graph puts in order with the stream of each of its launches.
cdef class Ordered:
    cdef object memory
    cdef bint write
    cdef int before(self, Stream stream) except -1
    cdef int after(self, Stream stream) except -1
    cdef int cancel(self, Stream stream) except -1          # instead of after(), where nothing was launched


# What a graph needs as long as it may be launched: memory in the order of its launches, and its kernels' code.
cdef class Operands:
    cdef dict ordered            # {id(Ordered.memory): Ordered}
    cdef CodeImages images       # of the kernels
    cdef int take(self, Recording recording) except -1      # what a capture has noted
    cdef int add(self, object memory, bint write) except -1
    cdef int join(self, Operands other) except -1
    cdef int check(self) except -1      # ClosedError where memory was closed meanwhile
    cdef list order(self)               # of Ordered: for every graph in the same order
