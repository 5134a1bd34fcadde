"""Other libraries' memory: kept while it is read, and given back behind its last reader."""
cimport cython

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_SetName
from cuda.bindings.cydriver cimport CUstream
from libc.stdint cimport uintptr_t

from madspace.core cimport _driver
from madspace.core._dlpack_abi cimport DEVICE_CPU, DLPACK_MAJOR, DLTensor, LegacyTensor, ManagedTensor
from madspace.core._recording cimport n_recordings, note_memory
from madspace.core._teardown cimport is_closed
from madspace.core._uses cimport Use, finish_unnoted, is_captured, is_done, lasting, new_use, wait_until_done
from madspace.core.device cimport Device
from madspace.core.event cimport order
from madspace.core.stream cimport Stream

import warnings

from madspace.core.device import as_device
from madspace.errors import MadspaceWarning


cdef const char* VERSIONED = "dltensor_versioned"
cdef const char* VERSIONED_USED = "used_dltensor_versioned"
cdef const char* LEGACY = "dltensor"
cdef const char* LEGACY_USED = "used_dltensor"

cdef enum:
    LOOKS = 2       # how many a call looks at; the next one goes on with the others

# Memory whose readers had not finished when it was let go, and whose producer has no stream to wait on, by device:
# {device id: [(Foreign without a consumer, its readers' Use), ...]}, oldest first.
cdef dict held = {}
cdef list lost = []     # whose readers could not be asked
n_held = 0


@cython.final
@cython.freelist(16)
@cython.no_gc_clear      # __dealloc__ needs the members
cdef class Foreign:
    def __dealloc__(self):
        if self.on_device and self.consumer is not None:
            let_go(self)
            self.consumer.drop()
        # The deleter of memory on a device, and of page-locked memory, may enter the driver, which must not happen with
        # the GIL held.
        if self.on_device or not is_pageable(self.managed, self.legacy):
            with nogil:
                delete(self.managed, self.legacy)
        else:
            delete(self.managed, self.legacy)

    cdef int bind(self, Stream consumer) except -1:
        if n_held != 0:
            look_at_some(consumer)
        # Whoever gives the memory back may do so in another thread, or when that handle is dead.
        consumer = lasting(consumer)
        consumer.hold()
        self.consumer = consumer
        self.on_device = True
        return 0

    cdef int follow(self, CUstream producer, Stream stream) except -1:
        cdef Device device = self.consumer.device
        if stream is None or stream is self.consumer:
            return order(device, producer, self.consumer.handle_)
        # Nobody has asked for the stream that stands in: it must not be drawn into a capture.
        return order_inside(device, producer, self.consumer.handle_)

    cdef int before(self, Stream stream) except -1:
        return order_inside(self.consumer.device, self.consumer.handle_, stream.handle_)

    cdef int after(self, Stream stream) except -1:
        try:
            if n_recordings != 0:
                note_memory(stream, self, True)
            order_inside(self.consumer.device, stream.handle_, self.consumer.handle_)
        except Exception:
            finish_unnoted(stream)
            raise
        return 0


cdef bint is_pageable(const ManagedTensor* managed, const LegacyTensor* legacy) noexcept nogil:
    # Of a newer major version nothing is known.
    if managed is not NULL:
        return managed.major == DLPACK_MAJOR and managed.tensor.device.device_type == DEVICE_CPU
    return legacy is NULL or legacy.tensor.device.device_type == DEVICE_CPU


cdef void delete(ManagedTensor* managed, LegacyTensor* legacy) noexcept nogil:
    if managed is not NULL and managed.deleter is not NULL:
        managed.deleter(managed)
    if legacy is not NULL and legacy.deleter is not NULL:
        legacy.deleter(legacy)


cdef int order_inside(Device device, CUstream earlier, CUstream later) except -1:
    """Order two streams, unless that would reach into a capture or out of it: who captures has to see to that."""
    cdef int captured
    cdef int pushed
    if earlier == later:
        return 0
    pushed = device.push()
    try:
        with nogil:
            captured = _driver.stream_is_capturing(earlier) != _driver.stream_is_capturing(later)
    finally:
        device.pop(pushed)
    return 0 if captured else order(device, earlier, later)


cdef void let_go(Foreign foreign) noexcept:
    """See to it that the memory is not reused under its readers."""
    cdef Stream consumer = foreign.consumer
    if is_closed():
        return
    try:
        if foreign.producer is not NULL:
            # The producer reuses the memory in the order of its own stream.
            order_inside(consumer.device, consumer.handle_, foreign.producer)
        elif not is_captured(consumer):
            hold_until_done(foreign)
    except Exception as error:
        complain(f"memory of another library was kept: stream {<uintptr_t>consumer.handle_:#x} could not be asked "
                 f"whether it is done with it: {error}")
        keep_for_ever(foreign)


