from cuda.bindings.cydriver cimport CUfunction

from madspace.core._kernel_code cimport KernelCode
from madspace.core._shape cimport Shape
from madspace.core.stream cimport Stream


cdef class Kernel(KernelCode):
    # Launch in the context of the stream's device, with parameters laid out already (params: one pointer for each).
    # No checks beyond the driver's, GIL released. early: on compute capability 9.0 and later the kernel may begin when
    # all blocks of the one before it on the stream have said so (griddepcontrol.launch_dependents); it must wait
    # (griddepcontrol.wait) before it touches what that one writes.
    cdef int launch_raw(self, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z,
                        unsigned int shared, Stream stream, void** params, bint early=*) except -1
    cdef int launch_shape(self, CUfunction function, const Shape* shape, Stream stream, void** params) except -1
    # The same, in order with earlier and later work on the Buffers and Tensors in `memory`, a tuple, a list or None.
    cdef int launch_ordered(self, CUfunction function, const Shape* shape, Stream stream, void** params,
                            object memory) except -1


# A Stream, or whatever else is taken for one of the device of the first Buffer or Tensor among args, else of device 0.
cdef Stream stream_for(object stream, tuple args)
