from libc.stdint cimport int64_t

from madspace.capi cimport ms_api, ms_device, ms_stream
from madspace.capi._status cimport Object
from madspace.core._tally cimport Tally
from madspace.core.device cimport Device

cdef enum:
    N_FACTS = 7


# Of a device, for who has no interpreter; Object.more[0]. It stays for ever.
cdef struct Facts:
    int64_t info[N_FACTS]        # by MS_DEVICE_INFO_...
    void* pool                   # the driver's handle of its own pool
    Tally* tally                 # of that pool
    const int* lent              # whether another library's allocator serves in its place


cdef int add_devices(ms_api* table) noexcept

cdef inline bint is_cpu(const Object* device) noexcept nogil:
    return device.device < 0

cdef inline const Facts* facts_of(const Object* device) noexcept nogil:
    return <const Facts*>device.more[0]

cdef Object* find_device(ms_device device) noexcept nogil
# The device, and its stream: NULL for the CPU, which has none. NULL where one of the two is wrong.
cdef Object* find_place(ms_device device, ms_stream stream, Object** found) noexcept nogil
# With the GIL held; None for the CPU.
cdef Device device_object(Object* device)
cdef ms_device device_handle(Device device) except NULL
