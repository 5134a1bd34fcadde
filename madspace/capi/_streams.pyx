"""Streams of the C API. Object.more[0]: whether the stream is a side stream, which a join ends."""
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdint cimport uintptr_t

from madspace.capi cimport (
    MS_ERROR_ARGUMENT, MS_ERROR_UNSUPPORTED, ms_api, ms_device, ms_stream,
)
from madspace.capi._devices cimport device_object, find_device, is_cpu
from madspace.capi._status cimport (
    Object, Section, caught, driver_failed, enter, failure, hand_out, kStream, leave, look_up, new_object, refused,
    registry, release, sections, write_failure,
)
from madspace.core cimport _plain as plain
from madspace.core._lease cimport Hold
from madspace.core.event cimport order_streams
from madspace.core.stream cimport Stream, as_stream, own_stream

from madspace.core.forks import fork_streams, join_streams

cdef enum:
    NOT_READY = 600
    MAX_SIDES = 1024

cdef int IS_SIDE = 1                # whose address marks one


cdef int add_streams(ms_api* table) noexcept:
    table.device_stream = own
    table.stream_create = create
    table.stream_wrap = wrap
    table.stream_from_object = from_object
    table.stream_to_object = to_object
    table.stream_native = native
    table.stream_synchronize = synchronize
    table.stream_query = query
    table.stream_wait = wait
    table.stream_fork = fork
    table.stream_join = join
    table.stream_release = end
    return 0


cdef Object* find_stream(ms_stream stream, const char* name) noexcept nogil:
    return look_up(stream, kStream, name)


cdef Stream stream_object(Object* stream):
    return None if stream == NULL else (<Hold>(<object>stream.owner)).stream


cdef ms_stream stream_handle(Stream stream) except NULL:
    return <ms_stream>hand_out(new_stream_object(stream), kStream)


cdef Object* new_stream_object(Stream stream) except NULL:
    cdef Object* made
    cdef Hold hold = Hold.__new__(Hold)
    stream.hold()
    hold.stream = stream
    made = new_object(hold)
    made.device = stream.device.id
    made.context = plain.device_context(stream.device)
    made.native = <void*>stream.handle_
    made.closed = <const int*>&stream.closed_
    return made


cdef Object* find_gpu(ms_device device, void* out, const char* name) noexcept nogil:
    """The device of a function that makes something on a CUDA device."""
    cdef Object* found = find_device(device)
    if found == NULL:
        return NULL
    if is_cpu(found):
        write_failure(failure(), MS_ERROR_UNSUPPORTED, "device: expected a CUDA device, got the CPU, which has no "
                      "streams and events")
        return NULL
    if out == NULL:
        write_failure(failure(), MS_ERROR_ARGUMENT, "%s: expected an address, got NULL", name)
        return NULL
    return found


# ---- the functions of the table ----

cdef int own(ms_device device, ms_stream* stream) noexcept nogil:
    cdef Section section
    cdef Object* found = find_gpu(device, stream, "stream")
    if found == NULL:
        return failure().status
    return leave(sections, &section, py_own(found, stream)) if enter(sections, &section) else refused()


cdef int py_own(Object* device, ms_stream* stream) noexcept with gil:
    try:
        stream[0] = stream_handle(own_stream(device_object(device)))
        return 0
    except BaseException as error:
        return caught(error)


cdef int create(ms_device device, int priority, ms_stream* stream) noexcept nogil:
    cdef Section section
    cdef Object* found = find_gpu(device, stream, "stream")
    if found == NULL:
        return failure().status
    return leave(sections, &section, py_create(found, priority, stream)) if enter(sections, &section) else refused()


cdef int py_create(Object* device, int priority, ms_stream* stream) noexcept with gil:
    try:
        stream[0] = stream_handle(Stream(device_object(device), priority))
        return 0
    except BaseException as error:
        return caught(error)


cdef int wrap(ms_device device, void* handle, ms_stream* stream) noexcept nogil:
    cdef Section section
    cdef Object* found = find_gpu(device, stream, "stream")
    if found == NULL:
        return failure().status
    return leave(sections, &section, py_wrap(found, handle, stream)) if enter(sections, &section) else refused()


cdef int py_wrap(Object* device, void* handle, ms_stream* stream) noexcept with gil:
    try:
        stream[0] = stream_handle(Stream.from_handle(<uintptr_t>handle, device=device_object(device)))
        return 0
    except BaseException as error:
        return caught(error)


cdef int from_object(PyObject* object_, ms_device device, ms_stream* stream) noexcept nogil:
    cdef Section section
    cdef Object* found = find_gpu(device, stream, "stream")
    if found == NULL:
        return failure().status
    if object_ == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "object: expected an object, got NULL")
    return leave(sections, &section, py_from_object(object_, found, stream)) if enter(sections, &section) else refused()


