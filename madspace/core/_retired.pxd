from cuda.bindings.cydriver cimport CUmemoryPool, CUresult

# Destroys a pool, now or when its last memory has come back.
cdef CUresult retire_pool(CUmemoryPool pool) noexcept nogil

# Destroys those of the retired pools whose memory has come back.
cdef void reap_pools() noexcept nogil
