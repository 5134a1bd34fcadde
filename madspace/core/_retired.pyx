"""Pools that were closed while the device still had their memory.

The driver allows a pool to be destroyed before its last free; driver 580 then crashes the process in a later allocation
or synchronisation of the stream that the free was queued on. So a pool is destroyed only once nothing of it is in use.
"""
from libcpp.vector cimport vector

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUmemoryPool, CUresult

from madspace.core cimport _driver as drv


cdef extern from "<mutex>" namespace "std" nogil:
    cdef cppclass mutex:
        void lock()
        void unlock()


# So many may wait before each further one looks at all of them.
cdef enum:
    MANY = 8

cdef mutex guard
cdef vector[CUmemoryPool] retired


cdef CUresult retire_pool(CUmemoryPool pool) noexcept nogil:
    cdef bint in_use
    cdef bint many
    cdef CUresult code = drv.quiet_mem_pool_destroy(pool, &in_use)
    if code == cydriver.CUDA_SUCCESS and not in_use:
        return code
    guard.lock()
    retired.push_back(pool)
    many = retired.size() > MANY
    guard.unlock()
    if many:
        reap_pools()
    return code


cdef void reap_pools() noexcept nogil:
    cdef vector[CUmemoryPool] waiting
    cdef CUmemoryPool pool
    cdef bint in_use
    cdef CUresult code
    guard.lock()
    waiting.swap(retired)
    guard.unlock()
    for pool in waiting:
        code = drv.quiet_mem_pool_destroy(pool, &in_use)
        if code != cydriver.CUDA_SUCCESS or in_use:
            guard.lock()
            retired.push_back(pool)
            guard.unlock()
