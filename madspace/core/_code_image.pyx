"""Device code as the driver holds it, for the modules and graphs that have its kernels."""
cimport cython

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUresult

from madspace.core cimport _driver as drv


# Neither of these is seen by the collector: of a cycle that holds a graph, its images are given back after its handle,
# which refers to them.
@cython.final
@cython.no_gc
cdef class CodeImage:
    cdef CUresult load(self, bytes image) except *:
        cdef CUresult code
        cdef const char* data = image       # a terminating zero follows, which PTX needs
        with nogil:
            drv.library_load_data(&self.library, data, &self.jit, self.log, LOG_NBYTES, &code)
        if code == cydriver.CUDA_SUCCESS:
            self.n_users = 1
        return code

    cdef int hold(self) except -1:
        self.n_users += 1
        return 0

    cdef CUresult drop(self) noexcept:
        cdef CUresult code = cydriver.CUDA_SUCCESS
        self.n_users -= 1
        if self.n_users == 0:
            with nogil:
                code = drv.quiet_library_unload(self.library)
        return code


@cython.final
@cython.no_gc
cdef class CodeImages:
    def __cinit__(self):
        self.by_id = {}

    def __dealloc__(self):
        for image in self.by_id.values():
            drv.report((<CodeImage>image).drop(), "cuLibraryUnload")

    cdef int add(self, CodeImage image) except -1:
        if id(image) not in self.by_id:
            self.by_id[id(image)] = image
            image.hold()
        return 0

    cdef void lose(self) noexcept:
        self.by_id = {}

    cdef int join(self, CodeImages other) except -1:
        for image in other.by_id.values():
            self.add(image)
        return 0
