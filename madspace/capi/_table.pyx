"""The table of the C API, and the capsule that hands it out."""
from cpython.pycapsule cimport PyCapsule_New

from madspace.capi cimport MADSPACE_API_MAJOR, MADSPACE_API_MINOR, ms_api
from madspace.capi._devices cimport add_devices
from madspace.capi._dlpack cimport add_dlpack
from madspace.capi._events cimport add_events
from madspace.capi._graphs cimport add_graphs
from madspace.capi._kda cimport add_kda
from madspace.capi._kernels cimport add_kernels
from madspace.capi._memory cimport add_memory
from madspace.capi._programs cimport add_programs
from madspace.capi._status cimport failure, sections
from madspace.capi._streams cimport add_streams
from madspace.capi._workspaces cimport add_workspaces
from madspace.core._teardown cimport CLOSED, FORKED, state


cdef extern from "status_names.h" namespace "madspace::capi" nogil:
    const char* name_of_status(int status)


# There as long as the process: nothing of it is ever freed.
cdef ms_api table


cdef const char* last_error() noexcept nogil:
    return failure().text


cdef int last_driver_code() noexcept nogil:
    return failure().driver_code


cdef const char* status_name(int status) noexcept nogil:
    return name_of_status(status)


cdef int is_alive() noexcept nogil:
    return sections.closing.load() == 0 and state() != CLOSED and state() != FORKED


table.major = MADSPACE_API_MAJOR
table.minor = MADSPACE_API_MINOR
table.size = sizeof(ms_api)
table.previous = NULL
table.last_error = last_error
table.last_driver_code = last_driver_code
table.status_name = status_name
table.is_alive = is_alive
add_devices(&table)
add_streams(&table)
add_events(&table)
add_memory(&table)
add_workspaces(&table)
add_kernels(&table)
add_graphs(&table)
add_kda(&table)
add_programs(&table)
add_dlpack(&table)

capsule = PyCapsule_New(&table, "madspace._C_API", NULL)
api_version = (table.major, table.minor)
