"""Devices of the C API."""
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc

from madspace.capi cimport (
    MS_DEVICE_CPU, MS_DEVICE_CUDA, MS_DEVICE_INFO_CAPABILITY_MAJOR, MS_DEVICE_INFO_CAPABILITY_MINOR,
    MS_DEVICE_INFO_ID, MS_DEVICE_INFO_KIND, MS_DEVICE_INFO_MULTIPROCESSORS, MS_DEVICE_INFO_SHARED_PER_BLOCK,
    MS_DEVICE_INFO_TOTAL_MEMORY, MS_ERROR_ARGUMENT, MS_ERROR_DEVICE, MS_ERROR_UNSUPPORTED, ms_api,
    ms_device, ms_stream,
)
from madspace.capi._status cimport (
    Object, Section, caught, driver_failed, enter, failure, hand_out, kDevice, kStream, leave, look_up, new_object,
    refused, sections, write_failure,
)
from madspace.core._plain cimport context_synchronize, device_context, resolve_plain
from madspace.core.device cimport Device
from madspace.core.pool cimport MemoryPool, own_pool

from madspace.core.device import as_device, as_device_or_host, device_count


cdef ms_device cpu = NULL
cdef dict handles = {}              # device id: address of its handle


cdef int add_devices(ms_api* table) noexcept:
    table.device_count = count
    table.device_get = get
    table.device_from_object = from_object
    table.device_info = info
    table.device_synchronize = synchronize
    return 0


cdef Object* find_device(ms_device device) noexcept nogil:
    return look_up(device, kDevice, "device")


cdef Object* find_place(ms_device device, ms_stream stream, Object** found) noexcept nogil:
    cdef Object* where = look_up(device, kDevice, "device")
    found[0] = NULL
    if where == NULL:
        return NULL
    if is_cpu(where):
        if stream != NULL:
            write_failure(failure(), MS_ERROR_DEVICE, "stream: expected NULL on the CPU, got a handle")
            return NULL
        return where
    found[0] = look_up(stream, kStream, "stream")
    if found[0] == NULL:
        return NULL
    if found[0].device != where.device:
        write_failure(failure(), MS_ERROR_DEVICE, "stream: expected one of device %d, got one of device %d",
                      where.device, found[0].device)
        return NULL
    return where


cdef Device device_object(Object* device):
    return <Device>(<object>device.owner)


cdef ms_device device_handle(Device device) except NULL:
    cdef ms_device handle
    cdef Object* made
    cdef Facts* facts
    cdef MemoryPool pool
    cdef object known = handles.get(device.id)
    if known is None:
        resolve_plain()
        pool = own_pool(device)
        facts = new_facts(MS_DEVICE_CUDA, device.id)
        facts.info[MS_DEVICE_INFO_CAPABILITY_MAJOR] = device.compute_capability[0]
        facts.info[MS_DEVICE_INFO_CAPABILITY_MINOR] = device.compute_capability[1]
        facts.info[MS_DEVICE_INFO_MULTIPROCESSORS] = device.multiprocessor_count
        facts.info[MS_DEVICE_INFO_SHARED_PER_BLOCK] = device.max_shared_per_block
        facts.info[MS_DEVICE_INFO_TOTAL_MEMORY] = device.total_memory
        facts.pool = <void*>pool.handle_
        pool.tally_.share()
        facts.tally = &pool.tally_
        facts.lent = <const int*>&pool.lent_
        made = new_object(device)
        made.device = device.id
        made.context = device_context(device)
        made.more[0] = facts
        known = handles.setdefault(device.id, <size_t>hand_out(made, kDevice))
    handle = <ms_device><size_t>known
    return handle


cdef ms_device cpu_handle() except NULL:
    global cpu
    cdef Object* made
    cdef Facts* facts
    if cpu == NULL:
        facts = new_facts(MS_DEVICE_CPU, 0)
        made = new_object(None)
        made.more[0] = facts
        cpu = <ms_device>hand_out(made, kDevice)
    return cpu


cdef Facts* new_facts(int kind, int id) except NULL:
    cdef Facts* facts = <Facts*>calloc(1, sizeof(Facts))
    if facts == NULL:
        raise MemoryError("no host memory left for a device")
    facts.info[MS_DEVICE_INFO_KIND], facts.info[MS_DEVICE_INFO_ID] = kind, id
    return facts


# ---- the functions of the table ----

cdef int count(int* n) noexcept nogil:
    cdef Section section
    if n == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "n: expected an address, got NULL")
    return leave(sections, &section, py_count(n)) if enter(sections, &section) else refused()


cdef int py_count(int* n) noexcept with gil:
    try:
        n[0] = device_count()
        return 0
    except BaseException as error:
        return caught(error)


cdef int get(int kind, int id, ms_device* device) noexcept nogil:
    cdef Section section
    if device == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "device: expected an address, got NULL")
    if kind != MS_DEVICE_CUDA and (kind != MS_DEVICE_CPU or id != 0):
        return write_failure(failure(), MS_ERROR_ARGUMENT, "kind, id: expected MS_DEVICE_CPU (1) and 0, or "
                             "MS_DEVICE_CUDA (2) and a number, got %d and %d", kind, id)
    return leave(sections, &section, py_get(kind, id, device)) if enter(sections, &section) else refused()


cdef int py_get(int kind, int id, ms_device* device) noexcept with gil:
    try:
        device[0] = cpu_handle() if kind == MS_DEVICE_CPU else device_handle(as_device(id))
        return 0
    except BaseException as error:
        return caught(error)


cdef int from_object(PyObject* object_, ms_device* device) noexcept nogil:
    cdef Section section
    if object_ == NULL or device == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "object, device: expected addresses, got NULL")
    return leave(sections, &section, py_from_object(object_, device)) if enter(sections, &section) else refused()


cdef int py_from_object(PyObject* object_, ms_device* device) noexcept with gil:
    try:
        which = as_device_or_host(<object>object_)
        device[0] = cpu_handle() if which is None else device_handle(which)
        return 0
    except BaseException as error:
        return caught(error)


cdef int info(ms_device device, int what, int64_t* value) noexcept nogil:
    cdef Object* found = find_device(device)
    if found == NULL:
        return failure().status
    if value == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "value: expected an address, got NULL")
    if not 0 <= what < N_FACTS:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "what: expected an MS_DEVICE_INFO_ number, got %d", what)
    if is_cpu(found) and what > MS_DEVICE_INFO_ID:
        return write_failure(failure(), MS_ERROR_UNSUPPORTED, "what: expected the kind or the number of the CPU, got "
                             "%d",
                             what)
    value[0] = facts_of(found).info[what]
    return 0


cdef int synchronize(ms_device device) noexcept nogil:
    cdef Object* found = find_device(device)
    cdef int code
    if found == NULL:
        return failure().status
    if is_cpu(found):
        return 0
    code = context_synchronize(found.context)
    return driver_failed(code, "cuCtxSynchronize") if code else 0
