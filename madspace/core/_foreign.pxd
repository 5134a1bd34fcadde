from cuda.bindings.cydriver cimport CUstream

from madspace.core._dlpack_abi cimport DLTensor, LegacyTensor, ManagedTensor
from madspace.core.device cimport Device
from madspace.core.stream cimport Stream


# Owns a foreign managed tensor, or an object that lends its memory, until no one reads it any more.
cdef class Foreign:
    cdef ManagedTensor* managed
    cdef LegacyTensor* legacy
    cdef object lender
    cdef bint on_device
    cdef Stream consumer         # reads the memory; None for host memory
    # Where the producer goes on with it, on a stream that never dies; NULL where that is not known: the memory is held
    # until its readers are done.
    cdef CUstream producer
    cdef int bind(self, Stream consumer) except -1      # once; takes a stream whose handle outlives the memory
    # The consumer's later work behind the producer's present one; stream: what was passed to bind(), or None.
    cdef int follow(self, CUstream producer, Stream stream) except -1
    cdef int before(self, Stream stream) except -1
    cdef int after(self, Stream stream) except -1


# Orders two streams, unless that would reach into a capture or out of it.
cdef int order_inside(Device device, CUstream earlier, CUstream later) except -1

cdef int n_held                             # arrays whose readers had not finished when they were let go
cdef int look_at_some(Stream stream) except -1      # gives some back, unless the stream is captured; no host wait
cdef int release_finished() except -1       # gives back all that is held no longer; no host wait

cdef Foreign adopt_managed(ManagedTensor* managed)
cdef Foreign adopt_capsule(object capsule)             # marks it used; TypeError, BufferError
cdef DLTensor* foreign_view(Foreign foreign) except NULL    # BufferError for a major version above ours

# The warning for what a destructor could not do; a filter that makes it an error makes it nothing.
cdef void complain(str message) noexcept
