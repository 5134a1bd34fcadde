"""Modules of compiled device code, their kernels, and the launch of a kernel."""
import _thread
import os
from typing import NamedTuple

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.stdint cimport uintptr_t
from libcpp.vector cimport vector

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUdevice, CUfunction, CUfunction_attribute, CUkernel, CUresult

from madspace.core cimport _driver as drv
from madspace.core._arguments cimport Arguments, device_of_arguments
from madspace.core.device cimport Device, get_device
from madspace.core.pool cimport own_pool
from madspace.core.stream cimport Stream, as_stream, own_stream

from madspace.core._images import find_image, read_image, shipped_images
from madspace.core.device import as_device
from madspace.errors import ClosedError, KernelImageError

cdef enum:
    LOG_NBYTES = 4096
    MAX_THREADS = 1024          # per block, on every device
    MAX_GRID_X = 0x7FFFFFFF
    MAX_GRID_YZ = 0xFFFF
    MAX_BLOCK_Z = 64

cdef object loading = _thread.allocate_lock()
cdef dict by_device = {}        # (stem, device id): Module
cdef dict by_file = {}          # file name: Module; images are shared by the devices that they fit
cdef dict loaded = {}           # file name: sha256


class KernelAttributes(NamedTuple):
    """What a kernel needs on one device."""

    registers: int
    shared_bytes: int
    local_bytes: int
    max_threads_per_block: int
    max_dynamic_shared_bytes: int


@cython.no_gc_clear
cdef class Module:
    """Compiled device code: a cubin, PTX or a fat binary.

    Parameters
    ----------
    image : bytes, bytearray, memoryview, str or os.PathLike
        The code itself, or the path of its file. PTX is compiled by the driver.

    Attributes
    ----------
    name : str
        The path, or what stands for bytes.

    Raises
    ------
    DriverError
        When the driver refuses the image; the message has its compiler's log.
    OSError
        When the file cannot be read.
    DriverNotFoundError, ForkError
        As from ``Device``.

    Notes
    -----
    A module serves all devices that its code fits. Kernels keep it alive. Unloading it, by close() or when it is
    collected, is for when its kernels are done.
    """

    def __cinit__(self):
        self.closed_ = True     # until it is loaded

    def __init__(self, image):
        if self.library_ != NULL:
            raise TypeError("Module: __init__ was called twice")
        if isinstance(image, (bytes, bytearray, memoryview)):
            self.name = f"<{len(image)} bytes>"
            self.load(bytes(image))
        else:
            self.name = os.fspath(image)
            with open(image, "rb") as file:
                self.load(file.read())

    cdef int load(self, bytes image) except -1:
        cdef CUresult code
        cdef const char* data = image       # a terminating zero follows, which PTX needs
        cdef char* log
        if not image:
            raise ValueError(f"image: expected device code, got no bytes ({self.name})")
        drv.init()
        self.log_ = bytearray(LOG_NBYTES)
        log = PyByteArray_AS_STRING(self.log_)
        with nogil:
            drv.library_load_data(&self.library_, data, log, LOG_NBYTES, &code)
        if code != cydriver.CUDA_SUCCESS:
            self.library_ = NULL
            told = self.log_.split(b"\0", 1)[0].decode(errors="replace").strip()
            raise drv.error_of(code, "cuLibraryLoadData", f"{self.name}: {told}" if told else self.name)
        self.closed_ = False
        return 0

    @property
    def closed(self):
        """Whether close() was called."""
        return self.closed_

    @property
    def kernel_names(self):
        """Names of the module's kernels as in the image (C++ names mangled), a sorted tuple of str."""
        cdef unsigned int i
        cdef unsigned int n = 0
        cdef const char* name = NULL
        cdef vector[CUkernel] kernels
        self.check_open()
        with nogil:
            drv.library_get_kernel_count(&n, self.library_)
        kernels.resize(n)
        names = []
        if n > 0:
            with nogil:
                drv.library_enumerate_kernels(kernels.data(), n, self.library_)
        for i in range(n):
            with nogil:
                drv.kernel_get_name(&name, kernels[i])
            names.append(name.decode())
        return tuple(sorted(names))

    def get(self, str name not None):
        """Look up a kernel; ``module[name]`` does the same.

        Parameters
        ----------
        name : str
            As in the image: declare kernels ``extern "C"`` to keep their names.

        Returns
        -------
        Kernel

        Raises
        ------
        KernelImageError
            When there is none of that name; lists what there is.
        ClosedError
            When the module is closed.
        """
        cdef Kernel kernel
        cdef CUkernel handle
        cdef bytes encoded = name.encode()
        cdef const char* text = encoded
        cdef int found
        self.check_open()
        with nogil:
            found = drv.library_get_kernel(&handle, self.library_, text)
        if not found:
            there = ", ".join(self.kernel_names) or "none"
            raise KernelImageError(f"{self.name}: no kernel named {name!r}; there are: {there}")
        kernel = Kernel.__new__(Kernel)
        kernel.module = self
        kernel.name = name
        kernel.handle_ = handle
        return kernel

    def __getitem__(self, name):
        return self.get(name)

    def close(self):
        """Unload the code; idempotent. Its kernels must be done, and cannot be launched any more.

        Raises
        ------
        ValueError
            For a module of madspace's own kernels, which everybody shares.
        """
        cdef CUresult code
        if self.closed_:
            return
        if self.shared_:
            raise ValueError(f"close: {self.name} is one of madspace's own modules and stays open")
        self.closed_ = True
        with nogil:
            code = drv.quiet_library_unload(self.library_)
        if code != cydriver.CUDA_SUCCESS:
            drv.raise_code(code, "cuLibraryUnload")

    def __dealloc__(self):
        cdef CUresult code
        if not self.closed_:
            self.closed_ = True
            with nogil:
                code = drv.quiet_library_unload(self.library_)
            drv.report(code, "cuLibraryUnload")

    def __enter__(self):
        self.check_open()
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __repr__(self):
        return f"<Module {self.name}{', closed' if self.closed_ else ''}>"

    cdef int check_open(self) except -1:
        if self.closed_:
            raise ClosedError(f"module: expected an open module, got {self!r}")
        return 0


