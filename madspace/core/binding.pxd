from cuda.bindings.cydriver cimport CUfunction
from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from madspace.core._shape cimport Shape
from madspace.core.device cimport Device
from madspace.core.kernel cimport Kernel
from madspace.core.module cimport Module
from madspace.core.stream cimport Stream


# A launch whose arguments lie ready for the driver.
cdef class BoundKernel:
    cdef readonly Kernel kernel
    cdef readonly Stream stream
    cdef Module module_
    cdef Device device_
    cdef CUfunction function_
    cdef Shape shape_
    cdef vector[uint64_t] words_
    cdef vector[void*] params_   # into words_, which never grows
    cdef list memory_            # by argument: its Buffer or Tensor, None for a value
    cdef tuple operands_         # those that are not None; None where there are none
    cdef int run(self, Stream stream) except -1
    cdef int gather(self) except -1
