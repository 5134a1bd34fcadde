"""The code of a kernel on each device: loading it, what it needs, how it fills the device."""
from typing import NamedTuple

from libc.stdint cimport uintptr_t
from libcpp.vector cimport vector

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport (
    CUdevice, CUfunction, CUfunction_attribute, CUlaunchAttribute, CUlaunchConfig, CUresult,
)

from madspace.core cimport _driver as drv
from madspace.core._arguments cimport words_of
from madspace.core._attach cimport attach
from madspace.core._numbers cimport byte_count, whole_number
from madspace.core._shape cimport MAX_ATTRIBUTES, MAX_SHARED, Shape, fill_config, read_block
from madspace.core.device cimport Device, get_device
from madspace.core.stream cimport Stream

from madspace.core._refusal import refusal
from madspace.core.device import as_device
from madspace.errors import DriverError


class KernelAttributes(NamedTuple):
    """What a kernel needs on one device; see Kernel.attributes()."""

    registers: int
    shared_bytes: int
    local_bytes: int
    max_threads_per_block: int
    max_dynamic_shared_bytes: int
    constant_bytes: int
    ptx_version: int
    binary_version: int
    shared_carveout: int


class Occupancy(NamedTuple):
    """How a kernel fills one device; see Kernel.occupancy()."""

    blocks_per_multiprocessor: int
    fraction: float
    suggested_block: int
    suggested_grid: int
    active_clusters: int | None


