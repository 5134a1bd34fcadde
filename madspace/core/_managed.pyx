"""DLPack's owning structures and capsules, made for what leaves.

Their deleters are called from any thread, with or without the GIL, and after the interpreter is gone.
"""
cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc

from madspace.core._dlpack_abi cimport (
    DLPACK_MAJOR, DLPACK_MINOR, DLTensor, LegacyTensor, ManagedTensor,
)
from madspace.core._foreign cimport Foreign, complain
from madspace.core._teardown cimport is_closed
from madspace.core.memory cimport Buffer
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport MAX_NDIM


cdef extern from *:
    """
    static inline int ms_python_alive(void) {
        if (!Py_IsInitialized()) return 0;
    #if PY_VERSION_HEX >= 0x030D0000
        return !Py_IsFinalizing();
    #else
        return !_Py_IsFinalizing();
    #endif
    }
    """
    void PyErr_Fetch(PyObject**, PyObject**, PyObject**)
    void PyErr_Restore(PyObject*, PyObject*, PyObject*)
    bint ms_python_alive() noexcept nogil


cdef bint python_alive() noexcept nogil:
    return ms_python_alive()


cdef const char* VERSIONED = "dltensor_versioned"
cdef const char* LEGACY = "dltensor"


@cython.final
@cython.freelist(16)
@cython.no_gc               # what holds it is no object of Python's
cdef class Loan:
    """What a consumer's stream uses until it has let go of all of it."""

    cdef object source      # a Tensor or a Buffer
    cdef object memory      # its Buffer, or a Foreign
    cdef Stream consumer
    cdef bint writable

    def __dealloc__(self):
        if self.consumer is not None:
            note_use(self.memory, self.consumer, self.writable)
            self.consumer.drop()


cdef object lend(object source, object memory, Stream consumer, bint writable):
    cdef Loan loan = Loan.__new__(Loan)
    consumer.hold()         # closing it must not end the handle before the use on it is noted
    loan.source, loan.memory, loan.consumer, loan.writable = source, memory, consumer, writable
    return loan


# Either of the two structures, with its own shape and strides; these follow their Parts in memory.
cdef struct Part:
    ManagedTensor managed
    LegacyTensor legacy
    Parts* parts
    int64_t extents[2 * MAX_NDIM]


cdef Parts* new_parts(object owner, int n) except NULL:
    cdef Parts* parts = <Parts*>malloc(sizeof(Parts) + n * sizeof(Part))
    if parts is NULL:
        raise MemoryError("no host memory left for a DLPack structure")
    parts.left.store(n)
    Py_INCREF(owner)
    parts.owner = <PyObject*>owner
    return parts


cdef void point(DLTensor* tensor, const DLTensor* view, Part* part) noexcept nogil:
    cdef int i
    for i in range(view.ndim):
        part.extents[i], part.extents[MAX_NDIM + i] = view.shape[i], view.strides[i]
    tensor[0] = view[0]
    tensor.shape, tensor.strides = part.extents, part.extents + MAX_NDIM


cdef ManagedTensor* managed_part(Parts* parts, int i, const DLTensor* view, uint64_t flags) noexcept:
    cdef Part* part = <Part*>(parts + 1) + i
    part.parts = parts
    point(&part.managed.tensor, view, part)
    part.managed.major, part.managed.minor = DLPACK_MAJOR, DLPACK_MINOR
    part.managed.context = part
    part.managed.flags = flags
    part.managed.deleter = delete_managed
    return &part.managed


cdef LegacyTensor* legacy_part(Parts* parts, const DLTensor* view) noexcept:
    cdef Part* part = <Part*>(parts + 1)
    part.parts = parts
    point(&part.legacy.tensor, view, part)
    part.legacy.context = part
    part.legacy.deleter = delete_legacy
    return &part.legacy


cdef ManagedTensor* new_managed(const DLTensor* view, object owner, uint64_t flags) except NULL:
    return managed_part(new_parts(owner, 1), 0, view, flags)


cdef void delete_managed(ManagedTensor* managed) noexcept nogil:
    if managed is not NULL:
        drop_parts((<Part*>managed.context).parts, 1)


cdef void delete_legacy(LegacyTensor* legacy) noexcept nogil:
    if legacy is not NULL:
        drop_parts((<Part*>legacy.context).parts, 1)


cdef void drop_parts(Parts* parts, int n) noexcept nogil:
    # Waiting for the GIL of an interpreter that is going or gone ends the thread or hangs: leak instead.
    if parts.left.fetch_sub(n) == n and python_alive():
        with gil:
            let_go(parts)


cdef void let_go(Parts* parts) noexcept:
    # The caller's pending exception, if it has one, must still be there afterwards.
    cdef PyObject* kind
    cdef PyObject* value
    cdef PyObject* trace
    PyErr_Fetch(&kind, &value, &trace)
    Py_XDECREF(parts.owner)
    free(parts)
    PyErr_Restore(kind, value, trace)


cdef void note_use(object memory, Stream consumer, bint writable) noexcept:
    if is_closed():
        return
    try:
        if isinstance(memory, Buffer):
            (<Buffer>memory).after(consumer, writable)
        elif isinstance(memory, Foreign):
            (<Foreign>memory).after(consumer)
    except Exception as error:
        complain(f"the use of memory by stream {<uintptr_t>consumer.handle_:#x} could not be recorded: {error}")


cdef object new_capsule(const DLTensor* view, object owner, uint64_t flags, bint versioned):
    cdef ManagedTensor* managed
    cdef LegacyTensor* legacy
    if versioned:
        managed = new_managed(view, owner, flags)
        try:
            return PyCapsule_New(managed, VERSIONED, end_capsule)
        except BaseException:
            delete_managed(managed)
            raise
    legacy = legacy_part(new_parts(owner, 1), view)
    try:
        return PyCapsule_New(legacy, LEGACY, end_capsule)
    except BaseException:
        delete_legacy(legacy)
        raise


cdef void end_capsule(object capsule) noexcept:
    # A consumer renames what it takes over; what still has its first name was never consumed.
    if PyCapsule_IsValid(capsule, VERSIONED):
        delete_managed(<ManagedTensor*>PyCapsule_GetPointer(capsule, VERSIONED))
    elif PyCapsule_IsValid(capsule, LEGACY):
        delete_legacy(<LegacyTensor*>PyCapsule_GetPointer(capsule, LEGACY))


cdef object managed_owner(ManagedTensor* managed):
    if managed.deleter is not <void (*)(ManagedTensor*) noexcept>delete_managed:
        return None
    owner = <object>(<Part*>managed.context).parts.owner
    return (<Loan>owner).source if type(owner) is Loan else owner
