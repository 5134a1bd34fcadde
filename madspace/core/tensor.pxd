from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from madspace.core._dlpack_abi cimport DLTensor
from madspace.core._uses cimport Work
from madspace.core.device cimport Device
from madspace.core.memory cimport Buffer
from madspace.core.stream cimport Stream

cdef enum:
    MAX_NDIM = 8


cdef class Tensor:
    cdef void* data_             # first element; NULL when there are no elements
    cdef int32_t device_type_    # DLPack codes: 1 CPU, 2 CUDA
    cdef int32_t device_id_
    cdef uint8_t code_           # DLPack type code: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool
    cdef uint8_t bits_
    cdef int ndim_
    cdef int64_t shape_[MAX_NDIM]
    cdef int64_t strides_[MAX_NDIM]      # in elements, always filled in
    cdef bint readonly_
    cdef Buffer buffer_          # our own device memory, else None
    cdef object owner_           # whatever else keeps data_ alive (NumPy array, foreign managed tensor, host block)
    cdef uint64_t serial_        # of no other tensor of this process, never 0
    cdef object __weakref__

    # Of the same memory, its first element `offset` elements from this one's.
    cdef Tensor view(self, int64_t offset, int ndim, const int64_t* shape, const int64_t* strides)
    cdef int64_t count(self) noexcept nogil              # elements
    cdef bint contiguous(self) noexcept nogil
    # Bytes that the elements span: from `low` bytes before data_ (low <= 0), `nbytes` of them.
    cdef size_t span(self, int64_t* low) noexcept nogil
    cdef object memory(self)                             # its Buffer or whatever else owns what data_ points to
    # Stream of the device memory: the buffer's own, or the one that foreign memory was taken in for. None on the host.
    cdef Stream work_stream(self)
    # Bracket device work on `stream` as Buffer.before and after do, for foreign memory as well. No-ops on the host.
    cdef int before(self, Stream stream, bint write) except -1
    cdef int after(self, Stream stream, bint write) except -1
    cdef int before_in(self, Work work, bint write) except -1
    cdef int after_in(self, Work work, bint write) except -1
    # Borrowed description, valid while the tensor lives. BufferError for negative strides.
    cdef int describe(self, DLTensor* view) except -1
    cdef Tensor host_copy(self)          # compact, in host memory; waits for the device
    cdef Tensor device_copy(self, Device device, Stream stream)     # of a host tensor, or within one device


# Where work goes that names no stream: the chosen one, else work_stream(), or the device's own where that was closed.
# None on the host.
cdef Stream open_stream(Tensor tensor)

cdef object host_array(Tensor tensor)    # of a host tensor: a NumPy view of its memory

# strides NULL: compact row-major. Exactly one of buffer/owner is given for non-empty tensors.
cdef Tensor make_tensor(Buffer buffer, object owner, void* data, int32_t device_type, int32_t device_id,
                        uint8_t code, uint8_t bits, int ndim, const int64_t* shape, const int64_t* strides,
                        bint readonly)

# Uninitialised and compact; stream is used on a device alone.
cdef Tensor empty_host(uint8_t code, uint8_t bits, int ndim, const int64_t* shape)
cdef Tensor empty_device(Device device, Stream stream, uint8_t code, uint8_t bits, int ndim, const int64_t* shape)