cdef class KernelCode:
    """What Kernel is without launches."""

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
        if not self.sized_:
            self.function_on(get_device(0), None)
        return tuple([self.sizes_[i] for i in range(self.sizes_.size())])

    def load(self, device=None):
        """Load the kernel on a device now, instead of at its first launch there.

        Parameters
        ----------
        device : Device, int or str, optional
            The device; 0 if left out.

        Raises
        ------
        DriverError
            When the image has no code for the device; the message has the driver's log.
        ClosedError
            When the module is closed.

        Notes
        -----
        Needed before a launch that is captured. Loading may wait for the device.
        """
        self.module.check_open()
        self.function_on(get_device(0) if device is None else as_device(device), None)

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
            thread (spills and stack), ``max_threads_per_block``, ``max_dynamic_shared_bytes`` per block as of now,
            ``constant_bytes``, ``ptx_version`` and ``binary_version`` (compute capability times ten), and
            ``shared_carveout`` (percent, -1: the driver's choice).
        """
        self.module.check_open()
        cdef Device where = get_device(0) if device is None else as_device(device)
        return KernelAttributes(
            self.attribute(cydriver.CU_FUNC_ATTRIBUTE_NUM_REGS, where.handle_),
            self.attribute(cydriver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, where.handle_),
            self.attribute(cydriver.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, where.handle_),
            self.attribute(cydriver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, where.handle_),
            self.attribute(cydriver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, where.handle_),
            self.attribute(cydriver.CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, where.handle_),
            self.attribute(cydriver.CU_FUNC_ATTRIBUTE_PTX_VERSION, where.handle_),
            self.attribute(cydriver.CU_FUNC_ATTRIBUTE_BINARY_VERSION, where.handle_),
            self.attribute(cydriver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, where.handle_),
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
        TypeError, ValueError
            When `nbytes` is no number of bytes.
        """
        number = byte_count(nbytes, "nbytes")
        if number > MAX_SHARED:
            raise ValueError(f"nbytes: expected 0 to {MAX_SHARED}, got {number}")
        self.set_attribute(cydriver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, number, device)

    def set_shared_carveout(self, percent, device=None):
        """Say how much of a multiprocessor's cache the kernel would like as shared memory.

        Parameters
        ----------
        percent : int
            0 to 100 of the most there can be; -1 leaves it to the driver. A hint.
        device : Device, int or str, optional
            The device that it holds for; 0 if left out.

        Raises
        ------
        TypeError, ValueError
            For what is no int, and for a number out of range.
        """
        number = whole_number(percent, "percent")
        if not -1 <= number <= 100:
            raise ValueError(f"percent: expected -1 to 100, got {number}")
        self.set_attribute(cydriver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, number, device)

    def allow_large_clusters(self, device=None):
        """Allow clusters of more than the 8 blocks that every device with clusters has; up to 16 where it can.

        Parameters
        ----------
        device : Device, int or str, optional
            The device that it holds for; 0 if left out.

        Raises
        ------
        DriverError
            When the device has no clusters.
        """
        self.set_attribute(cydriver.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, device)

    def occupancy(self, block, *, shared=0, cluster=None, device=None):
        """Tell how many blocks of a size run at once, and which size would fill the device.

        Parameters
        ----------
        block : int or tuple of int
            Threads per block.
        shared : int, optional
            Bytes of dynamic shared memory per block.
        cluster : int or tuple of int, optional
            Blocks per cluster.
        device : Device, int or str, optional
            The device; 0 if left out.

        Returns
        -------
        Occupancy
            Named tuple: ``blocks_per_multiprocessor`` (0: such a block cannot run), ``fraction`` of a multiprocessor's
            threads that they occupy, ``suggested_block`` (threads) and ``suggested_grid`` (blocks) that fill the
            device with `shared` bytes per block, and ``active_clusters`` on the whole device (None without `cluster`).

        Raises
        ------
        ValueError, TypeError
            For a block or cluster out of range.
        DriverError, ClosedError
            As from load().
        """
        cdef Shape shape
        cdef CUlaunchConfig config
        cdef CUlaunchAttribute room[MAX_ATTRIBUTES]
        cdef CUfunction function
        cdef int threads, pushed, suggested_block, suggested_grid
        cdef int n = 0
        cdef int clusters = 0
        self.module.check_open()
        cdef Device where = get_device(0) if device is None else as_device(device)
        read_block(&shape, block, shared, cluster)
        threads = shape.block[0] * shape.block[1] * shape.block[2]
        function = self.function_on(where, None)
        pushed = where.push()
        try:
            with nogil:
                drv.occupancy_max_active_blocks(&n, function, threads, shape.shared)
                drv.occupancy_max_potential_block_size(&suggested_grid, &suggested_block, function, shape.shared)
                if shape.cluster[0] > 0:
                    fill_config(&shape, NULL, &config, room)
                    drv.occupancy_max_active_clusters(&clusters, function, &config)
        finally:
            where.pop(pushed)
        most = where.attribute(cydriver.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)
        return Occupancy(n, n * threads / most, suggested_block, suggested_grid, None if cluster is None else clusters)

    cdef CUfunction function_on(self, Device device, Stream stream) except NULL:
        if device.id < CACHED_DEVICES and self.functions_[device.id] != NULL:
            return self.functions_[device.id]
        return self.load_on(device, stream)

    cdef CUfunction load_on(self, Device device, Stream stream) except NULL:
        # The driver loads code into a context at its first use, which may wait for running kernels, and tells parameter
        # sizes in a context only: all of it is done here, and never in a capture of the stream.
        cdef CUfunction function
        cdef int captured
        cdef int pushed = device.push()
        try:
            # What another object for the same kernel has loaded is only looked up.
            if stream is not None and device.id not in self.module.ready_.get(self.name, ()):
                with nogil:
                    captured = drv.stream_is_capturing(stream.handle_)
                if captured:
                    raise drv.error_of(
                        cydriver.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuFuncLoad",
                        f"kernel {self.name} is not loaded on device {device.id} yet: call its load() before the "
                        "capture, or madspace.preload() for madspace's own kernels")
            function = self.load_here()
        finally:
            device.pop(pushed)
        self.module.ready_.setdefault(self.name, set()).add(device.id)
        if device.id < CACHED_DEVICES:
            self.functions_[device.id] = function
        return function

    cdef CUfunction load_here(self) except NULL:
        cdef CUfunction function = NULL
        try:
            with nogil:
                drv.kernel_get_function(&function, self.handle_)
                drv.func_load(function)
            if not self.sized_:
                self.read_sizes()
        except DriverError as error:
            # PTX may be compiled as late as this: then the log tells what the code does not.
            raise drv.error_of(
                <CUresult><int>error.code, error.call, f"kernel {self.name} of {self.module.told()}") from None
        return function

    cdef int read_sizes(self) except -1:
        cdef vector[size_t] sizes
        cdef size_t size
        cdef size_t n_words = 0
        cdef int found
        while True:
            with nogil:
                found = drv.kernel_get_param_size(self.handle_, sizes.size(), &size)
            if not found:
                break
            sizes.push_back(size)
            n_words += words_of(size)
        self.sizes_ = sizes
        self.n_words_ = n_words
        self.sized_ = True
        return 0

    cdef int attribute(self, CUfunction_attribute which, CUdevice device) except? -1:
        cdef int value
        with nogil:
            drv.kernel_get_attribute(&value, which, self.handle_, device)
        return value

    cdef int set_attribute(self, CUfunction_attribute which, int value, object device) except -1:
        cdef Device where = get_device(0) if device is None else as_device(device)
        cdef CUfunction function = self.functions_[where.id] if where.id < CACHED_DEVICES else NULL
        cdef int pushed
        self.module.check_open()
        with nogil:
            drv.kernel_set_attribute(which, value, self.handle_, where.handle_)
        if function == NULL:
            return 0
        # The kernel was loaded there before: whether its function follows is not documented.
        pushed = where.push()
        try:
            with nogil:
                drv.func_set_attribute(function, which, value)
        finally:
            where.pop(pushed)
        return 0


attach(KernelCode, "__new__", refusal("Kernel: use module[name]"))
