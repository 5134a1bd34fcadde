from madspace.core.stream cimport Stream
from madspace.core.tensor cimport Tensor


# From a __cuda_array_interface__ dict of `array`, which is kept alive; from a host array interface likewise.
cdef Tensor import_cuda_interface(object array, object interface, Stream stream, str name)
cdef Tensor import_host_array(object array, str name)       # a numpy.ndarray

# Ordinal of the device that a __cuda_array_interface__ dict points to; 0 where it points nowhere.
cdef int interface_device(object interface) except? -2
