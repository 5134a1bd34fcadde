"""Making tensors: asarray, empty, zeros, from_dlpack."""
from cuda.bindings.cydriver cimport CUdeviceptr
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from madspace.core._copy cimport clear_on_device, copy_on_device, refuse_captured, strided_copy
from madspace.core._dlpack_abi cimport DEVICE_CPU, DEVICE_CUDA
from madspace.core._dtypes cimport dtype_codes, dtype_name, numpy_dtype
from madspace.core._staging cimport upload
from madspace.core.current cimport pick_stream
from madspace.core.device cimport Device, get_device
from madspace.core.dlpack cimport array_device, import_array
from madspace.core.stream cimport Stream, as_stream
from madspace.core.tensor cimport MAX_NDIM, Tensor, empty_device, empty_host, open_stream

import operator

import numpy as np

from madspace.core.device import as_device_or_host
from madspace.core import _exchange  # no-cython-lint: puts the exchange table on Tensor
from madspace.errors import DeviceMismatchError, DTypeError, ShapeError

__all__ = ["asarray", "empty", "from_dlpack", "zeros"]


def asarray(array, device=None, *, dtype=None, stream=None, copy=None):
    """
    Take any array in as a Tensor, without a copy where it lies on the right device already.

    Parameters
    ----------
    array : array_like, any shape of at most 8 dimensions
        A Tensor; an array of any library by DLPack (its C exchange table first), `__cuda_array_interface__`,
        `__array_interface__` or a buffer; numbers and nested sequences through NumPy. Host arrays may have any
        strides, negative ones as well.
    device : {None, "cpu", "cuda", "cuda:<i>"} or Device, optional
        Where the result lies. None: where the array is. ``"cuda"`` means ``"cuda:0"``.
    dtype : numpy dtype, optional
        Element type of the result; converted on the host alone.
    stream : Stream or int, optional
        Stream of the device work, and of the result. Left out: that of a ``madspace.stream`` block, else the one on
        which the array's framework works now, where its exchange table tells, else the device's own stream. Unused
        where all is on the host.
    copy : bool, optional
        True: always a copy. False: never one. None: where it is needed.

    Returns
    -------
    Tensor
        Shape as the array's. Shares its memory, and keeps it alive, unless a copy was made.

    Raises
    ------
    DTypeError
        For an element type that is not a native bool, int, uint, float, complex, bfloat16 or eight-bit float, and for
        a conversion on a device.
    ShapeError
        For more than 8 dimensions.
    DeviceMismatchError
        For a copy from one CUDA device to another.
    ValueError
        For ``copy=False`` where one is needed, and an unknown `device`.
    TypeError
        For what is no array at all.

    Notes
    -----
    From a device to the host the call **waits** for the data. Everything else is asynchronous. From the host to a
    device the elements go by way of page-locked memory (kept for later, ``PinnedBuffer.trim`` frees it), so the array
    may change as soon as the call returns. A producer on another stream is waited for on the device.

    Examples
    --------
    >>> import numpy as np
    >>> tensor = asarray(np.arange(6.0).reshape(2, 3))
    >>> tensor.shape, tensor.device
    ((2, 3), 'cpu')
    """
    cdef int target = parse_device(device)
    cdef Stream chosen
    if isinstance(array, (bool, int, float, complex, list, tuple)):
        array = np.asarray(array)
    chosen = stream_for(array, stream, target)
    return place(import_array(array, chosen, "array"), target, dtype, chosen, copy)


def from_dlpack(x, *, stream=None):
    """
    Take an array in through DLPack, without a copy.

    Parameters
    ----------
    x : object with `__dlpack__`, any shape of at most 8 dimensions
        On the host or on a CUDA device.
    stream : Stream or int, optional
        Stream on which the tensor will be used; see `asarray`.

    Returns
    -------
    Tensor
        Shares the memory and keeps it alive; read-only where the producer says so.

    Raises
    ------
    TypeError
        If `x` has no `__dlpack__`.
    BufferError
        If the producer cannot export it, or exports what no Tensor can describe.
    DTypeError, ShapeError
        As `asarray`.

    Notes
    -----
    Asynchronous.
    """
    if not hasattr(type(x), "__dlpack__"):
        raise TypeError(f"x: expected an object with __dlpack__, got {type(x).__name__}")
    return import_array(x, stream_for(x, stream, ANYWHERE), "x")


