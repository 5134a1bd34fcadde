"""Handles, error codes and messages of the C API, and how its functions enter the interpreter."""
import atexit
import time

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject

from madspace.capi cimport (
    MS_ERROR_ARGUMENT, MS_ERROR_CAPTURE, MS_ERROR_CLOSED, MS_ERROR_COMPILE, MS_ERROR_DEVICE, MS_ERROR_DRIVER,
    MS_ERROR_DTYPE, MS_ERROR_FORK, MS_ERROR_HANDLE, MS_ERROR_KERNEL_FAULT, MS_ERROR_KERNEL_IMAGE, MS_ERROR_MEMORY,
    MS_ERROR_NO_DRIVER, MS_ERROR_PYTHON, MS_ERROR_SHAPE, MS_ERROR_SHUTDOWN, MS_ERROR_STREAM_SCOPE,
    MS_ERROR_UNSUPPORTED, MS_ERROR_WORKSPACE,
)
from madspace.core._plain cimport error_name, error_text
from madspace.core._teardown cimport CLOSED, FORKED, state

from madspace import errors


cdef extern from "Python.h":
    void PyErr_SetInterrupt() noexcept


cdef extern from *:
    """
    #include <pthread.h>
    #include "objects.h"

    namespace madspace { namespace capi {
    // Never destroyed: threads may still call while the process exits.
    Registry& the_registry = *new Registry;
    Sections& the_sections = *new Sections;
    thread_local Failure the_failure;

    // A forked child has one thread: nobody else is inside, and the lock is its own.
    void before_fork() { the_registry.lock.lock(); }
    void after_fork() { the_registry.lock.unlock(); }
    void in_child() {
        the_registry.lock.unlock();
        the_sections.inside.store(0);
    }
    int watch_forks() { return pthread_atfork(before_fork, after_fork, in_child); }
    }}
    """
    Registry the_registry "madspace::capi::the_registry"
    Sections the_sections "madspace::capi::the_sections"
    Failure the_failure "madspace::capi::the_failure"
    int watch_forks "madspace::capi::watch_forks"() nogil

cdef enum:
    MAX_CODE = 1000
    OUT_OF_MEMORY = 2

registry = &the_registry
sections = &the_sections
if watch_forks() != 0:
    raise MemoryError("pthread_atfork: no memory for the fork handler")

# errors.py's, for who has no interpreter.
cdef dict hint_texts = (
    {code: errors._STICKY_HINT.encode() for code in errors.STICKY_CODES}
    | {code: hint.encode() for code, hint in errors._HINTS.items()})
cdef const char* hints[MAX_CODE]
cdef bint is_sticky[MAX_CODE]


cdef int note_hints() except -1:
    cdef int code
    for code in range(MAX_CODE):
        is_sticky[code] = code in errors.STICKY_CODES
        hints[code] = NULL
        if code in hint_texts:
            hints[code] = PyBytes_AS_STRING(hint_texts[code])       # kept by the dict
    return 0


note_hints()

# The first that fits; exceptions of madspace before the built-in ones that they derive from.
cdef tuple STATUSES = (
    (errors.OutOfMemoryError, MS_ERROR_MEMORY),
    (errors.KernelFaultError, MS_ERROR_KERNEL_FAULT),
    (errors.CaptureError, MS_ERROR_CAPTURE),
    (errors.DriverError, MS_ERROR_DRIVER),
    (errors.DriverNotFoundError, MS_ERROR_NO_DRIVER),
    (errors.ForkError, MS_ERROR_FORK),
    (errors.ShapeError, MS_ERROR_SHAPE),
    (errors.DTypeError, MS_ERROR_DTYPE),
    (errors.DeviceMismatchError, MS_ERROR_DEVICE),
    (errors.WorkspaceError, MS_ERROR_WORKSPACE),
    (errors.ClosedError, MS_ERROR_CLOSED),
    (errors.KernelImageError, MS_ERROR_KERNEL_IMAGE),
    (errors.CompileError, MS_ERROR_COMPILE),
    (errors.UnsupportedOpError, MS_ERROR_UNSUPPORTED),
    (errors.StreamScopeError, MS_ERROR_STREAM_SCOPE),
    (MemoryError, MS_ERROR_MEMORY),
    (NotImplementedError, MS_ERROR_UNSUPPORTED),
    ((TypeError, ValueError, OverflowError, LookupError, BufferError), MS_ERROR_ARGUMENT),
)


