from cuda.bindings.cydriver cimport CUdevice, CUfunction, CUfunction_attribute, CUkernel
from libcpp.vector cimport vector

from madspace.core.device cimport Device
from madspace.core.module cimport Module
from madspace.core.stream cimport Stream

cdef enum:
    CACHED_DEVICES = 64


# What a kernel is on each device, without its launches: the base of Kernel, and never made alone.
cdef class KernelCode:
    cdef readonly Module module
    cdef readonly str name
    cdef CUkernel handle_
    cdef vector[size_t] sizes_   # of the parameters
    cdef size_t n_words_         # of 8 bytes, for all arguments, each at a word of its own
    cdef bint sized_
    cdef CUfunction functions_[CACHED_DEVICES]      # by device number; NULL: not loaded there yet
    # The kernel on a device, loaded there at first need; afterwards the sizes are known. stream: where it is to run;
    # CaptureError where that is being captured and the kernel was not loaded before. None: for no stream.
    cdef CUfunction function_on(self, Device device, Stream stream) except NULL
    cdef CUfunction load_on(self, Device device, Stream stream) except NULL
    cdef CUfunction load_here(self) except NULL
    cdef int read_sizes(self) except -1
    cdef int attribute(self, CUfunction_attribute which, CUdevice device) except? -1
    cdef int set_attribute(self, CUfunction_attribute which, int value, object device) except -1
