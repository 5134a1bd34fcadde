from madspace.core._code_image cimport CodeImage
from madspace.core.device cimport Device
from madspace.core.stream cimport Stream


cdef class Module:
    cdef CodeImage image_
    cdef readonly str name
    cdef bint closed_
    cdef bint shared_            # everybody's: stays open
    cdef dict ready_             # {kernel name: set of the numbers of devices on which it was loaded}
    cdef int check_open(self) except -1
    cdef int load(self, bytes image) except -1
    cdef str told(self)          # the name, and what the driver's compiler had to say
    cdef object __weakref__


# The module of the shipped cubins with this stem that fits the device (madspace/_cubins/manifest.json),
# loaded once per (stem, image). KernelImageError lists what there is. CaptureError where that would be in a capture
# of the stream that it is meant for.
cdef Module shipped_module(str stem, Device device, Stream stream=*)
