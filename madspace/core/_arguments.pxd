from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from madspace.core.device cimport Device
from madspace.core.stream cimport Stream


# Writes all arguments of a launch, each at a word of its own from `words` on, with params[i] pointing to argument i.
# sizes: of the kernel's parameters, in bytes. Returns the arguments with arrays of other libraries taken in as Tensors
# for `stream`: `args` itself where there are none, else a list. n_memory: how many are Buffers or Tensors.
# Raises TypeError, ShapeError, DeviceMismatchError, OverflowError, ClosedError.
cdef object lay_out(tuple args, const vector[size_t]& sizes, str kernel, Stream stream, uint64_t* words, void** params,
                    Py_ssize_t* n_memory)

# One argument of `size` bytes; nothing is written where it raises. Returns the Buffer or Tensor whose address it was,
# None for a value.
cdef object write_argument(void* place, object arg, size_t size, Py_ssize_t index, Stream stream)

cdef size_t words_of(size_t nbytes) noexcept nogil

# As Buffer.before() and after(), for all Buffers and Tensors in a tuple or list.
cdef int order_before(object args, Stream stream) except -1
cdef int order_after(object args, Stream stream) except -1

# Of the first array among them: its device, and the stream on which its framework works now. None where there is none.
cdef Device device_of_arguments(tuple args)
cdef Stream framework_of_arguments(tuple args)
