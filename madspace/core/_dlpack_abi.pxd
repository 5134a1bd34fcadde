# DLPack's structures, version 1.3. Their layout is what counts: natural alignment, int32 enums.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef enum:
    DLPACK_MAJOR = 1
    DLPACK_MINOR = 3
    DEVICE_CPU = 1
    DEVICE_CUDA = 2
    DEVICE_PINNED = 3
    DEVICE_MANAGED = 13
    FLAG_READ_ONLY = 1
    FLAG_COPIED = 2


cdef struct DLDevice:
    int32_t device_type
    int32_t device_id


cdef struct DLDataType:
    uint8_t code
    uint8_t bits
    uint16_t lanes


cdef struct DLTensor:
    void* data
    DLDevice device
    int32_t ndim
    DLDataType dtype
    int64_t* shape
    int64_t* strides
    uint64_t byte_offset


cdef struct ManagedTensor:              # versioned
    uint32_t major
    uint32_t minor
    void* context
    void (*deleter)(ManagedTensor*) noexcept nogil
    uint64_t flags
    DLTensor tensor


# The structure from before DLPack 1.0.
cdef struct LegacyTensor:
    DLTensor tensor
    void* context
    void (*deleter)(LegacyTensor*) noexcept nogil


cdef struct ExchangeTable:
    uint32_t major
    uint32_t minor
    void* prev_api
    int (*allocate)(DLTensor*, ManagedTensor**, void*,
                    void (*)(void*, const char*, const char*) noexcept nogil) noexcept
    int (*from_object)(void*, ManagedTensor**) noexcept
    int (*to_object)(ManagedTensor*, void**) noexcept
    int (*borrow)(void*, DLTensor*) noexcept               # may be NULL
    int (*current_stream)(int32_t, int32_t, void**) noexcept
