"""Events of the C API. Object.more: where the Event notes that, and in which capture, it was recorded."""
from cpython.ref cimport PyObject
from libc.stdint cimport uint64_t

from madspace.capi cimport (
    MS_ERROR_ARGUMENT, MS_ERROR_DEVICE, MS_ERROR_UNSUPPORTED, MS_EVENT_TIMING, ms_api, ms_device,
    ms_event, ms_stream,
)
from madspace.capi._devices cimport device_object, find_device, is_cpu
from madspace.capi._status cimport (
    Object, Section, caught, driver_failed, enter, failure, hand_out, kEvent, kStream, leave, look_up, new_object,
    refused, release, sections, write_failure,
)
from madspace.core cimport _plain as plain
from madspace.core.event cimport Event

cdef enum:
    NOT_READY = 600
    CAPTURED_EVENT = 907


cdef int add_events(ms_api* table) noexcept:
    table.event_create = create
    table.event_from_object = from_object
    table.event_native = native
    table.event_record = record
    table.event_wait = wait
    table.event_query = query
    table.event_synchronize = synchronize
    table.event_elapsed = elapsed
    table.event_release = end
    return 0


cdef Object* find_event(ms_event event, const char* name) noexcept nogil:
    return look_up(event, kEvent, name)


cdef inline bint* is_recorded(Object* event) noexcept nogil:
    return <bint*>event.more[0]


cdef inline uint64_t* capture_of(Object* event) noexcept nogil:
    return <uint64_t*>event.more[1]


cdef ms_event event_handle(Event event) except NULL:
    cdef Object* made
    event.check_open()
    made = new_object(event)
    made.device = event.device.id
    made.context = plain.device_context(event.device)
    made.native = <void*>event.handle_
    made.closed = <const int*>&event.closed_
    made.more[0] = &event.recorded_
    made.more[1] = &event.capture_
    return <ms_event>hand_out(made, kEvent)


# ---- the functions of the table ----

cdef int create(ms_device device, int flags, ms_event* event) noexcept nogil:
    cdef Section section
    cdef Object* found = find_device(device)
    if found == NULL:
        return failure().status
    if is_cpu(found):
        return write_failure(failure(), MS_ERROR_UNSUPPORTED, "device: expected a CUDA device, got the CPU, which has "
                             "no streams and events")
    if event == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "event: expected an address, got NULL")
    if flags & ~MS_EVENT_TIMING:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "flags: expected 0 or MS_EVENT_TIMING, got %d", flags)
    return leave(sections, &section, py_create(found, flags, event)) if enter(sections, &section) else refused()


cdef int py_create(Object* device, int flags, ms_event* event) noexcept with gil:
    try:
        event[0] = event_handle(Event(device_object(device), bool(flags & MS_EVENT_TIMING)))
        return 0
    except BaseException as error:
        return caught(error)


cdef int from_object(PyObject* object_, ms_event* event) noexcept nogil:
    cdef Section section
    if object_ == NULL or event == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "object, event: expected addresses, got NULL")
    return leave(sections, &section, py_from_object(object_, event)) if enter(sections, &section) else refused()


cdef int py_from_object(PyObject* object_, ms_event* event) noexcept with gil:
    try:
        given = <object>object_
        if not isinstance(given, Event):
            raise TypeError(f"object: expected a madspace.Event, got {type(given).__name__}")
        event[0] = event_handle(given)
        return 0
    except BaseException as error:
        return caught(error)


cdef int native(ms_event event, void** handle) noexcept nogil:
    cdef Object* found = find_event(event, "event")
    if found == NULL:
        return failure().status
    if handle == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "native: expected an address, got NULL")
    handle[0] = found.native
    return 0


cdef int record(ms_event event, ms_stream stream) noexcept nogil:
    cdef uint64_t capture = 0
    cdef int code
    cdef Object* found = find_event(event, "event")
    cdef Object* where = <Object*>NULL if found == NULL else look_up(stream, kStream, "stream")
    if where == NULL:
        return failure().status
    if where.device != found.device:
        return write_failure(failure(), MS_ERROR_DEVICE, "stream: expected one of device %d, the event's, got one of "
                             "device %d", found.device, where.device)
    code = plain.event_record(where.context, found.native, where.native, &capture)
    if code != 0:
        return driver_failed(code, "cuEventRecord")
    is_recorded(found)[0] = True
    capture_of(found)[0] = capture
    return 0


cdef int wait(ms_stream stream, ms_event event) noexcept nogil:
    cdef int code
    cdef Object* where = look_up(stream, kStream, "stream")
    cdef Object* found = <Object*>NULL if where == NULL else find_event(event, "event")
    if found == NULL:
        return failure().status
    code = plain.stream_wait_event(
        where.context, where.native, found.native, is_recorded(found)[0], capture_of(found)[0])
    return driver_failed(code, "cuStreamWaitEvent") if code else 0


cdef int query(ms_event event, int* done) noexcept nogil:
    cdef int code
    cdef Object* found = find_event(event, "event")
    if found == NULL:
        return failure().status
    if done == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "done: expected an address, got NULL")
    if capture_of(found)[0] != 0:
        return driver_failed(CAPTURED_EVENT, "cuEventQuery")
    code = plain.event_query(found.context, found.native)
    if code != 0 and code != NOT_READY:
        return driver_failed(code, "cuEventQuery")
    done[0] = code == 0
    return 0


cdef int synchronize(ms_event event) noexcept nogil:
    cdef int code
    cdef Object* found = find_event(event, "event")
    if found == NULL:
        return failure().status
    if capture_of(found)[0] != 0:
        return driver_failed(CAPTURED_EVENT, "cuEventSynchronize")
    code = plain.event_synchronize(found.context, found.native)
    return driver_failed(code, "cuEventSynchronize") if code else 0


cdef int elapsed(ms_event start, ms_event last, float* ms) noexcept nogil:
    cdef float value = 0
    cdef int code
    cdef Object* first = find_event(start, "start")
    cdef Object* second = <Object*>NULL if first == NULL else find_event(last, "end")
    if second == NULL:
        return failure().status
    if ms == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "ms: expected an address, got NULL")
    if first.device != second.device:
        return write_failure(failure(), MS_ERROR_DEVICE, "end: expected an event of device %d, got one of device %d",
                             first.device, second.device)
    if capture_of(first)[0] != 0 or capture_of(second)[0] != 0:
        return driver_failed(CAPTURED_EVENT, "cuEventElapsedTime")
    code = plain.event_elapsed(first.context, first.native, second.native, &value)
    if code != 0:
        return driver_failed(code, "cuEventElapsedTime")
    ms[0] = value
    return 0


cdef int end(ms_event event) noexcept nogil:
    return release(event, kEvent, "event")
