from cuda.bindings.cydriver cimport CUdeviceptr, CUresult

from madspace.core._uses cimport Uses
from madspace.core.allocator cimport Allocator
from madspace.core.pool cimport MemoryPool
from madspace.core.stream cimport Stream

# Memory for a Buffer, and a hold on the stream for its free. The device's context is current; nbytes is not 0.
cdef CUdeviceptr take_memory(MemoryPool pool, Allocator allocator, size_t nbytes, Stream stream) except 0
# Back to where it came from, behind all uses (None: none) and on its stream, which is let go. While the stream is being
# captured nothing happens: call again later.
cdef CUresult give_memory(MemoryPool pool, Allocator allocator, CUdeviceptr ptr, size_t nbytes, Stream stream,
                          Uses uses, bint* captured) noexcept
# Tell those who watch (watchers() is not 0): after an allocation, before a free.
cdef void tell(bint allocated, MemoryPool pool, CUdeviceptr ptr, size_t nbytes, Stream stream) noexcept
