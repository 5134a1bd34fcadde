"""Kernels of a module, and their launches."""
from libc.stdint cimport uint64_t, uintptr_t
from libcpp.vector cimport vector

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUcontext, CUfunction, CUkernel, CUresult

from madspace.core cimport _driver as drv
from madspace.core._arguments cimport device_of_arguments, framework_of_arguments, lay_out, order_after, order_before
from madspace.core._attach cimport attach
from madspace.core._kernel_code cimport CACHED_DEVICES, KernelCode
from madspace.core._recording cimport n_recordings, note_image
from madspace.core._shape cimport Shape, describe_shape, launch_name, read_shape, start
from madspace.core.current cimport chosen_stream
from madspace.core.device cimport Device, get_device
from madspace.core.module cimport Module
from madspace.core.stream cimport Stream, as_stream, own_stream

from madspace.core._refusal import refusal

cdef enum:
    STACK_PARAMS = 32           # as many arguments, and words of them, are laid out without an allocation
    STACK_WORDS = 64


cdef class Kernel(KernelCode):
    """A kernel of a Module, from ``module[name]``.

    Attributes
    ----------
    module : Module
        The module, kept alive.
    name : str
        The kernel's name in it.

    Notes
    -----
    A kernel is loaded on a device when it is first launched or bound there, or by load().
    """

    def launch(self, grid, block, *args, stream=None, shared=0, cluster=None, cooperative=False):
        """Launch the kernel, asynchronously.

        Parameters
        ----------
        grid : int or tuple of int
            Blocks in x, y, z; one to three numbers.
        block : int or tuple of int
            Threads per block in x, y, z; one to three numbers, at most 1024 in all.
        *args : int, float, complex, numpy scalar, ctypes object, Tensor, Buffer, or array on the device
            One per parameter. An int fills a parameter of 1, 2, 4 or 8 bytes, a float one of 4 or 8, a complex one of 8
            or 16; NumPy scalars (ml_dtypes' among them) and ctypes objects must have the parameter's size. Buffers,
            Tensors and other libraries' arrays (DLPack, ``__cuda_array_interface__``) give the address of their first
            element; the launch is ordered behind earlier work on them as if it wrote to each (read-only ones: read).
        stream : Stream, int, or any object that ``to_stream`` takes, optional
            Where the launch is queued. What does not tell its device is taken for one of the device of the first array
            among `args`, without one of device 0. If left out: the stream of the ``madspace.stream`` block, else the
            current one of the framework that owns the first array, else the device's own.
        shared : int, optional
            Bytes of dynamic shared memory per block; above 48 KiB see set_max_dynamic_shared().
        cluster : int or tuple of int, optional
            Blocks per cluster in x, y, z, which must divide the grid; for more than 8 see allow_large_clusters().
        cooperative : bool, optional
            Whether all blocks must run at once, so that they may wait for each other.

        Raises
        ------
        ShapeError
            For a wrong number of arguments.
        TypeError, OverflowError
            When an argument does not fit its parameter.
        ValueError
            For a grid, block or cluster out of range. Nothing is clamped.
        DeviceMismatchError
            When memory belongs to another device than the stream.
        CaptureError
            When the stream is being captured and the kernel was not loaded before; see load().
        DriverError
            When the driver refuses the launch.
        ClosedError
            When the module, the stream or a buffer is closed.

        Notes
        -----
        Everything is checked before anything is queued. Allocates no device memory. The arguments' values are copied,
        and buffers may be closed, as soon as the call returns.
        """
        cdef Shape shape
        cdef uint64_t stack_words[STACK_WORDS]
        cdef void* stack_params[STACK_PARAMS]
        cdef vector[uint64_t] more_words
        cdef vector[void*] more_params
        cdef uint64_t* words = stack_words
        cdef void** params = stack_params
        cdef Py_ssize_t n_memory
        cdef CUfunction function
        cdef object taken
        if self.module.closed_:
            self.module.check_open()
        cdef Stream where = stream_for(stream, args)
        cdef Device device = where.device
        read_shape(&shape, grid, block, shared, cluster, cooperative)
        function = self.function_on(device, where)
        if self.sizes_.size() > STACK_PARAMS or self.n_words_ > STACK_WORDS:
            more_words.resize(self.n_words_)
            more_params.resize(self.sizes_.size())
            words, params = more_words.data(), more_params.data()
        taken = lay_out(args, self.sizes_, self.name, where, words, params, &n_memory)
        if self.module.closed_ or where.closed_:        # meanwhile, by code of the caller that the arguments ran
            self.module.check_open()
            where.check_open()
        self.launch_ordered(function, &shape, where, params, None if n_memory == 0 else taken)

    def bind(self, grid, block, *args, stream=None, shared=0, cluster=None, cooperative=False):
        """Prepare a launch that is repeated: everything is checked and laid out once.

        Parameters
        ----------
        grid, block, *args, stream, shared, cluster, cooperative
            As of launch().

        Returns
        -------
        BoundKernel
            Call it to launch.

        Raises
        ------
        ShapeError, TypeError, OverflowError, ValueError, DeviceMismatchError, CaptureError, DriverError, ClosedError
            As from launch().
        """
        from madspace.core.binding import bind_kernel

        return bind_kernel(self, grid, block, args, stream, shared, cluster, cooperative)

    def __repr__(self):
        return f"<Kernel {self.name} of {self.module!r}>"

    cdef int launch_raw(self, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z,
                        unsigned int shared, Stream stream, void** params, bint early=False) except -1:
        cdef Shape shape
        cdef int device = stream.device.id
        cdef CUfunction function = self.functions_[device] if device < CACHED_DEVICES else NULL
        shape.grid[0], shape.grid[1], shape.grid[2] = grid_x, grid_y, grid_z
        shape.block[0], shape.block[1], shape.block[2] = block_x, block_y, block_z
        shape.cluster[0] = 0
        shape.shared, shape.cooperative, shape.early = shared, False, early
        return self.launch_shape(function if function != NULL else <CUfunction>self.handle_, &shape, stream, params)

    cdef int launch_shape(self, CUfunction function, const Shape* shape, Stream stream, void** params) except -1:
        cdef CUresult code
        cdef CUcontext context = stream.device.context_
        # Without the GIL although that costs a little: a launch into a full queue waits for the device, and so perhaps
        # for another library's callback, which wants the GIL.
        with nogil:
            start(context, function, shape, stream.handle_, params, &code)
        if code != cydriver.CUDA_SUCCESS:
            raise drv.error_of(code, launch_name(shape).decode(), f"kernel {self.name}, {describe_shape(shape)}")
        if n_recordings != 0:
            note_image(stream, self.module.image_)
        return 0

    cdef int launch_ordered(self, CUfunction function, const Shape* shape, Stream stream, void** params,
                            object memory) except -1:
        if memory is None:
            return self.launch_shape(function, shape, stream, params)
        order_before(memory, stream)
        self.launch_shape(function, shape, stream, params)
        return order_after(memory, stream)


attach(Kernel, "__new__", refusal("Kernel: use module[name]"))


cdef Stream stream_for(object stream, tuple args):
    cdef Stream where
    cdef Device device
    if isinstance(stream, Stream):
        where = stream
        if where.closed_:
            where.check_open()
        return where
    device = device_of_arguments(args)
    if device is None:
        device = get_device(0)
    if stream is not None:
        return as_stream(stream, device)
    where = chosen_stream(device)
    if where is None:
        where = framework_of_arguments(args)
    return own_stream(device) if where is None else where


def make_kernel(Module module not None, str name not None, uintptr_t handle):
    """Wrap a kernel of a module; Module.get() calls it."""
    cdef Kernel kernel = Kernel.__new__(Kernel)
    kernel.module = module
    kernel.name = name
    kernel.handle_ = <CUkernel>handle
    return kernel
