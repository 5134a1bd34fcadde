from libc.stdint cimport int64_t

from madspace.core._lease cimport Lease
from madspace.core.device cimport Device
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport Tensor


cdef object checked_size(object nbytes)                                 # an int; WorkspaceError
cdef Lease allocate(Device device, int64_t nbytes, object stream)       # device None: on the host
# Another array's memory; WorkspaceError unless uint8, contiguous and writable. stream: None, or the one call's.
cdef Lease borrow(object array, Stream stream, str name, bint ordered)

# What growing asks first: on which stream, and whether a capture forbids it.
cdef Stream growth_stream(Lease lease, object stream)
cdef int refuse_in_capture(Lease lease, Stream stream) except -1

# Part of it, for others: the lease counts their uses from now on. CaptureError.
cdef Tensor view_of(Lease lease, char* first, size_t nbytes)
