"""Arrays that describe themselves in a dict: __cuda_array_interface__ and NumPy's __array_interface__."""
from cuda.bindings.cydriver cimport CUdeviceptr, CUstream
from libc.stdint cimport int64_t, uint8_t, uintptr_t

from madspace.core cimport _driver
from madspace.core._dlpack_abi cimport DEVICE_CPU, DEVICE_CUDA
from madspace.core._dtypes cimport dtype_codes, typestr_codes
from madspace.core._foreign cimport Foreign
from madspace.core.current cimport pick_stream
from madspace.core.device cimport Device, get_device
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport MAX_NDIM, Tensor, make_tensor

from madspace.errors import DeviceMismatchError, DTypeError, ShapeError


cdef int read_layout(object interface, int itemsize, str name, int64_t* shape, int64_t* strides) except -1:
    lengths = interface["shape"]
    steps = interface.get("strides")
    cdef int ndim = len(lengths)
    cdef int64_t stride = itemsize
    cdef int i
    if ndim > MAX_NDIM:
        raise ShapeError(f"{name}: expected at most {MAX_NDIM} dimensions, got {ndim}")
    if steps is not None and len(steps) != ndim:
        raise BufferError(f"{name}: expected {ndim} strides, one per dimension, got {steps!r}")
    for i in range(ndim - 1, -1, -1):
        shape[i] = lengths[i]
        if steps is None:
            strides[i] = stride // itemsize
            stride *= max(shape[i], 1)
        else:
            # A dimension of length 1 is never stepped through.
            if steps[i] % itemsize and shape[i] > 1:
                raise BufferError(f"{name}: expected strides in multiples of {itemsize} bytes, got {steps!r}")
            strides[i] = steps[i] // itemsize
    return ndim


cdef Tensor import_host_array(object array, str name):
    cdef uint8_t code
    cdef uint8_t bits
    cdef int64_t shape[MAX_NDIM]
    cdef int64_t strides[MAX_NDIM]
    dtype_codes(array.dtype, name, &code, &bits)
    interface = array.__array_interface__
    cdef int ndim = read_layout(interface, bits // 8, name, shape, strides)
    address, readonly = interface["data"]
    return make_tensor(None, array, <void*><uintptr_t>address, DEVICE_CPU, 0, code, bits, ndim, shape, strides,
                       readonly)


cdef int interface_device(object interface) except? -2:
    cdef int ordinal = 0
    cdef CUdeviceptr address = <uintptr_t>(interface["data"][0] or 0)
    if address != 0:
        _driver.init()
        with nogil:
            _driver.pointer_get_device(&ordinal, address)
    return ordinal


cdef Tensor import_cuda_interface(object array, object interface, Stream stream, str name):
    cdef uint8_t code
    cdef uint8_t bits
    cdef int64_t shape[MAX_NDIM]
    cdef int64_t strides[MAX_NDIM]
    cdef Foreign foreign
    cdef Device device
    if interface.get("mask") is not None:
        raise BufferError(f"{name}: expected an array without a mask, got one with a mask")
    if not typestr_codes(interface["typestr"], &code, &bits):
        raise DTypeError(f"{name}: expected a bool, int, uint, float or complex type in native byte order, "
                         f"got {interface['typestr']!r}")
    producer = interface.get("stream")
    if producer is not None and not (isinstance(producer, int) and 0 < producer < 1 << 64):
        raise BufferError(f"{name}: expected a stream of 1, 2, a handle or None in __cuda_array_interface__, "
                          f"got {producer!r}")
    cdef int ndim = read_layout(interface, bits // 8, name, shape, strides)
    pointer, readonly = interface["data"]
    if stream is not None and not pointer:
        device = stream.device
    else:
        device = get_device(interface_device(interface))
    if stream is not None and stream.device is not device:
        raise DeviceMismatchError(f"{name}: expected memory of cuda:{stream.device.id}, the stream's device, "
                                  f"got memory of cuda:{device.id}")
    foreign = Foreign.__new__(Foreign)
    foreign.lender = array
    stream = pick_stream(stream, device)
    foreign.bind(stream)
    if producer is not None:
        foreign.follow(<CUstream><uintptr_t>producer, stream)
        if producer == 1:       # any other may be dead when the memory is given back
            foreign.producer = <CUstream><uintptr_t>1
    return make_tensor(None, foreign, <void*><uintptr_t>(pointer or 0), DEVICE_CUDA, device.id, code, bits, ndim,
                       shape, strides, readonly)
