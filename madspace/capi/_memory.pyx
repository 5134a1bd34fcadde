"""Memory of the C API: from the device's own pool without the interpreter, and through a Buffer where it has a say."""
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport uintptr_t
from libc.stdlib cimport free as host_free
from libc.string cimport memmove, memset
from posix.stdlib cimport posix_memalign

from madspace.capi cimport MS_ERROR_ARGUMENT, MS_ERROR_MEMORY, ms_api, ms_device, ms_stream
from madspace.capi._devices cimport device_object, facts_of, find_place, is_cpu
from madspace.capi._status cimport (
    Object, Section, caught, driver_failed, enter, failure, leave, refused, sections, write_failure,
)
from madspace.capi._streams cimport stream_object
from madspace.core cimport _plain as plain
from madspace.core._allocation cimport tell
from madspace.core._recording cimport n_recordings
from madspace.core._watch cimport watchers
from madspace.core.device cimport Device
from madspace.core.memory cimport Buffer, allocate
from madspace.core.pool cimport own_pool


cdef extern from "blocks.h" namespace "madspace::capi" nogil:
    cdef struct Block:
        size_t nbytes
        int device
        PyObject* buffer
    cdef cppclass Blocks:
        bint add(const void* ptr, const Block& block)
        bint take(const void* ptr, int device, Block* block)


cdef extern from *:
    """
    #include <pthread.h>
    #include "blocks.h"
    namespace madspace { namespace capi {
    Blocks& the_blocks = *new Blocks;       // never destroyed: threads may still call while the process exits
    void lock_blocks() { the_blocks.lock_all(); }
    void unlock_blocks() { the_blocks.unlock_all(); }
    int watch_block_forks() { return pthread_atfork(lock_blocks, unlock_blocks, unlock_blocks); }
    }}
    """
    Blocks the_blocks "madspace::capi::the_blocks"
    int watch_block_forks "madspace::capi::watch_block_forks"() nogil

cdef enum:
    OUT_OF_MEMORY = 2
    HOST_ALIGNMENT = 64         # a cache line, and the widest vector register there is

if watch_block_forks() != 0:
    raise MemoryError("pthread_atfork: no memory for the fork handler")


cdef int add_memory(ms_api* table) noexcept:
    table.alloc = alloc
    table.free = free
    table.copy = copy
    table.fill = fill
    return 0


cdef int no_table_memory() noexcept nogil:
    return write_failure(failure(), MS_ERROR_MEMORY, "no host memory left to note an allocation")


cdef int allocate_on(Object* device, size_t nbytes, Object* stream, void** ptr) noexcept nogil:
    cdef Block block
    cdef int code
    block.nbytes, block.device, block.buffer = nbytes, device.device, <PyObject*>NULL
    if is_cpu(device):
        return allocate_host(&block, ptr)
    if facts_of(device).lent[0] or n_recordings != 0 or watchers() or not facts_of(device).tally.reserve(nbytes):
        return allocate_slowly(device, nbytes, stream, ptr)
    code = plain.mem_alloc(device.context, facts_of(device).pool, nbytes, stream.native, ptr)
    if code != 0:
        facts_of(device).tally.cancel(nbytes)
        return allocate_slowly(device, nbytes, stream, ptr) if code == OUT_OF_MEMORY else \
            driver_failed(code, "cuMemAllocFromPoolAsync")
    facts_of(device).tally.note_peaks()
    if not the_blocks.add(ptr[0], block):
        plain.mem_free(device.context, ptr[0], stream.native)
        facts_of(device).tally.release(nbytes)
        return no_table_memory()
    return 0


cdef int allocate_host(Block* block, void** ptr) noexcept nogil:
    if posix_memalign(ptr, HOST_ALIGNMENT, block.nbytes) != 0:
        ptr[0] = NULL
        return write_failure(failure(), MS_ERROR_MEMORY, "no %zu bytes of host memory left", block.nbytes)
    if not the_blocks.add(ptr[0], block[0]):
        host_free(ptr[0])
        return no_table_memory()
    return 0


cdef int allocate_slowly(Object* device, size_t nbytes, Object* stream, void** ptr) noexcept nogil:
    cdef Section section
    if not enter(sections, &section):
        return refused()
    return leave(sections, &section, py_allocate(device, nbytes, stream, ptr))


