"""Launches that are prepared once and repeated at next to the driver's own cost."""

from madspace.core._arguments cimport lay_out, write_argument
from madspace.core._attach cimport attach
from madspace.core._numbers cimport whole_number
from madspace.core._shape cimport read_shape
from madspace.core.kernel cimport Kernel, stream_for
from madspace.core.memory cimport Buffer
from madspace.core.stream cimport Stream, as_stream
from madspace.core.tensor cimport Tensor

from madspace.core._refusal import refusal


cdef class BoundKernel:
    """A kernel with its grid, block, stream and arguments, from ``kernel.bind(...)``. Call it to launch.

    Attributes
    ----------
    kernel : Kernel
        The kernel, kept alive with its module.
    stream : Stream
        Where it is launched, unless a call names another stream.

    Notes
    -----
    Values are those of the call of bind(); the Buffers and Tensors among the arguments are kept alive, and each launch
    is ordered with other work on them as ``Kernel.launch`` does it. Arrays of other libraries are taken in by bind():
    what their owner queues on another stream afterwards is the caller's to order. A launch may run in several threads
    at once, but not beside set().
    """

    def __init__(self):
        raise TypeError("BoundKernel: use kernel.bind(...)")

    def __call__(self, *, stream=None):
        """Launch; the same as launch()."""
        self.run(self.stream if stream is None else as_stream(stream, self.device_))

    def launch(self, *, stream=None):
        """Launch, asynchronously.

        Parameters
        ----------
        stream : Stream, int, or any object that ``to_stream`` takes, optional
            Another stream of the same device for this launch.

        Raises
        ------
        ClosedError
            When the module, the stream or a buffer was closed.
        DeviceMismatchError
            When `stream` belongs to another device.
        DriverError
            When the driver refuses the launch.

        Notes
        -----
        Allocates nothing and may be captured.
        """
        self.run(self.stream if stream is None else as_stream(stream, self.device_))

    def set(self, index, value):
        """Replace one argument, for the launches that follow.

        Parameters
        ----------
        index : int
            Its place among the arguments, from 0.
        value : int, float, complex, numpy scalar, ctypes object, Tensor, Buffer, or array on the device
            As for ``Kernel.launch``.

        Raises
        ------
        IndexError
            When there is no such argument.
        TypeError, OverflowError, DeviceMismatchError, ClosedError
            When the value does not fit its parameter; the argument stays what it was.

        Notes
        -----
        Launches that were queued before keep the value they had.
        """
        cdef Py_ssize_t i
        number = whole_number(index, "index")
        if not 0 <= number < <Py_ssize_t>self.params_.size():
            raise IndexError(f"index: expected 0 to {<Py_ssize_t>self.params_.size() - 1}, got {number}")
        i = number
        self.memory_[i] = write_argument(self.params_[i], value, self.kernel.sizes_[i], i, self.stream)
        self.gather()

    def __repr__(self):
        return f"<BoundKernel {self.kernel.name} on {self.stream!r}>"

    cdef int run(self, Stream stream) except -1:
        cdef tuple operands = self.operands_        # a reference of its own, whatever set() does in another thread
        if self.module_.closed_:
            self.module_.check_open()
        if stream.closed_:
            stream.check_open()
        if operands is not None:
            check_open(operands)
        return self.kernel.launch_ordered(self.function_, &self.shape_, stream, self.params_.data(), operands)

    cdef int gather(self) except -1:
        operands = tuple([memory for memory in self.memory_ if memory is not None])
        self.operands_ = operands if operands else None
        return 0


attach(BoundKernel, "__new__", refusal("BoundKernel: use kernel.bind(...)"))


cdef int check_open(tuple operands) except -1:
    # All of them, before the first one makes the stream wait for anything.
    cdef Buffer buffer
    for operand in operands:
        buffer = <Buffer>operand if isinstance(operand, Buffer) else (<Tensor>operand).buffer_
        if buffer is not None and buffer.closed_:
            buffer.check_open()
    return 0


def bind_kernel(Kernel kernel not None, grid, block, tuple args not None, stream, shared, cluster, cooperative):
    """Check and lay out a launch; ``Kernel.bind`` calls it."""
    cdef BoundKernel bound = BoundKernel.__new__(BoundKernel)
    cdef Py_ssize_t n_memory
    kernel.module.check_open()
    bound.kernel = kernel
    bound.module_ = kernel.module
    bound.stream = stream_for(stream, args)
    bound.device_ = bound.stream.device
    read_shape(&bound.shape_, grid, block, shared, cluster, cooperative)
    bound.function_ = kernel.function_on(bound.device_, bound.stream)
    bound.words_.resize(kernel.n_words_)
    bound.params_.resize(kernel.sizes_.size())
    taken = lay_out(
        args, kernel.sizes_, kernel.name, bound.stream, bound.words_.data(), bound.params_.data(), &n_memory)
    bound.memory_ = [arg if isinstance(arg, (Buffer, Tensor)) else None for arg in taken]
    bound.gather()
    return bound
