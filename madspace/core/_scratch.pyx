"""Where the memory of a workspace comes from."""
from cuda.bindings cimport cydriver
from libc.stdint cimport int64_t

from madspace.core cimport _driver as drv
from madspace.core._dtypes cimport CODE_UINT, dtype_name
from madspace.core._lease cimport Lease, capture_of, lease_of
from madspace.core._numbers cimport whole_number
from madspace.core.current cimport pick_stream
from madspace.core.device cimport Device
from madspace.core.dlpack cimport import_array
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport Tensor, empty_device, empty_host, make_tensor

from madspace.errors import WorkspaceError

cdef object LARGEST = 1 << 62


cdef object checked_size(object nbytes):
    size = whole_number(nbytes, "nbytes")
    if not 0 <= size <= LARGEST:
        raise WorkspaceError(f"nbytes: expected 0 to 2**62, got {size}")
    return size


cdef Lease allocate(Device device, int64_t nbytes, object stream):
    cdef Stream where
    if device is None:
        return lease_of(empty_host(CODE_UINT, 8, 1, &nbytes), True, True)
    where = pick_stream(stream, device)
    return lease_of(empty_device(device, where, CODE_UINT, 8, 1, &nbytes), True, True)


cdef Lease borrow(object array, Stream stream, str name, bint ordered):
    cdef Tensor tensor = import_array(array, stream, name)
    if tensor.code_ != CODE_UINT or tensor.bits_ != 8:
        raise WorkspaceError(f"{name}: expected dtype uint8, got {dtype_name(tensor.code_, tensor.bits_)}")
    if not tensor.contiguous():
        raise WorkspaceError(
            f"{name}: expected contiguous memory, got shape {tensor.shape} with strides {tensor.strides}")
    if tensor.readonly_:
        raise WorkspaceError(f"{name}: expected writable memory, got a read-only array")
    return lease_of(tensor, False, ordered)


cdef Stream growth_stream(Lease lease, object stream):
    cdef Stream home = lease.tensor.work_stream()
    return pick_stream(stream, home.device, None if home.closed_ else home)


cdef int refuse_in_capture(Lease lease, Stream stream) except -1:
    if capture_of(stream) != 0 or lease.is_captured_now():
        raise drv.error_of(
            cydriver.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuMemAllocFromPoolAsync",
            "workspace: it cannot grow during a capture: make it large enough before (largest_request tells)")
    return 0


cdef Tensor view_of(Lease lease, char* first, size_t nbytes):
    cdef Tensor whole = lease.tensor
    cdef int64_t size = nbytes
    lease.share()
    return make_tensor(whole.buffer_, whole.owner_, first, whole.device_type_, whole.device_id_, CODE_UINT, 8, 1, &size,
                       NULL, False)