def empty(shape, dtype=np.float64, *, device=None, stream=None):
    """
    Make a tensor without setting its elements.

    Parameters
    ----------
    shape : int or sequence of int
        Lengths, at most 8 of them.
    dtype : numpy dtype, optional
        Element type; float64 where it is left out.
    device : {None, "cpu", "cuda", "cuda:<i>"} or Device, optional
        Where the memory lies; None means the host.
    stream : Stream or int, optional
        Stream in whose order device memory is allocated, used and freed; the device's own where it is left out.

    Returns
    -------
    Tensor, shape `shape`, row-major
        On the host aligned to 64 bytes.

    Raises
    ------
    ShapeError
        For a negative length, more than 8 lengths, or 2**63 bytes and more.
    DTypeError
        For an unknown element type.
    MemoryError
        If there is no memory left (`OutOfMemoryError` on a device).

    Notes
    -----
    Asynchronous.
    """
    return make_empty(shape, dtype, device, stream)


def zeros(shape, dtype=np.float64, *, device=None, stream=None):
    """
    Make a tensor of zeros.

    Parameters, errors and result as for `empty`. On a device the zeros are written on the stream, asynchronously.

    Returns
    -------
    Tensor, shape `shape`, row-major

    Examples
    --------
    >>> zeros((2, 2)).numpy().tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    cdef Tensor tensor = make_empty(shape, dtype, device, stream)
    cdef size_t nbytes = <size_t>(tensor.count() * (tensor.bits_ // 8))
    if nbytes == 0:
        return tensor
    if tensor.buffer_ is None:
        memset(tensor.data_, 0, nbytes)
    else:
        order = tensor.buffer_.stream
        tensor.buffer_.before(order, True)
        clear_on_device(tensor.buffer_.ptr_, nbytes, order)
        tensor.buffer_.after(order, True)
    return tensor


cdef Tensor make_empty(object shape, object dtype, object device, object stream):
    cdef uint8_t code
    cdef uint8_t bits
    cdef int64_t lengths[MAX_NDIM]
    cdef int target = parse_device(device)
    cdef int ndim = read_shape(shape, lengths)
    cdef Device place
    dtype_codes(dtype, "dtype", &code, &bits)
    if target < 0:
        return empty_host(code, bits, ndim, lengths)
    place = get_device(target)
    return empty_device(place, pick_stream(stream, place), code, bits, ndim,
                        lengths)


cdef int read_shape(object shape, int64_t* lengths) except -1:
    cdef int i
    try:
        values = [operator.index(shape)] if not hasattr(shape, "__len__") else [operator.index(n) for n in shape]
    except TypeError:
        raise ShapeError(f"shape: expected an int or a sequence of ints, got {shape!r}") from None
    if len(values) > MAX_NDIM:
        raise ShapeError(f"shape: expected at most {MAX_NDIM} lengths, got {len(values)}")
    for i, value in enumerate(values):
        if not -1 < value < 2**63:
            raise ShapeError(f"shape: expected lengths from 0 to 2**63 - 1, got {value}")
        lengths[i] = value
    return len(values)


cdef enum:
    ANYWHERE = -2
    HOST = -1


cdef int parse_device(object device) except? -3:
    """Ordinal of a CUDA device, HOST, or ANYWHERE for None."""
    if device is None:
        return ANYWHERE
    place = as_device_or_host(device)
    return HOST if place is None else (<Device>place).id


cdef Stream stream_for(object array, object stream, int target):
    """The stream argument as a Stream of the target, else of the device of the array; None where neither is one."""
    if isinstance(stream, Stream):
        (<Stream>stream).check_open()
        return stream
    if stream is None:
        return None
    if target < 0:
        target = array_device(array)
    return None if target < 0 else as_stream(stream, get_device(target))


cdef Tensor place(Tensor source, int target, object dtype, Stream stream, object copy):
    """Bring a tensor to where and to what it is asked for."""
    cdef Tensor result = source
    cdef int here = source.device_id_ if source.device_type_ == DEVICE_CUDA else HOST
    cdef uint8_t code = source.code_
    cdef uint8_t bits = source.bits_
    if target == ANYWHERE:
        target = here
    if dtype is not None:
        dtype_codes(dtype, "dtype", &code, &bits)
    convert = code != source.code_ or bits != source.bits_
    if target == here and not convert and not copy:
        return source
    if copy is not None and not copy:
        raise ValueError("copy: expected None or True for an array that has to be moved or converted, got False")
    if here >= 0 and target >= 0:
        if target != here:
            raise DeviceMismatchError(
                f"device: expected cuda:{here}, where the array is, or the cpu, got cuda:{target}")
        if convert:
            raise DTypeError(f"dtype: expected {dtype_name(source.code_, source.bits_)}, the type of the array on the "
                             f"device, got {dtype_name(code, bits)}")
    if target == HOST and (here >= 0 or not convert):
        result = source.host_copy()
    if convert:
        result = import_array(result.numpy().astype(numpy_dtype(code, bits)), None, "array")
    if target >= 0:
        device = get_device(target)
        result = result.device_copy(device, pick_stream(stream, device))
    return result


cpdef object _refill(Tensor target, object array, object stream):
    """Tensor.copy_from."""
    cdef Stream chosen = open_stream(target)
    cdef Tensor source
    cdef size_t nbytes = <size_t>(target.count() * (target.bits_ // 8))
    if target.readonly_:
        raise ValueError("self: expected a tensor that may be written, got a read-only one")
    if target.device_type_ == DEVICE_CUDA and stream is not None:
        chosen = as_stream(stream, get_device(target.device_id_))
    source = import_array(array, chosen, "array")
    if source.shape != target.shape:
        raise ShapeError(f"array: expected shape {target.shape}, got {source.shape}")
    if source.code_ != target.code_ or source.bits_ != target.bits_:
        raise DTypeError(f"array: expected dtype {dtype_name(target.code_, target.bits_)}, "
                         f"got {dtype_name(source.code_, source.bits_)}")
    if nbytes == 0:
        return None
    if target.device_type_ == DEVICE_CPU:
        fill_host(target, source)
        return None
    if not target.contiguous():
        raise ShapeError(f"self: expected a contiguous tensor on the device, got strides {target.strides}")
    if source.device_type_ == DEVICE_CPU:
        if not source.contiguous():
            source = source.host_copy()
        refuse_captured(chosen, "cuMemcpyHtoDAsync")
        target.before(chosen, True)
        upload(<CUdeviceptr>target.data_, source.data_, nbytes, chosen)
    else:
        if not source.contiguous():
            raise ShapeError(f"array: expected a contiguous tensor on the device, got strides {source.strides}")
        if source.data_ == target.data_:
            return None
        if source.data_ < <char*>target.data_ + nbytes and target.data_ < <char*>source.data_ + nbytes:
            # The driver leaves copies between overlapping ranges undefined: by way of memory in between.
            source = source.device_copy(get_device(target.device_id_), chosen)
        source.before(chosen, False)
        target.before(chosen, True)
        copy_on_device(<CUdeviceptr>target.data_, <CUdeviceptr>source.data_, nbytes, chosen)
        source.after(chosen, False)
    target.after(chosen, True)


cdef int fill_host(Tensor target, Tensor source) except -1:
    cdef int64_t low
    cdef int64_t source_low
    cdef size_t nbytes = target.span(&low)
    cdef size_t source_nbytes = source.span(&source_low)
    cdef char* first = <char*>target.data_ + low
    cdef char* source_first = <char*>source.data_ + source_low
    # A copy in between: of what lies on a device, and of what the writing would change while it is read.
    if source.device_type_ == DEVICE_CUDA or (first < source_first + source_nbytes and source_first < first + nbytes):
        source = source.host_copy()
    with nogil:
        strided_copy(<char*>target.data_, target.strides_, <char*>source.data_, source.strides_, target.shape_,
                     target.ndim_, target.bits_ // 8)
    return 0
