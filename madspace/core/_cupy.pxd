from madspace.core._operand cimport Operand
from madspace.core.device cimport Device
from madspace.core.stream cimport Stream


cdef extern from "Python.h":
    ctypedef object (*Getter "getter")(object, void*)


# An attribute of the instances of one type: read by its C function where it has one, without a search by name.
cdef class Attribute:
    cdef str name
    cdef Getter get
    cdef void* closure
    cdef object of(self, object instance)

# CuPy's arrays of one type. They have no exchange table, and __dlpack__ costs microseconds for each: they are read by
# their attributes, which CuPy documents.
cdef class CupyArrays:
    cdef object get_current_stream
    cdef Attribute shape, strides, data, dtype
    cdef type memory_type                # of what `data` was last
    cdef Attribute ptr, device_id
    cdef object last_dtype               # the last one, and what it is in DLPack's numbers
    cdef unsigned char code, bits
    cdef Stream current_stream(self, Device device)
    # False for more axes than a Tensor has, and strides between elements.
    cdef bint describe(self, object array, Operand* operand) except -1

# None where CuPy itself is not there to tell its stream.
cdef CupyArrays cupy_arrays(type kind)
