from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from madspace.cpu._programs cimport Program, _Code


cdef extern from "../cpu/prepared.h" namespace "madspace" nogil:
    cdef struct PreparedArray:
        vector[int] registers
        int is_int
        int fours
    cdef struct PreparedPlace:
        char* data
        long long event_stride
        long long element_stride
    cdef cppclass Prepared:
        Program program
        vector[PreparedArray] inputs
        vector[PreparedArray] outputs


# Keeps what a Prepared points to.
cdef class PreparedProgram:
    cdef _Code code
    cdef Prepared prepared


# inputs and outputs: (register of each element, whether int32, whether the last axis has four elements) each.
cdef PreparedProgram prepare(object code, object constants, object n_registers, list inputs, list outputs)

# Runs n events; False where there is no memory left. One place for each array.
cdef bint run_prepared(const Prepared* prepared, const PreparedPlace* inputs, const PreparedPlace* outputs,
                       int64_t n) noexcept nogil