cdef Foreign heir_of(Foreign foreign):
    """Move what is owned into a new object: this one is in its destructor."""
    cdef Foreign heir = Foreign.__new__(Foreign)
    heir.on_device = True
    heir.managed, heir.legacy, heir.lender = foreign.managed, foreign.legacy, foreign.lender
    foreign.managed = NULL
    foreign.legacy = NULL
    foreign.lender = None
    return heir


cdef int hold_until_done(Foreign foreign) except -1:
    cdef Use use = new_use(None, foreign.consumer)
    if not is_done(use):
        held.setdefault(foreign.consumer.device.id, []).append((heir_of(foreign), use))
        count_held()
    return 0


cdef void keep_for_ever(Foreign foreign) noexcept:
    lost.append(heir_of(foreign))


cdef int count_held() except -1:
    global n_held
    n_held = sum([len(entries) for entries in held.values()])
    return 0


cdef int look_at_some(Stream stream) except -1:
    # A query is no part of a capture: what is held waits for a call outside.
    if not is_captured(stream):
        look(held.get(stream.device.id), LOOKS, False)
    return 0


cdef int release_finished() except -1:
    for entries in list(held.values()):
        look(entries, len(entries), False)
    return 0


cdef int look(list entries, Py_ssize_t most, bint wait) except -1:
    """Give back what is held no longer, of so many of the oldest."""
    # One entry at a time: deleters may come back here, and other threads may be here as well.
    if entries is None:
        return 0
    for _ in range(min(most, len(entries))):
        try:
            entry = entries.pop(0)
        except IndexError:
            break
        still = True
        try:
            if wait:
                wait_until_done(entry[1])
            still = not is_done(entry[1])
        finally:
            if still:
                entries.append(entry)
            count_held()
    return 0


def release_inputs(device=None, *, wait=False):
    """Give memory of other libraries that calls have read back to its owners, where the reading is over.

    Parameters
    ----------
    device : Device, int or str, optional
        Memory of this device alone; of all devices if left out.
    wait : bool, optional
        Whether to wait on the host until the reading of all of it is over.

    Returns
    -------
    int
        How many arrays are still held, always 0 with ``wait=True``.

    Raises
    ------
    KernelFaultError
        When a kernel crashed.

    Notes
    -----
    Only what came in by ``__dlpack__`` or ``__cuda_array_interface__`` from a library whose stream is not known, and
    was let go before its readers had finished, is held at all: other memory goes back at once, in the order of its
    owner's stream. What is held goes back in a later call that takes such memory in, at the latest when device memory
    runs out. Calls in a capture never look; this function does not disturb one.
    """
    where = None if device is None else as_device(device).id
    for number, entries in list(held.items()):
        if where is None or where == number:
            look(entries, len(entries), wait)
    return n_held if where is None else len(held.get(where, ()))


cdef Foreign adopt_managed(ManagedTensor* managed):
    cdef Foreign foreign = Foreign.__new__(Foreign)
    foreign.managed = managed
    return foreign


cdef Foreign adopt_capsule(object capsule):
    cdef Foreign foreign = Foreign.__new__(Foreign)
    if PyCapsule_IsValid(capsule, VERSIONED):
        foreign.managed = <ManagedTensor*>PyCapsule_GetPointer(capsule, VERSIONED)
        PyCapsule_SetName(capsule, VERSIONED_USED)
    elif PyCapsule_IsValid(capsule, LEGACY):
        foreign.legacy = <LegacyTensor*>PyCapsule_GetPointer(capsule, LEGACY)
        PyCapsule_SetName(capsule, LEGACY_USED)
    elif PyCapsule_IsValid(capsule, VERSIONED_USED) or PyCapsule_IsValid(capsule, LEGACY_USED):
        raise BufferError("DLPack capsule: expected one that is unused, got one that was consumed already")
    else:
        raise TypeError(f"__dlpack__: expected a capsule named dltensor or dltensor_versioned, got {capsule!r}")
    return foreign


cdef DLTensor* foreign_view(Foreign foreign) except NULL:
    if foreign.managed is NULL:
        return &foreign.legacy.tensor
    # Of a newer major version nothing behind the flags is known: it can only be given back.
    if foreign.managed.major != DLPACK_MAJOR:
        raise BufferError(f"DLPack version: expected {DLPACK_MAJOR}.x, "
                          f"got {foreign.managed.major}.{foreign.managed.minor}")
    return &foreign.managed.tensor


cdef void complain(str message) noexcept:
    try:
        warnings.warn(message, MadspaceWarning, stacklevel=1)
    except Exception:
        pass        # turned into an error by a filter: there is no one to raise it to
