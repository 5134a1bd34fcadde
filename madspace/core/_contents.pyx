"""What sets the elements of a Tensor, and its copies: copy_from, fill, copy, astype.

Importing this module puts the methods on the type; tensor.pyx does.
"""
from cuda.bindings.cydriver cimport CUdeviceptr
from libc.stdint cimport uint8_t

from madspace.core._attach cimport attach_methods
from madspace.core._copy cimport fill_on_device, gather_on_device
from madspace.core._dlpack_abi cimport DEVICE_CPU
from madspace.core._dtypes cimport dtype_codes, dtype_name
from madspace.core.device cimport get_device
from madspace.core.stream cimport Stream, as_stream
from madspace.core.tensor cimport Tensor, empty_device, empty_host, host_array, open_stream

import numpy as np

from madspace.errors import DTypeError, ShapeError


def copy_from(Tensor self not None, array, *, stream=None):
    """
    Overwrite the elements with those of another array.

    Parameters
    ----------
    array : array_like, shape and dtype as the tensor's
        Anything that `asarray` takes, on the host or on the same device.
    stream : Stream or int, optional
        Stream of the device work; `Tensor.stream` where it is left out. Unused between host arrays.

    Returns
    -------
    Tensor
        This tensor.

    Raises
    ------
    ShapeError, DTypeError
        If `array` differs in shape or dtype, or the tensor or a source on the device is not contiguous.
    DeviceMismatchError
        If `array` lies on another device.
    ValueError
        If the tensor is read-only.

    Notes
    -----
    Asynchronous towards a device: host memory goes there by way of page-locked memory and may change as soon as the
    call returns. Between tensors of one device whose memory overlaps the copy takes memory in between, which a capture
    refuses. From a device to the host the call **waits** until the data is there.
    """
    from madspace.core.creation import _refill      # it stands on this module
    _refill(self, array, stream)
    return self


def fill(Tensor self not None, value, *, stream=None):
    """
    Set every element to one value.

    Parameters
    ----------
    value : number
        Rounded to the tensor's floating-point type; an integer or bool type must hold it as it is.
    stream : Stream or int, optional
        Stream of the device work; `Tensor.stream` where it is left out. Unused on the host.

    Returns
    -------
    Tensor
        This tensor.

    Raises
    ------
    TypeError, ValueError, OverflowError
        If the type cannot hold `value`.
    ValueError
        If the tensor is read-only.
    ShapeError
        If the tensor on a device is not contiguous.
    DeviceMismatchError
        If the stream belongs to another device.

    Notes
    -----
    Asynchronous on a device, and may be captured. Values of eight or sixteen bytes that do not repeat a shorter
    pattern take two or four strided fills and a few copies within the memory, others one fill.

    Examples
    --------
    >>> import madspace
    >>> madspace.empty(3, "i4").fill(7).numpy().tolist()
    [7, 7, 7]
    """
    cdef Stream chosen
    cdef bytes pattern
    if self.readonly_:
        raise ValueError("self: expected a tensor that may be written, got a read-only one")
    cell = cell_of(self, value)
    if self.device_type_ == DEVICE_CPU:
        host_array(self)[...] = cell
        return self
    chosen = stream_of(self, stream)
    if not self.contiguous():
        raise ShapeError(f"self: expected a contiguous tensor on the device, got strides {self.strides}")
    if self.count() == 0:
        return self
    pattern = cell.tobytes()
    self.before(chosen, True)
    try:
        fill_on_device(<CUdeviceptr>self.data_, pattern, len(pattern), self.count(), chosen)
    finally:
        # Also after a failure: one of several fills may have been queued.
        self.after(chosen, True)
    return self


