"""Other libraries' memory: kept while it is read, and given back behind its last reader."""
cimport cython

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_SetName
from cuda.bindings.cydriver cimport CUstream
from libc.stdint cimport uintptr_t

from madspace.core cimport _driver
from madspace.core._dlpack_abi cimport DEVICE_CPU, DLPACK_MAJOR, DLTensor, LegacyTensor, ManagedTensor
from madspace.core._recording cimport n_recordings, note_memory
from madspace.core._teardown cimport is_closed
from madspace.core._uses cimport Use, is_captured, is_done, lasting, new_use
from madspace.core.device cimport Device
from madspace.core.event cimport order
from madspace.core.stream cimport Stream

import warnings

from madspace.errors import MadspaceWarning


cdef const char* VERSIONED = "dltensor_versioned"
cdef const char* VERSIONED_USED = "used_dltensor_versioned"
cdef const char* LEGACY = "dltensor"
cdef const char* LEGACY_USED = "used_dltensor"

# Memory whose readers had not finished when it was let go, and whose producer has no stream to wait on:
# (Foreign without a consumer, its readers' Use), oldest first.
cdef list held = []


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
        release_finished()
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
        if n_recordings != 0:
            note_memory(stream, self, True)
        return order_inside(self.consumer.device, stream.handle_, self.consumer.handle_)


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
        held.append((heir_of(foreign), use))
    return 0


cdef void keep_for_ever(Foreign foreign) noexcept:
    held.append((heir_of(foreign), None))


cdef int release_finished() except -1:
    """Give back what is held no longer."""
    # One entry at a time: deleters may come back here, and other threads may be here as well.
    for _ in range(len(held)):
        try:
            entry = held.pop(0)
        except IndexError:
            break
        still = True
        try:
            still = entry[1] is None or not is_done(entry[1])
        finally:
            if still:
                held.append(entry)
    return 0


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