cdef int py_from_object(PyObject* object_, Object* device, ms_stream* stream) noexcept with gil:
    try:
        stream[0] = stream_handle(as_stream(<object>object_, device_object(device)))
        return 0
    except BaseException as error:
        return caught(error)


cdef int to_object(ms_stream stream, PyObject** object_) noexcept nogil:
    cdef Section section
    cdef Object* found = find_stream(stream, "stream")
    if found == NULL:
        return failure().status
    if object_ == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "object: expected an address, got NULL")
    return leave(sections, &section, py_to_object(found, object_)) if enter(sections, &section) else refused()


cdef int py_to_object(Object* stream, PyObject** object_) noexcept with gil:
    cdef Stream found = stream_object(stream)
    Py_INCREF(found)
    object_[0] = <PyObject*>found
    return 0


cdef int native(ms_stream stream, void** handle) noexcept nogil:
    cdef Object* found = find_stream(stream, "stream")
    if found == NULL:
        return failure().status
    if handle == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "native: expected an address, got NULL")
    handle[0] = found.native
    return 0


cdef int synchronize(ms_stream stream) noexcept nogil:
    cdef int code
    cdef Object* found = find_stream(stream, "stream")
    if found == NULL:
        return failure().status
    code = plain.stream_synchronize(found.context, found.native)
    return driver_failed(code, "cuStreamSynchronize") if code else 0


cdef int query(ms_stream stream, int* done) noexcept nogil:
    cdef int code
    cdef Object* found = find_stream(stream, "stream")
    if found == NULL:
        return failure().status
    if done == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "done: expected an address, got NULL")
    code = plain.stream_query(found.context, found.native)
    if code != 0 and code != NOT_READY:
        return driver_failed(code, "cuStreamQuery")
    done[0] = code == 0
    return 0


cdef int wait(ms_stream stream, ms_stream earlier) noexcept nogil:
    cdef Section section
    cdef Object* later = find_stream(stream, "stream")
    cdef Object* before = <Object*>NULL if later == NULL else find_stream(earlier, "earlier")
    if before == NULL:
        return failure().status
    return leave(sections, &section, py_wait(later, before)) if enter(sections, &section) else refused()


cdef int py_wait(Object* later, Object* earlier) noexcept with gil:
    try:
        order_streams(stream_object(earlier), stream_object(later))
        return 0
    except BaseException as error:
        return caught(error)


cdef int fork(ms_stream stream, int n, ms_stream* sides) noexcept nogil:
    cdef Section section
    cdef Object* found = find_stream(stream, "stream")
    if found == NULL:
        return failure().status
    if sides == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "sides: expected room for handles, got NULL")
    if not 1 <= n <= MAX_SIDES:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "n: expected 1 to %d streams, got %d", <int>MAX_SIDES, n)
    return leave(sections, &section, py_fork(found, n, sides)) if enter(sections, &section) else refused()


cdef int py_fork(Object* stream, int n, ms_stream* sides) noexcept with gil:
    cdef Object* made
    cdef ms_stream room[MAX_SIDES]
    cdef int i, n_made = 0
    try:
        forked = fork_streams(stream_object(stream), n)
        try:
            for i in range(n):
                made = new_stream_object(forked[i])
                made.more[0] = &IS_SIDE
                room[i] = <ms_stream>hand_out(made, kStream)
                n_made += 1
        except BaseException:
            for i in range(n_made):
                release(room[i], kStream, "sides")
            join_streams(stream_object(stream), forked)
            raise
        for i in range(n):
            sides[i] = room[i]
        return 0
    except BaseException as error:
        return caught(error)


cdef int join(ms_stream stream, int n, const ms_stream* sides) noexcept nogil:
    cdef Section section
    cdef int i
    cdef Object* found = find_stream(stream, "stream")
    if found == NULL:
        return failure().status
    if n < 0 or (n > 0 and sides == NULL):
        return write_failure(failure(), MS_ERROR_ARGUMENT, "n, sides: expected handles and their number, got %d", n)
    for i in range(n):
        if find_stream(sides[i], "sides") == NULL:
            return failure().status
    return leave(sections, &section, py_join(found, n, sides)) if enter(sections, &section) else refused()


cdef int py_join(Object* stream, int n, const ms_stream* sides) noexcept with gil:
    cdef Object* found
    cdef int i, code = 0
    try:
        streams = []
        for i in range(n):
            found = find_stream(sides[i], "sides")
            if found == NULL:
                return failure().status
            streams.append(stream_object(found))
        join_streams(stream_object(stream), streams)
    except BaseException as error:
        code = caught(error)
    for i in range(n):
        # Not look_up(): the join has closed them.
        found = registry.find(sides[i], kStream)
        if found != NULL and found.more[0] == &IS_SIDE:
            release(sides[i], kStream, "sides")
    return code


cdef int end(ms_stream stream) noexcept nogil:
    return release(stream, kStream, "stream")
