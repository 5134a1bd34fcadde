"""What graphs keep alive, and put in order with the stream of each launch."""
cimport cython

from madspace.core._code_image cimport CodeImages
from madspace.core._foreign cimport Foreign
from madspace.core._lease cimport Lease
from madspace.core._recording cimport Recording
from madspace.core.memory cimport Buffer
from madspace.core.pinned cimport PinnedBuffer
from madspace.core.stream cimport Stream


cdef class Ordered:
    cdef int before(self, Stream stream) except -1:
        raise NotImplementedError("before")

    cdef int after(self, Stream stream) except -1:
        raise NotImplementedError("after")

    cdef int cancel(self, Stream stream) except -1:
        return 0


@cython.final
cdef class BufferOperand(Ordered):
    cdef int before(self, Stream stream) except -1:
        return (<Buffer>self.memory).before(stream, self.write)

    cdef int after(self, Stream stream) except -1:
        return (<Buffer>self.memory).after(stream, self.write)


@cython.final
cdef class PinnedOperand(Ordered):
    cdef int before(self, Stream stream) except -1:
        cdef PinnedBuffer pinned = self.memory
        pinned.check_open()
        pinned.before(stream, self.write)
        pinned.n_views_ += 1        # nobody closes it before the launch is noted
        return 0

    cdef int after(self, Stream stream) except -1:
        cdef PinnedBuffer pinned = self.memory
        try:
            return pinned.after(stream, self.write, None)
        finally:
            pinned.n_views_ -= 1

    cdef int cancel(self, Stream stream) except -1:
        (<PinnedBuffer>self.memory).n_views_ -= 1
        return 0


@cython.final
cdef class ForeignOperand(Ordered):
    cdef int before(self, Stream stream) except -1:
        return (<Foreign>self.memory).before(stream)

    cdef int after(self, Stream stream) except -1:
        return (<Foreign>self.memory).after(stream)


@cython.final
cdef class LeaseOperand(Ordered):
    cdef int before(self, Stream stream) except -1:
        return (<Lease>self.memory).before(stream)

    cdef int after(self, Stream stream) except -1:
        return (<Lease>self.memory).after(stream)

    cdef int cancel(self, Stream stream) except -1:
        return (<Lease>self.memory).after(stream)     # another thread may wait for its turn


cdef dict KINDS = {Buffer: BufferOperand, PinnedBuffer: PinnedOperand, Foreign: ForeignOperand, Lease: LeaseOperand}


@cython.final
@cython.no_gc_clear         # the images are needed until the graph's handle is destroyed
cdef class Operands:
    def __cinit__(self):
        self.ordered = {}
        self.images = CodeImages.__new__(CodeImages)

    cdef int take(self, Recording recording) except -1:
        for memory, write in recording.memory.values():
            self.add(memory, write)
        return self.images.join(recording.images)

    cdef int add(self, object memory, bint write) except -1:
        cdef Ordered operand
        cdef Ordered known = self.ordered.get(id(memory))
        if known is not None and (known.write or not write):
            return 0
        operand = KINDS[type(memory)]()
        operand.memory = memory
        operand.write = write
        self.ordered[id(memory)] = operand
        return 0

    cdef int join(self, Operands other) except -1:
        cdef Ordered operand
        for operand in other.ordered.values():
            self.add(operand.memory, operand.write)
        return self.images.join(other.images)

    cdef int check(self) except -1:
        cdef Ordered operand
        for operand in self.ordered.values():
            if isinstance(operand, BufferOperand):
                (<Buffer>operand.memory).check_open()
            elif isinstance(operand, PinnedOperand):
                (<PinnedBuffer>operand.memory).check_open()
        return 0

    cdef list order(self):
        # Leases are locks: two threads that launch two graphs must take them in one order.
        return [self.ordered[key] for key in sorted(self.ordered)]
