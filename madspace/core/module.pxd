from cuda.bindings.cydriver cimport CUdevice, CUfunction_attribute, CUkernel, CUlibrary
from libcpp.vector cimport vector

from madspace.core.device cimport Device
from madspace.core.stream cimport Stream


cdef class Module:
    cdef CUlibrary library_
    cdef readonly str name
    cdef bint closed_
    cdef bint shared_            # everybody's: stays open
    cdef bytearray log_          # the driver may write to it when it compiles, also later
    cdef int check_open(self) except -1
    cdef int load(self, bytes image) except -1
    cdef object __weakref__


cdef class Kernel:
    cdef readonly Module module
    cdef readonly str name
    cdef CUkernel handle_
    cdef vector[size_t] sizes_   # of the parameters, from read_sizes()
    cdef bint sized_
    # Launch with the device's context current and parameters already laid out (params: one pointer per parameter).
    # No checks beyond the driver's, GIL released.
    cdef int launch_raw(self, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z,
                        unsigned int shared, Stream stream, void** params) except -1
    cdef int attribute(self, CUfunction_attribute which, CUdevice device) except? -1
    cdef int read_sizes(self, Device device) except -1
    cdef int force_load(self, Device device) except -1          # now, instead of at the first launch


# The module of the shipped cubins with this stem that fits the device (madspace/_cubins/manifest.json),
# loaded once per (stem, image). KernelImageError lists what there is.
cdef Module shipped_module(str stem, Device device)
