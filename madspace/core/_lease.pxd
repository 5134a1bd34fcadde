from cuda.bindings.cydriver cimport CUevent
from libc.stdint cimport uint64_t
from libcpp.mutex cimport mutex

from madspace.core._uses cimport Use
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport Tensor


# Keeps the handle of a stream valid, also after the Stream was closed.
cdef class Hold:
    cdef Stream stream


# Memory that streams use in turn. Each use is bracketed: before(stream), the launches, after(stream), and after() also
# where a launch raised (`finally`): from the one to the other the lease belongs to the calling thread, and another
# thread's before() waits for it. stream is None for host memory. Who takes several at once takes them by their id().
# In a capture, uses are ordered behind earlier ones of the same capture alone.
cdef class Lease:
    cdef readonly Tensor tensor     # uint8, compact
    cdef bint owned                 # our memory, and no one else has it
    cdef bint shared                # others reach it through Tensors: their uses count, and ours count for them
    cdef bint ordered               # False: nothing but `shared` is looked after (a plain array in one call)
    cdef bint fresh                 # to be poisoned at the first use
    cdef readonly Stream stream     # of the latest use, or of the allocation
    # The latest use outside of captures: on a stream whose handle is kept valid, or else noted by an event.
    cdef Hold last
    cdef Use use
    # The latest captured use: what it was captured by, an event recorded behind it, which is good for that capture
    # alone, and the stream, where its handle is kept valid.
    cdef uint64_t capture
    cdef CUevent mark
    cdef bint is_marked             # False: that event could not be recorded
    cdef Hold capturer
    cdef mutex turn
    cdef unsigned long holder       # the thread between before() and after(), and how often
    cdef int depth
    cdef uint64_t now               # the capture that it is in, 0 for none
    cdef Hold coming
    cdef int before(self, Stream stream) except -1
    cdef int after(self, Stream stream) except -1
    cdef int share(self) except -1              # to be called before a Tensor of the memory is handed out
    cdef int end(self) except -1                # gives our own memory back behind its users; only the owner calls it
    cdef bint is_captured_now(self) except -1   # as far as that can be told: not of a bare foreign handle
    cdef int take_turn(self, Stream stream) except -1
    cdef int order(self, Stream stream) except -1
    cdef int order_captured(self, Stream stream) except -1
    cdef int note_all(self, Stream stream) except -1
    cdef int note(self, Stream stream) except -1
    cdef bint settle(self) except -1
    cdef int leave(self) except -1
    cdef int poison(self) except -1
    cdef bint is_ours_alone(self) noexcept


cdef Lease lease_of(Tensor tensor, bint owned, bint ordered)
cdef bint poisons() except -1                   # MADSPACE_POISON, read once
# The capture that a stream is in, 0 for none. CaptureError for a broken one.
cdef uint64_t capture_of(Stream stream) except? 0