def status_of(error_class):
    """Return the code that an exception class becomes; for the test that none is forgotten."""
    for kinds, code in STATUSES:
        if issubclass(error_class, kinds):
            return code
    return MS_ERROR_PYTHON


cdef Failure* failure() noexcept nogil:
    return &the_failure


cdef int driver_failed(int code, const char* call, const char* detail="") noexcept nogil:
    cdef int status = MS_ERROR_DRIVER
    cdef const char* hint = hints[code] if 0 <= code < MAX_CODE else NULL
    if state() == FORKED:
        return write_failure(
            failure(), MS_ERROR_FORK, "%s: this process was forked after the CUDA driver had started in its parent",
            call)
    if state() == CLOSED:
        return refused()
    if code == OUT_OF_MEMORY:
        status = MS_ERROR_MEMORY
    elif 900 <= code < 909:
        status = MS_ERROR_CAPTURE
    elif 0 <= code < MAX_CODE and is_sticky[code]:
        status = MS_ERROR_KERNEL_FAULT
    write_failure(failure(), status, "%s: %s (%d), %s%s%s%s%s", call, error_name(code), code, error_text(code),
                  <const char*>": " if detail[0] else detail, detail,
                  <const char*>"" if hint == NULL else <const char*>"; ", <const char*>"" if hint == NULL else hint)
    failure().driver_code = code
    return status


cdef int refused() noexcept nogil:
    if state() == FORKED:
        return driver_failed(0, "madspace")
    return write_failure(failure(), MS_ERROR_SHUTDOWN, "the interpreter is exiting: calls of madspace are over")


cdef int caught(object error) noexcept:
    cdef int status = MS_ERROR_PYTHON
    cdef bytes text
    try:
        status = status_of(type(error))
        message = str(error)
        if status == MS_ERROR_PYTHON or not message:
            message = f"{type(error).__name__}: {message}"
        text = " ".join(message.splitlines()).encode(errors="replace")
        write_failure(failure(), status, "%s", <const char*>text)
        if isinstance(error, errors.DriverError):
            failure().driver_code = error.code
        if isinstance(error, KeyboardInterrupt):
            PyErr_SetInterrupt()        # the caller's own code is where it belongs
    except BaseException:
        write_failure(failure(), status, "an error that has no message")
    if state() == CLOSED:
        return refused()
    return status


cdef Object* look_up(const void* handle, int kind, const char* name) noexcept nogil:
    cdef Object* found = registry.find(handle, kind)
    cdef int other
    if found == NULL:
        other = registry.kind(handle)
        if handle == NULL:
            write_failure(failure(), MS_ERROR_HANDLE, "%s: expected a %s handle, got NULL", name, kKindNames[kind])
        elif other == 0:
            write_failure(failure(), MS_ERROR_HANDLE, "%s: expected an open %s handle, got %p, which was released or "
                          "never given out", name, kKindNames[kind], handle)
        else:
            write_failure(failure(), MS_ERROR_HANDLE, "%s: expected a %s handle, got one of a %s", name,
                          kKindNames[kind], kKindNames[other])
        return NULL
    if found.closed != NULL and found.closed[0]:
        write_failure(failure(), MS_ERROR_CLOSED, "%s: expected an open %s, got one that Python has closed", name,
                      kKindNames[kind])
        return NULL
    return found


cdef Object* new_object(object owner) except NULL:
    cdef Object* made = registry.make()
    if made == NULL:
        raise MemoryError("no host memory left for a handle")
    Py_INCREF(owner)
    made.owner = <PyObject*>owner
    return made


cdef void* hand_out(Object* object_, int kind) noexcept:
    return registry.publish(object_, kind)


cdef int release(const void* handle, int kind, const char* name) noexcept nogil:
    cdef Section section
    if handle == NULL:
        return 0
    if not enter(sections, &section):
        return refused()
    return leave(sections, &section, end(handle, kind, name))


cdef int end(const void* handle, int kind, const char* name) noexcept with gil:
    cdef PyObject* owner
    cdef Object* found = registry.end(handle, kind)
    if found == NULL:
        look_up(handle, kind, name)     # for the message
        return MS_ERROR_HANDLE
    owner = found.owner
    registry.give_back(found)
    Py_XDECREF(owner)
    return 0


def _close():
    """Refuse whoever asks for the interpreter from now on, and let those finish who have or wait for the GIL."""
    the_sections.closing.store(1)
    deadline = time.monotonic() + 2
    while the_sections.inside.load() > 0 and time.monotonic() < deadline:
        time.sleep(0.001)


# Early, so that it runs late: hooks of those who import madspace may still call.
atexit.register(_close)