cdef int py_allocate(Object* device, size_t nbytes, Object* stream, void** ptr) noexcept with gil:
    cdef Buffer buffer
    cdef Block block
    try:
        buffer = allocate(device_object(device), nbytes, stream_object(stream))
        buffer.before(stream_object(stream), True)
        block.nbytes, block.device, block.buffer = nbytes, device.device, <PyObject*>buffer
        ptr[0] = <void*><uintptr_t>buffer.ptr_
        if not the_blocks.add(ptr[0], block):
            return no_table_memory()
        Py_INCREF(buffer)
        return 0
    except BaseException as error:
        return caught(error)


cdef int free_on(Object* device, void* ptr, Object* stream) noexcept nogil:
    cdef Block block
    cdef int code = 0
    if not the_blocks.take(ptr, device.device, &block):
        return write_failure(failure(), MS_ERROR_ARGUMENT, "ptr: expected an address that ms_alloc() gave for this "
                             "device and that was not freed, got %p", ptr)
    if is_cpu(device):
        host_free(ptr)
        return 0
    if block.buffer != NULL:
        return free_buffer(ptr, &block, stream)
    if watchers():
        code = tell_of_free(device, ptr, &block, stream)
    if code == 0:
        code = plain.mem_free(device.context, ptr, stream.native)
        if code == 0:
            facts_of(device).tally.release(block.nbytes)
            return 0
        code = driver_failed(code, "cuMemFreeAsync")
    the_blocks.add(ptr, block)          # it is still there
    return code


cdef int free_buffer(void* ptr, Block* block, Object* stream) noexcept nogil:
    cdef Section section
    if not enter(sections, &section):
        the_blocks.add(ptr, block[0])
        return refused()
    return leave(sections, &section, py_free(ptr, block, stream))


cdef int py_free(void* ptr, Block* block, Object* stream) noexcept with gil:
    cdef Buffer buffer = <Buffer>(<object>block.buffer)
    try:
        buffer.after(stream_object(stream), True)
    except BaseException as error:
        the_blocks.add(ptr, block[0])
        return caught(error)
    Py_XDECREF(block.buffer)
    try:
        buffer.close()
        return 0
    except BaseException as error:
        return caught(error)


cdef int tell_of_free(Object* device, void* ptr, Block* block, Object* stream) noexcept nogil:
    cdef Section section
    if not enter(sections, &section):
        return refused()
    return leave(sections, &section, py_tell(device, ptr, block, stream))


cdef int py_tell(Object* device, void* ptr, Block* block, Object* stream) noexcept with gil:
    cdef Device where = device_object(device)
    tell(False, own_pool(where), <uintptr_t>ptr, block.nbytes, stream_object(stream))
    return 0


# ---- the functions of the table ----

cdef int alloc(ms_device device, size_t nbytes, ms_stream stream, void** ptr) noexcept nogil:
    cdef Object* on
    cdef void* made = NULL
    cdef int code
    cdef Object* where = find_place(device, stream, &on)
    if where == NULL:
        return failure().status
    if ptr == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "ptr: expected an address, got NULL")
    if nbytes > 0:
        code = allocate_on(where, nbytes, on, &made)
        if code != 0:
            return code
    ptr[0] = made
    return 0


cdef int free(ms_device device, void* ptr, ms_stream stream) noexcept nogil:
    cdef Object* on
    cdef Object* where
    if ptr == NULL:
        return 0
    where = find_place(device, stream, &on)
    return failure().status if where == NULL else free_on(where, ptr, on)


cdef int copy(ms_device device, void* target, const void* source, size_t nbytes, ms_stream stream) noexcept nogil:
    cdef Object* on
    cdef int code
    cdef Object* where = find_place(device, stream, &on)
    if where == NULL:
        return failure().status
    if nbytes == 0:
        return 0
    if target == NULL or source == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "target, source: expected addresses, got NULL")
    if is_cpu(where):
        memmove(target, source, nbytes)
        return 0
    code = plain.mem_copy(where.context, target, source, nbytes, on.native)
    return driver_failed(code, "cuMemcpyAsync") if code else 0


cdef int fill(ms_device device, void* target, int value, size_t nbytes, ms_stream stream) noexcept nogil:
    cdef Object* on
    cdef int code
    cdef Object* where = find_place(device, stream, &on)
    if where == NULL:
        return failure().status
    if not 0 <= value <= 255:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "value: expected a byte, 0 to 255, got %d", value)
    if nbytes == 0:
        return 0
    if target == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "target: expected an address, got NULL")
    if is_cpu(where):
        memset(target, value, nbytes)
        return 0
    code = plain.mem_fill(where.context, target, <unsigned char>value, nbytes, on.native)
    return driver_failed(code, "cuMemsetD8Async") if code else 0
