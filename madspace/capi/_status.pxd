# What every function of the C API needs: handles, messages, and the way into the interpreter.
from cpython.ref cimport PyObject
from libc.stdint cimport uint64_t
from libcpp.atomic cimport atomic


cdef extern from "objects.h" namespace "madspace::capi" nogil:
    enum Kind:
        kDevice
        kStream
        kEvent
        kWorkspace
        kModule
        kKernel
        kCapture
        kGraph
        kProgram

    cdef cppclass Object:
        int device
        void* context
        void* native
        const int* closed
        PyObject* owner
        void* more[3]

    cdef cppclass Registry:
        Object* find(const void* handle, int kind)
        int kind(const void* handle)
        Object* make()
        void* publish(Object* object_, int kind)
        Object* end(const void* handle, int kind)
        void give_back(Object* object_)

    const char* const* kKindNames

    cdef struct Failure:
        char* text
        int status
        int driver_code
    int kMessageLength
    int write_failure(Failure* failure, int code, const char* format, ...)

    cdef cppclass Sections:
        atomic[int] inside
        atomic[int] closing
    cdef struct Section:
        pass
    bint enter(Sections* sections, Section* section)
    int leave(Sections* sections, Section* section, int code)


cdef Registry* registry
cdef Sections* sections

# Of this thread: where a function writes why it fails, `return write_failure(failure(), CODE, "argument: rule, got")`.
cdef Failure* failure() noexcept nogil
# The code and message of a driver call that failed, and of one that was refused in this state of the process.
cdef int driver_failed(int code, const char* call, const char* detail=*) noexcept nogil
# Where enter() has failed.
cdef int refused() noexcept nogil
# The code and message of an exception; with the GIL held.
cdef int caught(object error) noexcept

# What a handle stands for; NULL, with failure().status and a message about `name`, where it is none of this kind, or
# its object was closed.
cdef Object* look_up(const void* handle, int kind, const char* name) noexcept nogil
# A new handle for a Python object; with the GIL held. fill_in() goes between the two.
cdef Object* new_object(object owner) except NULL
cdef void* hand_out(Object* object_, int kind) noexcept
# End a handle and drop its Python object; takes the GIL. NULL is nothing to release.
cdef int release(const void* handle, int kind, const char* name) noexcept nogil
