"""Workspaces of the C API: madspace's own, as they are, with the GIL."""
from cpython.ref cimport PyObject

from madspace.capi cimport MS_ERROR_ARGUMENT, MS_ERROR_DEVICE, ms_api, ms_device, ms_stream, ms_workspace
from madspace.capi._devices cimport device_object, find_device, find_place, is_cpu
from madspace.capi._status cimport (
    Object, Section, caught, enter, failure, hand_out, kStream, kWorkspace, leave, look_up, new_object, refused,
    release, sections, write_failure,
)
from madspace.capi._streams cimport stream_object
from madspace.core.device cimport Device
from madspace.core.workspace cimport Workspace


cdef int add_workspaces(ms_api* table) noexcept:
    table.workspace_create = create
    table.workspace_from_object = from_object
    table.workspace_size = size
    table.workspace_check = check
    table.workspace_begin = begin
    table.workspace_end = finish
    table.workspace_release = end
    return 0


cdef Object* find_workspace(ms_workspace workspace) noexcept nogil:
    return look_up(workspace, kWorkspace, "workspace")


cdef Workspace workspace_object(Object* workspace):
    return <Workspace>(<object>workspace.owner)


cdef ms_workspace workspace_handle(Workspace workspace) except NULL:
    cdef Object* made = new_object(workspace)
    made.device = -1 if workspace.device_ is None else (<Device>workspace.device_).id
    return <ms_workspace>hand_out(made, kWorkspace)


cdef int find_use(ms_workspace workspace, ms_stream stream, Object** found, Object** on) noexcept nogil:
    """A workspace and the stream of a use; 0, or what is wrong."""
    found[0] = find_workspace(workspace)
    on[0] = NULL
    if found[0] == NULL:
        return failure().status
    if found[0].device < 0:
        if stream != NULL:
            return write_failure(failure(), MS_ERROR_DEVICE, "stream: expected NULL for a workspace on the CPU, got a "
                                 "handle")
        return 0
    on[0] = look_up(stream, kStream, "stream")
    if on[0] == NULL:
        return failure().status
    if on[0].device != found[0].device:
        return write_failure(failure(), MS_ERROR_DEVICE, "stream: expected one of device %d, the workspace's, got one "
                             "of device %d", found[0].device, on[0].device)
    return 0


# ---- the functions of the table ----

cdef int create(ms_device device, size_t nbytes, ms_stream stream, ms_workspace* workspace) noexcept nogil:
    cdef Section section
    cdef Object* on
    cdef Object* where = find_place(device, stream, &on)
    if where == NULL:
        return failure().status
    if workspace == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "workspace: expected an address, got NULL")
    if not enter(sections, &section):
        return refused()
    return leave(sections, &section, py_create(where, nbytes, on, workspace))


cdef int py_create(Object* device, size_t nbytes, Object* stream, ms_workspace* workspace) noexcept with gil:
    try:
        if is_cpu(device):
            workspace[0] = workspace_handle(Workspace(nbytes, "cpu"))
        else:
            workspace[0] = workspace_handle(Workspace(nbytes, device_object(device), stream_object(stream)))
        return 0
    except BaseException as error:
        return caught(error)


cdef int from_object(PyObject* object_, ms_workspace* workspace) noexcept nogil:
    cdef Section section
    if object_ == NULL or workspace == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "object, workspace: expected addresses, got NULL")
    return leave(sections, &section, py_from_object(object_, workspace)) if enter(sections, &section) else refused()


cdef int py_from_object(PyObject* object_, ms_workspace* workspace) noexcept with gil:
    try:
        given = <object>object_
        workspace[0] = workspace_handle(given if isinstance(given, Workspace) else Workspace.wrap(given))
        return 0
    except BaseException as error:
        return caught(error)


cdef int size(ms_workspace workspace, size_t* nbytes) noexcept nogil:
    cdef Section section
    cdef Object* found = find_workspace(workspace)
    if found == NULL:
        return failure().status
    if nbytes == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "nbytes: expected an address, got NULL")
    return leave(sections, &section, py_size(found, nbytes)) if enter(sections, &section) else refused()


cdef int py_size(Object* workspace, size_t* nbytes) noexcept with gil:
    try:
        workspace_object(workspace).check_open()
        nbytes[0] = workspace_object(workspace).nbytes
        return 0
    except BaseException as error:
        return caught(error)


cdef int check(ms_workspace workspace, ms_device device, size_t nbytes, size_t alignment,
               ms_stream stream) noexcept nogil:
    cdef Section section
    cdef Object* where = NULL
    cdef Object* on = NULL
    cdef Object* found = find_workspace(workspace)
    if found != NULL:
        where = find_device(device)
    if where == NULL or (stream != NULL and look_up(stream, kStream, "stream") == NULL):
        return failure().status
    if stream != NULL:
        on = look_up(stream, kStream, "stream")
    if not enter(sections, &section):
        return refused()
    return leave(sections, &section, py_check(found, where, nbytes, alignment, on))


cdef int py_check(Object* workspace, Object* device, size_t nbytes, size_t alignment, Object* stream) noexcept with gil:
    try:
        workspace_object(workspace).check(
            None if is_cpu(device) else device_object(device), nbytes, stream_object(stream), "workspace", alignment)
        return 0
    except BaseException as error:
        return caught(error)


cdef int begin(ms_workspace workspace, ms_stream stream, void** ptr) noexcept nogil:
    cdef Section section
    cdef Object* found
    cdef Object* on
    cdef int code = find_use(workspace, stream, &found, &on)
    if code != 0:
        return code
    if ptr == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "ptr: expected an address, got NULL")
    return leave(sections, &section, py_begin(found, on, ptr)) if enter(sections, &section) else refused()


cdef int py_begin(Object* workspace, Object* stream, void** ptr) noexcept with gil:
    cdef Workspace found = workspace_object(workspace)
    try:
        found.check_open()
        found.before(stream_object(stream))
        ptr[0] = found.lease_.tensor.data_
        return 0
    except BaseException as error:
        return caught(error)


cdef int finish(ms_workspace workspace, ms_stream stream) noexcept nogil:
    cdef Section section
    cdef Object* found
    cdef Object* on
    cdef int code = find_use(workspace, stream, &found, &on)
    if code != 0:
        return code
    return leave(sections, &section, py_finish(found, on)) if enter(sections, &section) else refused()


cdef int py_finish(Object* workspace, Object* stream) noexcept with gil:
    try:
        workspace_object(workspace).after(stream_object(stream))
        return 0
    except BaseException as error:
        return caught(error)


cdef int end(ms_workspace workspace) noexcept nogil:
    return release(workspace, kWorkspace, "workspace")