cdef class Kernel:
    """A kernel of a Module, from ``module[name]``.

    Attributes
    ----------
    module : Module
        The module, kept alive.
    name : str
        The kernel's name in it.
    """

    def __init__(self):
        raise TypeError("Kernel: use module[name]")

    @property
    def handle(self):
        """The driver's CUkernel, an int; may stand for a CUfunction in a launch."""
        return <uintptr_t>self.handle_

    @property
    def param_sizes(self):
        """Sizes of the parameters in bytes, a tuple of int."""
        self.module.check_open()
        self.read_sizes(get_device(0))
        return tuple([self.sizes_[i] for i in range(self.sizes_.size())])

    def attributes(self, device=None):
        """Tell what the kernel needs on a device.

        Parameters
        ----------
        device : Device, int or str, optional
            The device; 0 if left out.

        Returns
        -------
        KernelAttributes
            Named tuple of ints: ``registers`` per thread, ``shared_bytes`` (static, per block), ``local_bytes`` per
            thread (spills and stack), ``max_threads_per_block``, ``max_dynamic_shared_bytes`` per block as of now.
        """
        self.module.check_open()
        cdef Device where = get_device(0) if device is None else as_device(device)
        return KernelAttributes(
            self.attribute(cydriver.CU_FUNC_ATTRIBUTE_NUM_REGS, where.handle_),
            self.attribute(cydriver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, where.handle_),
            self.attribute(cydriver.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, where.handle_),
            self.attribute(cydriver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, where.handle_),
            self.attribute(cydriver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, where.handle_),
        )

    def set_max_dynamic_shared(self, nbytes, device=None):
        """Allow more dynamic shared memory than the 48 KiB that every launch may ask for.

        Parameters
        ----------
        nbytes : int
            Bytes per block; the device's limit, less the static part, is the most.
        device : Device, int or str, optional
            The device that it holds for; 0 if left out.

        Raises
        ------
        DriverError
            When the device has less.
        """
        self.module.check_open()
        cdef Device where = get_device(0) if device is None else as_device(device)
        cdef int value = nbytes
        with nogil:
            drv.kernel_set_attribute(
                cydriver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, value, self.handle_, where.handle_)

    def launch(self, grid, block, *args, stream, shared=0):
        """Launch the kernel, asynchronously.

        Parameters
        ----------
        grid : int or tuple of int
            Blocks in x, y, z; one to three numbers.
        block : int or tuple of int
            Threads per block in x, y, z; one to three numbers, at most 1024 in all.
        *args : int, float, numpy scalar, ctypes object, Tensor or Buffer
            One per parameter. An int fills a parameter of up to 8 bytes, a float one of 4 or 8; the others must have
            the parameter's size. Buffers and Tensors give their address; the launch is ordered behind earlier work on
            them as if it wrote to each (read-only Tensors: read).
        stream : Stream, int, or any object that ``to_stream`` takes
            Where the launch is queued. What does not tell its device is taken for one of the device of the first Buffer
            or Tensor among `args`, without one of device 0.
        shared : int, optional
            Bytes of dynamic shared memory per block; above 48 KiB see set_max_dynamic_shared().

        Raises
        ------
        ShapeError
            For a wrong number of arguments.
        TypeError, OverflowError
            When an argument does not fit its parameter.
        ValueError
            For a grid or a block out of range. Nothing is clamped.
        DeviceMismatchError
            When memory belongs to another device than the stream.
        DriverError
            When the driver refuses the launch.
        ClosedError
            When the module, the stream or a buffer is closed.

        Notes
        -----
        Everything is checked before anything is queued.
        """
        cdef unsigned int grid_x, grid_y, grid_z, block_x, block_y, block_z
        cdef unsigned int shared_nbytes = shared
        cdef Stream where
        cdef Device device
        cdef Arguments arguments = Arguments.__new__(Arguments)
        cdef int pushed
        self.module.check_open()
        if isinstance(stream, Stream):
            where = stream
            where.check_open()
        else:
            device = device_of_arguments(args)
            where = as_stream(stream, get_device(0) if device is None else device)
        device = where.device
        read_extent("grid", grid, MAX_GRID_X, MAX_GRID_YZ, MAX_GRID_YZ, &grid_x, &grid_y, &grid_z)
        read_extent("block", block, MAX_THREADS, MAX_THREADS, MAX_BLOCK_Z, &block_x, &block_y, &block_z)
        if block_x * block_y * block_z > MAX_THREADS:
            raise ValueError(f"block: expected at most {MAX_THREADS} threads, got {block}")
        self.read_sizes(device)
        arguments.lay_out(args, self.sizes_, self.name, device)
        pushed = device.push()
        try:
            arguments.before(where)
            self.launch_raw(grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_nbytes, where,
                            arguments.pointers.data())
            arguments.after(where)
        finally:
            device.pop(pushed)

    def __repr__(self):
        return f"<Kernel {self.name} of {self.module!r}>"

    cdef int launch_raw(self, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z,
                        unsigned int shared, Stream stream, void** params) except -1:
        with nogil:
            drv.launch_kernel(self.handle_, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared,
                              stream.handle_, params)
        return 0

    cdef int attribute(self, CUfunction_attribute which, CUdevice device) except? -1:
        cdef int value
        with nogil:
            drv.kernel_get_attribute(&value, which, self.handle_, device)
        return value

    cdef int read_sizes(self, Device device) except -1:
        # At first need, since the driver tells them in a context only, and a module belongs to none.
        cdef vector[size_t] sizes
        cdef size_t size
        cdef int found, pushed
        if self.sized_:
            return 0
        pushed = device.push()
        try:
            while True:
                with nogil:
                    found = drv.kernel_get_param_size(self.handle_, sizes.size(), &size)
                if not found:
                    break
                sizes.push_back(size)
        finally:
            device.pop(pushed)
        self.sizes_ = sizes
        self.sized_ = True
        return 0

    cdef int force_load(self, Device device) except -1:
        cdef CUfunction function
        cdef int pushed = device.push()
        try:
            with nogil:
                drv.kernel_get_function(&function, self.handle_)
                drv.func_load(function)
        finally:
            device.pop(pushed)
        return 0


