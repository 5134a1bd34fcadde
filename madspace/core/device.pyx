"""Devices, one object per GPU of the process, and the switching of contexts around each call."""
import _thread

from cpython.object cimport PyObject, newfunc

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUcontext, CUdevice_attribute, CUuuid

from madspace.core cimport _driver as drv

from madspace.errors import DriverError, DriverNotFoundError


cdef extern from "Python.h":
    ctypedef struct TypeSlots "PyTypeObject":
        newfunc tp_new
        void* tp_vectorcall


cdef dict devices = {}              # id: Device; only ever grows
# Reentrant, as all such locks here: the collector may run while one is held, and with it code of the caller's that
# comes back to the same place in the same thread.
cdef object adding = _thread.RLock()


cdef class Device:
    """One CUDA device, by its number. ``Device(0) is Device(0)``: there is one object per device in the process.

    Parameters
    ----------
    device_id : int
        Number of the device, from 0 to ``device_count() - 1``, in the driver's order.

    Attributes
    ----------
    id : int
        The number.

    Raises
    ------
    DriverNotFoundError
        Without a usable driver; the message says what is missing.
    DriverError
        When there is no such device.
    ForkError
        In a child forked after its parent had started the driver.

    Notes
    -----
    The first ``Device(i)`` starts the driver and retains the device's primary context, the one that torch, CuPy and
    the CUDA runtime use; it is never released. No method changes which context is current in the calling thread.
    """

    cdef int push(self) except -1:
        cdef CUcontext current
        drv.ctx_get_current(&current)       # thread-local: not worth a release of the GIL
        if current == self.context_:
            return 0
        with nogil:
            drv.ctx_push_current(self.context_)
        return 1

    cdef int pop(self, int pushed) except -1:
        if pushed:
            with nogil:
                drv.ctx_pop_current()
        return 0

    cdef int attribute(self, CUdevice_attribute which) except? -1:
        cdef int value
        with nogil:
            drv.device_get_attribute(&value, which, self.handle_)
        return value

    @property
    def name(self):
        """Product name as the driver gives it, a str."""
        cdef char text[256]
        with nogil:
            drv.device_get_name(text, sizeof(text), self.handle_)
        return (<bytes>text).decode()

    @property
    def compute_capability(self):
        """Compute capability as ``(major, minor)``, two ints."""
        return (
            self.attribute(cydriver.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            self.attribute(cydriver.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        )

    @property
    def multiprocessor_count(self):
        """Number of streaming multiprocessors."""
        return self.attribute(cydriver.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)

    @property
    def max_shared_per_block(self):
        """Bytes of shared memory that a block can have, with ``Kernel.set_max_dynamic_shared``; an int."""
        return self.attribute(cydriver.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)

    @property
    def max_shared_per_multiprocessor(self):
        """Bytes of shared memory that the blocks of a multiprocessor have together; an int."""
        return self.attribute(cydriver.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)

    @property
    def total_memory(self):
        """Memory of the device, in bytes."""
        cdef size_t nbytes
        with nogil:
            drv.device_total_mem(&nbytes, self.handle_)
        return nbytes

    @property
    def free_memory(self):
        """Memory that no process and no pool holds at this moment, in bytes."""
        cdef size_t free, total
        cdef int pushed = self.push()
        try:
            with nogil:
                drv.mem_get_info(&free, &total)
        finally:
            self.pop(pushed)
        return free

    @property
    def uuid(self):
        """Unique identifier as 8-4-4-4-12 hexadecimal digits, what nvidia-smi prints behind ``GPU-``."""
        cdef CUuuid uuid
        with nogil:
            drv.device_get_uuid(&uuid, self.handle_)
        digits = (<bytes>(<char*>&uuid)[:sizeof(uuid)]).hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    @property
    def pci_bus_id(self):
        """PCI address, ``domain:bus:device.function``."""
        cdef char text[64]
        with nogil:
            drv.device_get_pci_bus_id(text, sizeof(text), self.handle_)
        return (<bytes>text).decode()

    @property
    def default_stream(self):
        """The device's own Stream, non-blocking, made at first use; not CUDA's legacy default stream."""
        from madspace.core.stream import default_stream

        return default_stream(self)

    @property
    def pool(self):
        """The device's own MemoryPool, made at first use; not the driver's current pool."""
        from madspace.core.pool import default_pool

        return default_pool(self)

    def synchronize(self):
        """Wait on the host until all work queued on the device's primary context is done.

        Raises
        ------
        KernelFaultError
            When a kernel crashed.
        CaptureError
            When a stream of the context is being captured.
        """
        cdef int pushed = self.push()
        try:
            with nogil:
                drv.ctx_synchronize()
        finally:
            self.pop(pushed)

    def __eq__(self, other):
        if not isinstance(other, Device):
            return NotImplemented
        return self.id == (<Device>other).id

    def __hash__(self):
        return hash((Device, self.id))

    def __reduce__(self):
        return Device, (self.id,)

    def __repr__(self):
        return f"Device({self.id})"


# A cdef class cannot choose in its constructor which object comes out; the type's slot can. (The vectorcall slot that
# Cython fills in would bypass it.)
cdef object new_device(type kind, object args, PyObject* kwargs):
    return device_of(*args, **({} if kwargs == NULL else <dict>kwargs))


(<TypeSlots*>Device).tp_new = <newfunc>new_device
(<TypeSlots*>Device).tp_vectorcall = NULL


def device_of(device_id):
    """The Device with this number."""
    return get_device(checked_id(device_id))


cdef int checked_id(object device_id) except -1:
    if isinstance(device_id, bool) or not hasattr(device_id, "__index__"):
        raise TypeError(f"device_id: expected an int, got {type(device_id).__name__}")
    number = device_id.__index__()
    if not 0 <= number < 0x7FFFFFFF:
        raise DriverError(
            f"device_id: expected a device number, 0 or more, got {number}",
            101, "CUDA_ERROR_INVALID_DEVICE", "cuDeviceGet",
        )
    return number


cdef Device get_device(int device_id):
    cdef Device device = devices.get(device_id)
    if device is not None:
        return device
    drv.init()
    with adding:
        device = devices.get(device_id)
        if device is None:
            device = devices.setdefault(device_id, make_device(device_id))
    return device


cdef Device known_device(int device_id):
    return devices.get(device_id)


cdef Device make_device(int device_id):
    cdef Device device = bare_device(device_id)
    with nogil:
        drv.primary_ctx_retain(&device.context_, device.handle_)
    return device


cdef Device bare_device(int device_id):
    cdef Device device = Device.__new__(Device)
    device.id = device_id
    with nogil:
        drv.device_get(&device.handle_, device_id)
    return device


def as_device(device):
    """Turn what names a device into the Device.

    Parameters
    ----------
    device : Device, int or str
        A Device, its number, ``"cuda"`` (device 0, whatever context is current) or ``"cuda:1"``.

    Returns
    -------
    Device

    Raises
    ------
    TypeError, ValueError
        For anything else.
    DriverNotFoundError, DriverError, ForkError
        As from ``Device(number)``.
    """
    return named_device(device, "")


def as_device_or_host(device):
    """Turn what names a device or the host into the Device, or None for ``"cpu"``; else as `as_device`."""
    return None if isinstance(device, str) and device == "cpu" else named_device(device, "'cpu', ")


cdef Device named_device(object device, str others):
    """The Device; `others` are the names that the caller takes besides, for the message."""
    if isinstance(device, Device):
        return device
    if isinstance(device, str):
        kind, colon, number = device.partition(":")
        if kind != "cuda" or (colon and not (number.isascii() and number.isdigit())):
            raise ValueError(f"device: expected {others}'cuda' or 'cuda:<number>', got {device!r}")
        return device_of(int(number or 0))
    if isinstance(device, bool) or not hasattr(device, "__index__"):
        raise TypeError(f"device: expected a Device, an int or a str like 'cuda:0', got {type(device).__name__}")
    return device_of(device)


def device_count():
    """Count the CUDA devices that this process may use; starts the driver where there is one.

    Returns
    -------
    int
        0 without a driver, without a device, and where ``CUDA_VISIBLE_DEVICES`` hides all.

    Raises
    ------
    DriverError
        When there is a driver that does not work, or one older than CUDA 13.0.
    ForkError
        In a child forked after its parent had started the driver.
    """
    cdef int count = 0
    try:
        drv.init()
        with nogil:
            drv.device_get_count(&count)
    except DriverNotFoundError:
        return 0
    except DriverError as error:
        if error.code != cydriver.CUDA_ERROR_NO_DEVICE:
            raise
        return 0
    return count
