"""Pools of device memory."""
import _thread
from collections import namedtuple

cimport cython
from libc.stdint cimport UINT64_MAX, uint64_t, uintptr_t
from libc.string cimport memset

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUmemPool_attribute, CUresult

from madspace.core cimport _driver as drv
from madspace.core._foreign cimport release_finished
from madspace.core._leaks cimport remember
from madspace.core._numbers cimport byte_count
from madspace.core._retired cimport reap_pools, retire_pool
from madspace.core._teardown cimport is_closed, refuse
from madspace.core._watch cimport LEAKS, watchers
from madspace.core.current cimport pick_stream
from madspace.core.device cimport Device, get_device
from madspace.core.stream cimport Stream

from madspace.core.device import as_device
from madspace.errors import ClosedError

MemoryStats = namedtuple("MemoryStats", (
    "current_bytes", "peak_bytes", "total_bytes", "current_count", "peak_count", "total_count",
    "used_bytes", "peak_used_bytes", "reserved_bytes", "peak_reserved_bytes", "limit",
))
MemoryStats.__doc__ = """Memory of one pool, in bytes and in numbers of buffers.

``current_*``, ``peak_*`` and ``total_*`` count what buffers asked for: those not freed yet (a free counts when it is
queued), the most at one time, and all ever. ``used_bytes`` and ``reserved_bytes``, with the highest value of each, are
the driver's: in buffers, those included whose free the device has not reached, and taken from the device. ``limit`` is
the pool's, None for none.
"""

cdef object making = _thread.RLock()
cdef object allocate_buffer = None      # of the layer above, from the first allocate() on
cdef list deferred = []


@cython.no_gc_clear         # the destructor needs the device
cdef class MemoryPool:
    """Stream-ordered device memory that stays with the process between uses.

    Parameters
    ----------
    device : Device, int or str, optional
        Where the memory is; device 0 if left out.
    limit : int, optional
        Bytes that may be in buffers at one time; an allocation that would pass it is refused before the driver is
        asked. No limit if left out.
    release_threshold : int, optional
        Bytes that the pool may keep idle when a stream or the device is synchronised; all of them if left out.

    Attributes
    ----------
    device : Device
        The device.

    Raises
    ------
    ValueError
        For a negative `limit` or `release_threshold`.
    DriverNotFoundError, DriverError, ForkError
        As from ``Device``.

    Notes
    -----
    The device's current pool, which belongs to everybody in the process, is neither used nor changed.
    """

    def __cinit__(self):
        self.closed_ = True     # until there is a handle

    def __init__(self, device=None, *, limit=None, release_threshold=None):
        if self.handle_ != NULL:
            raise TypeError("MemoryPool: __init__ was called twice")
        cdef uint64_t threshold = bytes_of(release_threshold, "release_threshold")
        self.limit = limit
        create(self, get_device(0) if device is None else as_device(device), threshold)
        if watchers() & LEAKS:
            remember(self)

    @property
    def handle(self):
        """The driver's handle (``CUmemoryPool``), an int. It is valid until the pool is closed."""
        return <uintptr_t>self.handle_

    @property
    def closed(self):
        """Whether close() was called."""
        return self.closed_

    @property
    def used_bytes(self):
        """Bytes in buffers, those included whose free the device has not reached."""
        return self.statistic(cydriver.CU_MEMPOOL_ATTR_USED_MEM_CURRENT)

    @property
    def reserved_bytes(self):
        """Bytes taken from the device: in buffers and idle."""
        return self.statistic(cydriver.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)

    @property
    def peak_used_bytes(self):
        """Largest `used_bytes` since the start or reset_peaks()."""
        return self.statistic(cydriver.CU_MEMPOOL_ATTR_USED_MEM_HIGH)

    @property
    def peak_reserved_bytes(self):
        """Largest `reserved_bytes` since the start or reset_peaks()."""
        return self.statistic(cydriver.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)

    @property
    def release_threshold(self):
        """Bytes that the pool may keep idle at a synchronisation."""
        return self.statistic(cydriver.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)

    @property
    def limit(self):
        """Bytes that may be in buffers at one time, None for no limit; may be set, also below what is in use now."""
        cdef uint64_t most = self.tally_.limit.load()
        return None if most == UINT64_MAX else most

    @limit.setter
    def limit(self, value):
        self.tally_.limit.store(bytes_of(value, "limit"))

    def stats(self):
        """What the pool's buffers and the driver's pool hold.

        Returns
        -------
        MemoryStats
            See there.
        """
        return MemoryStats(
            self.tally_.used_bytes(), self.tally_.peak_bytes.load(), self.tally_.bytes.load(),
            self.tally_.used_blocks(), self.tally_.peak_blocks.load(), self.tally_.blocks.load(),
            self.used_bytes, self.peak_used_bytes, self.reserved_bytes, self.peak_reserved_bytes, self.limit,
        )

    def reset_peaks(self):
        """Let all peaks begin anew at the present values."""
        self.check_open()
        self.tally_.reset_peaks()
        with nogil:
            drv.mem_pool_set_attribute(self.handle_, cydriver.CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0)
            drv.mem_pool_set_attribute(self.handle_, cydriver.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0)

    def trim(self, min_bytes_to_keep=0):
        """Give idle memory back to the device.

        Parameters
        ----------
        min_bytes_to_keep : int, optional
            Bytes that the pool keeps reserved, those in use included.

        Raises
        ------
        ValueError
            For a negative number.

        Notes
        -----
        Memory whose free the device has not reached is not idle: synchronise first to give that back, too.
        """
        cdef size_t keep = byte_count(min_bytes_to_keep, "min_bytes_to_keep")
        self.check_open()
        if is_closed():         # in a forked child nobody may be left to release the locks below
            refuse("cuMemPoolTrimTo")
        free_deferred()
        release_finished()
        with nogil:
            reap_pools()
            drv.mem_pool_trim_to(self.handle_, keep)

    def allocate(self, nbytes, *, stream=None):
        """Allocate memory, uninitialised, in stream order.

        Parameters
        ----------
        nbytes : int
            Bytes; 0 gives a buffer with ``ptr`` 0.
        stream : Stream, int, or any object that ``to_stream`` takes, optional
            Work queued on it from now on may use the memory; the one that ``get_stream`` tells if left out.

        Returns
        -------
        Buffer
            Aligned to 256 bytes. On the per-thread default stream, which means another stream in every thread, and on
            a handle without an owner (an int), which may be dead when the buffer is freed, the buffer belongs to the
            device's own stream instead.

        Raises
        ------
        OutOfMemoryError
            When the pool's limit or the device has no room, the latter also after idle memory was given back. The
            message has the sizes.
        CaptureError
            When another library captures the stream.
        DeviceMismatchError
            When the stream belongs to another device.
        ClosedError
            When the pool or the stream is closed.
        TypeError, ValueError
            When `nbytes` is no number of bytes.

        Notes
        -----
        In a ``madspace.capture`` the memory is taken once, for all launches, and belongs to the graph too: it stays,
        at the same address, until the graph and everything made of it are gone. What a launch writes to it is valid
        until the next launch.
        """
        self.check_open()
        cdef size_t size = byte_count(nbytes, "nbytes")
        cdef Stream where = pick_stream(stream, self.device)
        global allocate_buffer
        if allocate_buffer is None:
            from madspace.core.memory import allocate_buffer
        return allocate_buffer(self, size, where)

    def close(self):
        """End the use of this pool; idempotent. It goes when the device has reached the free of its last buffer.

        Raises
        ------
        ValueError
            For the device's own pool, which everybody shares.
        """
        cdef CUresult code
        if self.closed_:
            return
        if self is self.device.pool_:
            raise ValueError(f"close: the own pool of device {self.device.id} is shared and stays open")
        self.closed_ = True
        with nogil:
            code = retire_pool(self.handle_)
        if code != cydriver.CUDA_SUCCESS:
            drv.raise_code(code, "cuMemPoolDestroy")

    def __dealloc__(self):
        cdef CUresult code
        if not self.closed_:
            self.closed_ = True
            with nogil:
                code = retire_pool(self.handle_)
            drv.report(code, "cuMemPoolDestroy")

    def __enter__(self):
        self.check_open()
        return self

    def __exit__(self, *exc_info):
        if self.closed_ or self is not self.device.pool_:       # that one is everybody's and stays open
            self.close()

    def __repr__(self):
        state = "closed" if self.closed_ else "open"
        return f"<MemoryPool {<uintptr_t>self.handle_:#x} of device {self.device.id if self.device else None}, {state}>"

    cdef int check_open(self) except -1:
        if self.closed_:
            raise ClosedError(f"pool: expected an open pool, got {self!r}")
        return 0

    cdef object statistic(self, CUmemPool_attribute which):
        cdef uint64_t value
        self.check_open()
        with nogil:
            drv.mem_pool_get_attribute(self.handle_, which, &value)
        return value


