"""What a report says about driver and devices, found without a context: printing must not take memory on a GPU."""
from madspace.core cimport _driver as drv
from madspace.core.device cimport Device, bare_device, known_device

cdef tuple PROPERTIES = (
    "id", "name", "uuid", "pci_bus_id", "compute_capability", "multiprocessor_count", "total_memory",
)
cdef tuple STATISTICS = (
    "used_bytes", "reserved_bytes", "peak_used_bytes", "peak_reserved_bytes", "release_threshold",
)


def driver_version():
    """Start the driver and tell the newest CUDA version that it supports, 1000 * major + 10 * minor.

    Raises
    ------
    DriverNotFoundError, DriverError, ForkError
        As from ``Device``.
    """
    cdef int version = 0
    drv.init()
    with nogil:
        drv.driver_get_version(&version)
    return version


def list_devices():
    """Describe every device that the process sees.

    Returns
    -------
    list of dict
        Number, name, UUID, PCI address, compute capability, multiprocessors and memory in bytes, and the state of the
        device's own pool, None where there is no such pool yet.

    Raises
    ------
    DriverNotFoundError, DriverError, ForkError
        As from ``Device``.

    Notes
    -----
    No context is made and none is needed; a pool is not made either.
    """
    cdef int count = 0
    drv.init()
    with nogil:
        drv.device_get_count(&count)
    return [describe(device_id) for device_id in range(count)]


cdef dict describe(int device_id):
    cdef Device device = bare_device(device_id)
    state = {name: getattr(device, name) for name in PROPERTIES}
    state["pool"] = pool_state(known_device(device_id))
    return state


cdef object pool_state(Device device):
    if device is None or device.pool_ is None:
        return None
    return {name: getattr(device.pool_, name) for name in STATISTICS}
