from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from madspace.core.device cimport Device
from madspace.core.stream cimport Stream


# The arguments of one launch, laid out for the driver.
cdef class Arguments:
    cdef vector[uint64_t] words     # values of up to eight bytes
    cdef vector[void*] pointers     # one per parameter, into words or kept
    cdef list kept                  # larger values, as bytes
    cdef list memory                # the Buffers and Tensors among the arguments
    # sizes: of the kernel's parameters, in bytes. Raises TypeError, ShapeError, DeviceMismatchError, OverflowError.
    cdef int lay_out(self, tuple args, const vector[size_t]& sizes, str kernel, Device device) except -1
    cdef int convert(self, object arg, size_t size, size_t index, Device device) except -1
    cdef int keep(self, bytes value, size_t size, size_t index, object arg) except -1
    cdef int before(self, Stream stream) except -1      # as Buffer.before() and after(), for all of them
    cdef int after(self, Stream stream) except -1


cdef Device device_of_arguments(tuple args)             # None where none of them is on a device