cdef uint64_t bytes_of(object value, str name) except? 0:
    """A number of bytes; None stands for all of them."""
    return UINT64_MAX if value is None else byte_count(value, name)


cdef int create(MemoryPool pool, Device device, uint64_t threshold) except -1:
    cdef cydriver.CUmemPoolProps props
    memset(&props, 0, sizeof(props))
    props.allocType = cydriver.CU_MEM_ALLOCATION_TYPE_PINNED
    props.location.type = cydriver.CU_MEM_LOCATION_TYPE_DEVICE
    props.location.id = device.id
    with nogil:
        drv.mem_pool_create(&pool.handle_, &props)
    pool.device = device
    pool.closed_ = False
    with nogil:
        drv.mem_pool_set_attribute(pool.handle_, cydriver.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, threshold)
    return 0


cdef MemoryPool own_pool(Device device):
    cdef MemoryPool pool
    if device.pool_ is not None:
        return device.pool_
    # Before the lock: in a forked child nobody may be left to release it.
    if is_closed():
        refuse("cuMemPoolCreate")
    with making:
        if device.pool_ is None:
            pool = MemoryPool.__new__(MemoryPool)
            create(pool, device, UINT64_MAX)
            if device.pool_ is None:        # not made meanwhile by what the collector ran
                device.pool_ = pool
    return device.pool_


def default_pool(Device device not None):
    """The device's own pool, as ``device.pool``."""
    return own_pool(device)


def memory_stats(device=None):
    """Tell what the own pool of a device holds.

    Parameters
    ----------
    device : Device, int or str, optional
        The device; device 0 if left out.

    Returns
    -------
    MemoryStats
        As from ``Device.pool.stats()``. Where set_allocator() has put somebody else in the pool's place, the counts are
        those of its buffers all the same, and the driver's numbers are those of the pool, which is idle then.

    Raises
    ------
    DriverNotFoundError, DriverError, ForkError
        As from ``Device``.
    """
    return own_pool(get_device(0) if device is None else as_device(device)).stats()


cdef int defer_free(object buffer) except -1:
    deferred.append(buffer)
    return 0


cdef int free_deferred() except -1:
    # Dropping a buffer frees it, or puts it back here while its stream is still captured.
    if not deferred:
        return 0
    cdef list waiting = deferred[:]
    del deferred[:len(waiting)]
    return 0