def copy(Tensor self not None, *, stream=None):
    """
    Copy the elements into memory of their own, on the same device.

    Parameters
    ----------
    stream : Stream or int, optional
        Stream of the device work, and of the copy; `Tensor.stream` where it is left out. Unused on the host.

    Returns
    -------
    Tensor, shape and dtype as the tensor's, row-major
        May be written, also where the tensor is read-only.

    Raises
    ------
    ShapeError
        If the tensor on a device has a stride of 0 or less along more than one element.
    OutOfMemoryError
        If the device has no room (`MemoryError` on the host).
    CaptureError
        If the stream is being captured: a copy is an allocation.
    DeviceMismatchError
        If the stream belongs to another device.

    Notes
    -----
    Asynchronous on a device. One driver call moves all that two evenly spaced loops describe; each further dimension
    that cannot be merged with its neighbour repeats it.

    Examples
    --------
    >>> import madspace
    >>> madspace.zeros((4, 6))[:, ::2].copy().strides
    (3, 1)
    """
    cdef Stream chosen
    cdef Tensor result
    if self.device_type_ == DEVICE_CPU:
        return self.host_copy()
    chosen = stream_of(self, stream)
    for length, stride in zip(self.shape, self.strides):
        if length > 1 and stride <= 0:
            raise ShapeError(f"self: expected strides of 1 and more on a device, got {self.strides}; asarray(numpy(), "
                             "device) copies by way of the host")
    result = empty_device(get_device(self.device_id_), chosen, self.code_, self.bits_, self.ndim_, self.shape_)
    if self.count() == 0:
        return result
    self.before(chosen, False)
    result.before(chosen, True)
    try:
        gather_on_device(<CUdeviceptr>result.data_, <CUdeviceptr>self.data_, self.ndim_, self.shape_, self.strides_,
                         self.bits_ // 8, chosen)
    finally:
        self.after(chosen, False)
        result.after(chosen, True)
    return result


def astype(Tensor self not None, dtype, *, stream=None):
    """
    Copy the elements, converted to another type.

    Parameters
    ----------
    dtype : numpy dtype
        Type of the copy.
    stream : Stream or int, optional
        As for `copy`.

    Returns
    -------
    Tensor, shape as the tensor's, dtype `dtype`, row-major
        Memory of its own, also where the type stays the same.

    Raises
    ------
    DTypeError
        For an unknown type, and for another type than the tensor's on a device: no kernel converts there, and a
        conversion on the host would wait behind the caller's back. ``asarray(tensor.numpy().astype(dtype), device)``
        says it openly; so does the framework that the tensor came from.
    ShapeError, MemoryError, CaptureError, DeviceMismatchError
        As from `copy`.

    Notes
    -----
    NumPy converts, by the rules of its own `astype`.

    Examples
    --------
    >>> import madspace
    >>> madspace.asarray([1.5, 2.5]).astype("f4").dtype
    dtype('float32')
    """
    cdef uint8_t code
    cdef uint8_t bits
    cdef Tensor result
    dtype_codes(dtype, "dtype", &code, &bits)
    if code == self.code_ and bits == self.bits_:
        return self.copy(stream=stream)
    if self.device_type_ != DEVICE_CPU:
        raise DTypeError(f"dtype: expected {dtype_name(self.code_, self.bits_)}, the type of the tensor on the device, "
                         f"got {dtype_name(code, bits)}: convert on the host, "
                         "asarray(tensor.numpy().astype(...), device)")
    result = empty_host(code, bits, self.ndim_, self.shape_)
    np.copyto(host_array(result), host_array(self), casting="unsafe")
    return result


cdef Stream stream_of(Tensor tensor, object stream):
    return open_stream(tensor) if stream is None else as_stream(stream, get_device(tensor.device_id_))


cdef object cell_of(Tensor tensor, object value):
    """An array of one element of the tensor's type that holds the value."""
    cell = np.empty((), tensor.dtype)
    rule = f"value: expected a number that {dtype_name(tensor.code_, tensor.bits_)} can hold, got {value!r}"
    if value is None or isinstance(value, (str, bytes)):    # NumPy would take them for NaN and for what they spell
        raise TypeError(rule)
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            cell[...] = value
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(rule) from None
    if cell.dtype.kind in "iub" and not (cell == value).all():
        raise ValueError(rule)
    return cell


attach_methods(Tensor, (copy_from, fill, copy, astype))
