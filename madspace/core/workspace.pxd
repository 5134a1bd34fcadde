from madspace.core._lease cimport Lease
from madspace.core.device cimport Device
from madspace.core.regions cimport WorkspaceLayout
from madspace.core.stream cimport Stream


# What an op does with one, `stream` and `device` being None on the CPU:
#
#     workspace = as_workspace(argument, stream, "workspace")
#     workspace.check(device, layout.nbytes, stream, "workspace", layout.alignment)
#     ... all other checks ...
#     workspace.before(stream)
#     try:
#         ... launch with workspace.region(layout, 0), ...
#     finally:
#         workspace.after(stream)
cdef class Workspace:
    cdef readonly size_t nbytes
    cdef readonly size_t largest_request
    cdef readonly bint borrowed
    cdef Lease lease_            # None once closed
    cdef object device_          # Device, None on the CPU
    cdef object __weakref__
    cdef int check_open(self) except -1
    # alignment 0: 256. On the host never more than 16 is asked for.
    cpdef int check(self, Device device, size_t nbytes, Stream stream=*, str name=*, size_t alignment=*) except -1
    cpdef int before(self, Stream stream) except -1
    cpdef int after(self, Stream stream) except -1
    # Address of a region, bounds checked; NULL for a workspace of no bytes.
    cdef char* region(self, WorkspaceLayout layout, Py_ssize_t index) except? NULL


# An op's argument: a Workspace as it is, or any plain uint8 array, of which the streams' order is the caller's to see
# to. stream: the call's. WorkspaceError unless the array is uint8, contiguous and writable; TypeError for no array.
cdef Workspace as_workspace(object array, Stream stream, str name)
