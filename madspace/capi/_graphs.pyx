"""Captures and graphs of the C API. Object.more[0] of a graph: how many operands its launches put in order."""
from cpython.ref cimport Py_XDECREF, PyObject

from madspace.capi cimport MS_ERROR_ARGUMENT, MS_ERROR_DEVICE, ms_api, ms_capture, ms_graph, ms_stream
from madspace.capi._status cimport (
    Object, Section, caught, driver_failed, enter, failure, hand_out, kCapture, kGraph, kStream, leave, look_up,
    new_object, refused, registry, release, sections, write_failure,
)
from madspace.capi._streams cimport stream_object
from madspace.core cimport _plain as plain
from madspace.core.capture cimport Capture
from madspace.core.graph_exec cimport GraphExec

from madspace.core.capture import capture as new_capture


cdef int add_graphs(ms_api* table) noexcept:
    table.capture_begin = begin
    table.capture_end = finish
    table.capture_release = cancel
    table.graph_from_object = from_object
    table.graph_launch = launch
    table.graph_release = end
    return 0


cdef ms_graph graph_handle(GraphExec executable) except NULL:
    cdef Object* made
    executable.check_open()
    made = new_object(executable)
    made.device = executable.device.id
    made.context = plain.device_context(executable.device)
    made.native = <void*>executable.handle_
    made.closed = <const int*>&executable.closed_
    made.more[0] = &executable.n_ordered
    return <ms_graph>hand_out(made, kGraph)


# ---- the functions of the table ----

cdef int begin(ms_stream stream, ms_capture* capture) noexcept nogil:
    cdef Section section
    cdef Object* on = look_up(stream, kStream, "stream")
    if on == NULL:
        return failure().status
    if capture == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "capture: expected an address, got NULL")
    return leave(sections, &section, py_begin(on, capture)) if enter(sections, &section) else refused()


cdef int py_begin(Object* stream, ms_capture* handle) noexcept with gil:
    cdef Capture begun
    try:
        begun = new_capture(stream_object(stream))
        begun.begin()
        handle[0] = <ms_capture>hand_out(new_object(begun), kCapture)
        return 0
    except BaseException as error:
        return caught(error)


cdef int finish(ms_capture capture, ms_graph* graph) noexcept nogil:
    cdef Section section
    if graph == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "graph: expected an address, got NULL")
    return leave(sections, &section, py_finish(capture, graph)) if enter(sections, &section) else refused()


cdef int py_finish(ms_capture handle, ms_graph* graph) noexcept with gil:
    cdef PyObject* owner
    cdef Capture ended
    cdef int code = 0
    cdef Object* found = registry.end(handle, kCapture)
    if found == NULL:
        look_up(handle, kCapture, "capture")
        return failure().status
    owner = found.owner
    registry.give_back(found)
    ended = <Capture>(<object>owner)
    Py_XDECREF(owner)
    try:
        ended.finish()
        graph[0] = graph_handle(ended.graph.instantiate())
    except BaseException as error:
        code = caught(error)
    return code


cdef int cancel(ms_capture capture) noexcept nogil:
    return release(capture, kCapture, "capture")


cdef int from_object(PyObject* object_, ms_graph* graph) noexcept nogil:
    cdef Section section
    if object_ == NULL or graph == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "object, graph: expected addresses, got NULL")
    return leave(sections, &section, py_from_object(object_, graph)) if enter(sections, &section) else refused()


cdef int py_from_object(PyObject* object_, ms_graph* graph) noexcept with gil:
    try:
        given = <object>object_
        if not isinstance(given, GraphExec):
            raise TypeError(f"object: expected a madspace.GraphExec, got {type(given).__name__}")
        graph[0] = graph_handle(given)
        return 0
    except BaseException as error:
        return caught(error)


cdef int launch(ms_graph graph, ms_stream stream) noexcept nogil:
    cdef Section section
    cdef int code
    cdef Object* found = look_up(graph, kGraph, "graph")
    cdef Object* on = <Object*>NULL if found == NULL else look_up(stream, kStream, "stream")
    if on == NULL:
        return failure().status
    if on.device != found.device:
        return write_failure(failure(), MS_ERROR_DEVICE, "stream: expected one of device %d, the graph's, got one of "
                             "device %d", found.device, on.device)
    if (<int*>found.more[0])[0] != 0:
        return leave(sections, &section, py_launch(found, on)) if enter(sections, &section) else refused()
    code = plain.graph_launch(on.context, found.native, on.native)
    return driver_failed(code, "cuGraphLaunch") if code else 0


cdef int py_launch(Object* graph, Object* stream) noexcept with gil:
    try:
        (<GraphExec>(<object>graph.owner)).launch(stream_object(stream))
        return 0
    except BaseException as error:
        return caught(error)


cdef int end(ms_graph graph) noexcept nogil:
    return release(graph, kGraph, "graph")