cdef int read_extent(str what, object extent, long max_x, long max_y, long max_z,
                     unsigned int* x, unsigned int* y, unsigned int* z) except -1:
    numbers = extent if isinstance(extent, tuple) else (extent,)
    if not 1 <= len(numbers) <= 3:
        raise ValueError(f"{what}: expected one to three numbers, got {extent!r}")
    for number, most in zip(numbers, (max_x, max_y, max_z)):
        if not 1 <= number <= most:
            raise ValueError(f"{what}: expected numbers from 1 to {(max_x, max_y, max_z)}, got {extent!r}")
    x[0] = numbers[0]
    y[0] = numbers[1] if len(numbers) > 1 else 1
    z[0] = numbers[2] if len(numbers) > 2 else 1
    return 0


# ---- the kernels that come with the package ----

cdef Module shipped_module(str stem, Device device):
    key = (stem, device.id)
    cdef Module module = by_device.get(key)
    if module is None:
        image = find_image(stem, device.compute_capability)
        with loading:
            module = by_file.get(image["file"])
            if module is None:
                module = load_shipped(image)
            by_device[key] = module
    return module


cdef Module load_shipped(dict image):
    cdef Module module = Module.__new__(Module)
    module.name = image["file"]
    module.load(read_image(image))
    module.shared_ = True
    by_file[module.name] = module
    loaded[module.name] = image["sha256"]
    return module


def loaded_images():
    """Tell which of the shipped kernel images were loaded by this process.

    Returns
    -------
    dict
        File name to sha256, as in the manifest.
    """
    return dict(loaded)


def preload(device=None):
    """Load everything that would be loaded at first use: kernels, the device's own stream and pool.

    Parameters
    ----------
    device : Device, int or str, optional
        The device; 0 if left out.

    Returns
    -------
    int
        Number of kernels. Those without an image for the device are left out.

    Raises
    ------
    KernelImageError
        When no images are installed, or their files are damaged.
    DriverNotFoundError, DriverError, ForkError
        As from ``Device``.

    Notes
    -----
    Call it before another library captures a stream: loading is not allowed in a capture.
    """
    cdef Device where = get_device(0) if device is None else as_device(device)
    cdef Module module
    cdef Kernel kernel
    cdef int n = 0
    own_stream(where)
    own_pool(where)
    for stem in sorted({image["stem"] for image in shipped_images()}):
        try:
            image = find_image(stem, where.compute_capability)
        except KernelImageError:
            continue
        module = shipped_module(stem, where)
        for name in image["kernels"]:
            kernel = module.get(name)
            kernel.force_load(where)
            n += 1
    return n
