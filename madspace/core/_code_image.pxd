from cuda.bindings.cydriver cimport CUlibrary, CUresult

from madspace.core._driver cimport JitLog

cdef enum:
    LOG_NBYTES = 4096


# Device code that the driver has loaded. It is unloaded when nobody needs it any more: the Module, and each graph that
# has a kernel of it.
cdef class CodeImage:
    cdef CUlibrary library
    cdef JitLog jit
    cdef char log[LOG_NBYTES]    # the driver may write to it when it compiles, also later
    cdef int n_users
    cdef CUresult load(self, bytes image) except *
    cdef int hold(self) except -1
    cdef CUresult drop(self) noexcept


# The images that a graph needs until its handle is destroyed.
cdef class CodeImages:
    cdef dict by_id              # {id(CodeImage): CodeImage}
    cdef int add(self, CodeImage image) except -1
    cdef int join(self, CodeImages other) except -1
    cdef void lose(self) noexcept        # they stay loaded for ever: the handle could not be destroyed
