"""Tensor: a strided array on the host or on a device. What it hands out is in _exports, what sets it in _contents."""
cimport cython

from cuda.bindings.cydriver cimport CUdeviceptr
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t

from madspace.core._attach cimport attach
from madspace.core._copy cimport copy_on_device, download, refuse_captured, strided_copy
from madspace.core._dlpack_abi cimport DEVICE_CPU, DEVICE_CUDA, DLTensor
from madspace.core._dtypes cimport dtype_name, numpy_dtype
from madspace.core._foreign cimport Foreign
from madspace.core._host cimport HostBlock, array_view, host_block
from madspace.core._index cimport index_layout
from madspace.core._layout cimport compact_strides, element_count, element_span, is_compact, product_overflows
from madspace.core._reshape cimport reshape_layout
from madspace.core._staging cimport upload
from madspace.core._uses cimport Work, work_on
from madspace.core.current cimport pick_stream
from madspace.core.device cimport Device, get_device
from madspace.core.memory cimport Buffer, allocate
from madspace.core.stream cimport Stream

import numpy as np

from madspace.core._refusal import refusal
from madspace.errors import ShapeError


@cython.final
@cython.freelist(16)
@cython.no_gc_clear         # a Lease needs it to the end
cdef class Tensor:
    """
    Strided array on the host or on a CUDA device.

    Made by `asarray`, `empty`, `zeros`, `from_dlpack` and by what ops return; never by calling the class. A tensor
    of another library's memory keeps that memory alive, and exports of a tensor keep the tensor alive.

    ``tensor[key]`` with ints, slices, an ellipsis and None is a view of the same memory, of no dimensions for a single
    element; nothing is copied or waited for.

    Notes
    -----
    Device work on a tensor is asynchronous. `numpy` is the one method that waits for it. Tensors can be neither
    pickled nor copied by the `copy` module: go through `numpy`.
    """

    def __init__(self):
        raise TypeError("a Tensor is made by asarray(), empty(), zeros() or from_dlpack()")

    @property
    def shape(self):
        """Length of each dimension, a tuple of int."""
        return tuple([self.shape_[i] for i in range(self.ndim_)])

    @property
    def strides(self):
        """Distance between neighbours in each dimension, a tuple of int in **elements** (NumPy counts bytes)."""
        return tuple([self.strides_[i] for i in range(self.ndim_)])

    @property
    def ndim(self):
        """Number of dimensions."""
        return self.ndim_

    @property
    def size(self):
        """Number of elements."""
        return self.count()

    @property
    def dtype(self):
        """Element type, a numpy dtype; bfloat16 and the eight-bit floats are those of `ml_dtypes`."""
        return numpy_dtype(self.code_, self.bits_)

    @property
    def itemsize(self):
        """Bytes per element."""
        return self.bits_ // 8

    @property
    def nbytes(self):
        """Bytes of all elements, gaps between them not counted."""
        return self.count() * (self.bits_ // 8)

    @property
    def device(self):
        """``"cpu"``, or the `Device` that holds the memory."""
        return "cpu" if self.device_type_ == DEVICE_CPU else get_device(self.device_id_)

    @property
    def device_id(self):
        """Ordinal of the CUDA device, None on the host."""
        return None if self.device_type_ == DEVICE_CPU else self.device_id_

    @property
    def ptr(self):
        """Address of the first element as an int; 0 when there are no elements."""
        return <uintptr_t>self.data_

    @property
    def stream(self):
        """
        Stream in whose order the device memory is used and freed, None on the host.

        For memory of another library it is the stream that the memory was taken in for.
        """
        return self.work_stream()

    @property
    def readonly(self):
        """True where nothing may write to the memory."""
        return self.readonly_

    @property
    def is_contiguous(self):
        """True where the elements follow each other in row-major order without gaps."""
        return self.contiguous()

    def __len__(self):
        if self.ndim_ == 0:
            raise TypeError("a tensor of zero dimensions has no len()")
        return self.shape_[0]

    def __getitem__(self, key):
        cdef int64_t shape[MAX_NDIM]
        cdef int64_t strides[MAX_NDIM]
        cdef int64_t offset
        cdef int ndim = index_layout(key, self.ndim_, self.shape_, self.strides_, shape, strides, &offset)
        return self.view(offset, ndim, shape, strides)

    def reshape(self, shape):
        """
        View the elements, in row-major order, under another shape.

        Parameters
        ----------
        shape : int or sequence of int
            Lengths, at most 8 of them, that make as many elements as there are; one may be -1 and follows from the
            others.

        Returns
        -------
        Tensor, shape `shape`
            Shares the memory; read-only where the tensor is.

        Raises
        ------
        ShapeError
            If `shape` makes another number of elements, or if no strides describe it in the same memory: `copy` first.

        Notes
        -----
        Nothing is copied or waited for, on the host and on a device alike.

        Examples
        --------
        >>> import madspace
        >>> madspace.zeros((2, 6)).reshape((3, -1)).shape
        (3, 4)
        """
        cdef int64_t lengths[MAX_NDIM]
        cdef int64_t strides[MAX_NDIM]
        cdef int ndim = reshape_layout(shape, self.ndim_, self.shape_, self.strides_, lengths, strides)
        return self.view(0, ndim, lengths, strides)

    def __repr__(self):
        where = "cpu" if self.device_type_ == DEVICE_CPU else f"cuda:{self.device_id_}"
        return (f"<Tensor shape={self.shape} dtype={dtype_name(self.code_, self.bits_)} "
                f"device={where} ptr={<uintptr_t>self.data_:#x}>")

    def __reduce__(self):
        raise TypeError("a Tensor cannot be pickled or copied: use numpy()")

    def numpy(self):
        """
        Give the elements as a NumPy array.

        Returns
        -------
        numpy.ndarray, shape and dtype as the tensor's
            On the host a view of the same memory, which keeps the tensor alive and is read-only where the tensor is.
            From a device a copy of its own.

        Raises
        ------
        DTypeError
            If NumPy lacks the type and `ml_dtypes` is not there to add it.

        Notes
        -----
        **Waits** for a device: the copy is queued on `stream` behind the last write, then the host waits for it.
        """
        cdef Tensor source = self if self.device_type_ == DEVICE_CPU else self.host_copy()
        return host_array(source)

    def __array__(self, dtype=None, copy=None):
        if self.device_type_ != DEVICE_CPU:
            raise TypeError(f"a tensor on cuda:{self.device_id_} is not converted implicitly: call numpy(), "
                            "which copies it and waits for the device")
        array = host_array(self)
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(f"copy: expected None or True for another dtype ({array.dtype} to {dtype}), got False")
            return array.astype(dtype)
        return array.copy() if copy else array

    cdef Tensor view(self, int64_t offset, int ndim, const int64_t* shape, const int64_t* strides):
        return make_tensor(self.buffer_, self.owner_, <char*>self.data_ + offset * (self.bits_ // 8),
                           self.device_type_, self.device_id_, self.code_, self.bits_, ndim, shape, strides,
                           self.readonly_)

    cdef int64_t count(self) noexcept nogil:
        return element_count(self.ndim_, self.shape_)

    cdef bint contiguous(self) noexcept nogil:
        return is_compact(self.ndim_, self.shape_, self.strides_)

    cdef size_t span(self, int64_t* low) noexcept nogil:
        cdef int64_t itemsize = self.bits_ // 8
        cdef int64_t count = element_span(self.ndim_, self.shape_, self.strides_, low)
        low[0] *= itemsize
        return <size_t>(count * itemsize)

    cdef object memory(self):
        return self.owner_ if self.buffer_ is None else self.buffer_

    cdef Stream work_stream(self):
        if self.buffer_ is not None:
            return self.buffer_.stream
        if isinstance(self.owner_, Foreign):
            return (<Foreign>self.owner_).consumer
        return None

    cdef int before(self, Stream stream, bint write) except -1:
        if self.buffer_ is not None:
            return self.buffer_.before(stream, write)
        return self.before_in(work_on(stream), write)

    cdef int after(self, Stream stream, bint write) except -1:
        if self.buffer_ is not None:
            return self.buffer_.after(stream, write)
        return self.after_in(work_on(stream), write)

    cdef int before_in(self, Work work, bint write) except -1:
        if self.buffer_ is not None:
            self.buffer_.before_in(work, write)
        elif self.device_type_ == DEVICE_CUDA:
            (<Foreign>self.owner_).before(work.stream)
        return 0

    cdef int after_in(self, Work work, bint write) except -1:
        if self.buffer_ is not None:
            self.buffer_.after_in(work, write)
        elif self.device_type_ == DEVICE_CUDA:
            (<Foreign>self.owner_).after(work.stream)
        return 0

    cdef int describe(self, DLTensor* view) except -1:
        cdef int i
        for i in range(self.ndim_):
            if self.strides_[i] < 0:
                raise BufferError(f"DLPack export: expected no negative stride, got strides {self.strides}")
        view.data = self.data_
        view.device.device_type = self.device_type_
        view.device.device_id = self.device_id_
        view.ndim = self.ndim_
        view.dtype.code = self.code_
        view.dtype.bits = self.bits_
        view.dtype.lanes = 1
        view.shape = self.shape_
        view.strides = self.strides_
        view.byte_offset = 0
        return 0

    cdef Tensor host_copy(self):
        cdef Tensor copy
        cdef Tensor image = self
        cdef HostBlock block
        cdef int64_t low
        cdef size_t nbytes = self.span(&low)
        cdef Stream stream
        if nbytes > 0 and self.device_type_ == DEVICE_CUDA:
            # What lies between the elements travels as well; taking it out again is the host's work.
            block = host_block(nbytes)
            stream = open_stream(self)
            refuse_captured(stream, "cuMemcpyDtoHAsync")
            self.before(stream, False)
            download(block.ptr, <CUdeviceptr>self.data_ + low, nbytes, stream)
            self.after(stream, False)
            image = make_tensor(None, block, <char*>block.ptr - low, DEVICE_CPU, 0, self.code_, self.bits_,
                                self.ndim_, self.shape_, self.strides_, False)
            if self.contiguous():
                return image
        copy = empty_host(self.code_, self.bits_, self.ndim_, self.shape_)
        if nbytes > 0:
            with nogil:
                strided_copy(<char*>copy.data_, copy.strides_, <char*>image.data_, image.strides_,
                             self.shape_, self.ndim_, self.bits_ // 8)
        return copy

    cdef Tensor device_copy(self, Device device, Stream stream):
        cdef Tensor source = self
        cdef Buffer buffer
        cdef int64_t low
        cdef size_t nbytes
        if self.device_type_ == DEVICE_CPU and not self.contiguous():
            source = self.host_copy()
        nbytes = source.span(&low)
        if nbytes > 0 and source.device_type_ == DEVICE_CPU:
            refuse_captured(stream, "cuMemcpyHtoDAsync")
        # Within a device the whole span is copied, so that the copy has the strides of the original.
        buffer = allocate(device, nbytes, stream)
        if nbytes > 0:
            buffer.before(stream, True)
            if source.device_type_ == DEVICE_CPU:
                upload(buffer.ptr_, <char*>source.data_ + low, nbytes, stream)
            else:
                source.before(stream, False)
                copy_on_device(buffer.ptr_, <CUdeviceptr>source.data_ + low, nbytes, stream)
                source.after(stream, False)
            buffer.after(stream, True)
        return make_tensor(buffer, None, <void*>(buffer.ptr_ - low), DEVICE_CUDA, device.id, self.code_, self.bits_,
                           self.ndim_, self.shape_, source.strides_, False)


attach(Tensor, "__new__", refusal("a Tensor is made by asarray(), empty(), zeros() or from_dlpack()"))


cdef Stream open_stream(Tensor tensor):
    cdef Stream stream = tensor.work_stream()
    if stream is None:
        return None
    return pick_stream(None, stream.device, None if stream.closed_ else stream)


cdef object host_array(Tensor tensor):
    return array_view(tensor, tensor.data_, tensor.code_, tensor.bits_, tensor.ndim_, tensor.shape_, tensor.strides_,
                      tensor.readonly_)


cdef int refuse_shape(int ndim, const int64_t* shape) except -1:
    lengths = tuple([shape[i] for i in range(ndim)])
    raise ShapeError(f"shape: expected lengths of 0 and more that make fewer than 2**63 bytes, got {lengths}")


cdef uint64_t last_serial = 0


cdef Tensor make_tensor(Buffer buffer, object owner, void* data, int32_t device_type, int32_t device_id,
                        uint8_t code, uint8_t bits, int ndim, const int64_t* shape, const int64_t* strides,
                        bint readonly):
    if ndim < 0 or ndim > MAX_NDIM:
        raise ShapeError(f"ndim: expected 0 to {MAX_NDIM} dimensions, got {ndim}")
    global last_serial
    cdef Tensor tensor = Tensor.__new__(Tensor)
    cdef int64_t count = 1
    cdef int64_t reach = bits // 8
    cdef int i
    tensor.ndim_ = ndim
    for i in range(ndim):
        tensor.shape_[i] = shape[i]
        # Lengths of zero do not hide an overflow: strides are made from the others.
        if shape[i] < 0 or (shape[i] > 0 and product_overflows(reach, shape[i], &reach)):
            refuse_shape(ndim, shape)
        count *= shape[i]
    if strides is NULL or count == 0:
        compact_strides(ndim, shape, tensor.strides_)
    else:
        for i in range(ndim):
            tensor.strides_[i] = strides[i]
    tensor.data_ = data if count > 0 else NULL
    tensor.device_type_ = device_type
    tensor.device_id_ = device_id
    tensor.code_ = code
    tensor.bits_ = bits
    tensor.readonly_ = readonly
    tensor.buffer_ = buffer
    tensor.owner_ = owner
    last_serial += 1
    tensor.serial_ = last_serial
    return tensor


cdef size_t bytes_of(uint8_t bits, int ndim, const int64_t* shape) except? 0:
    # make_tensor says what a shape must be; this runs before there is memory to make a tensor of.
    cdef Tensor probe = make_tensor(None, None, NULL, DEVICE_CPU, 0, 0, bits, ndim, shape, NULL, False)
    return <size_t>(probe.count() * (bits // 8))


cdef Tensor empty_host(uint8_t code, uint8_t bits, int ndim, const int64_t* shape):
    cdef HostBlock block = host_block(bytes_of(bits, ndim, shape))
    return make_tensor(None, block, block.ptr, DEVICE_CPU, 0, code, bits, ndim, shape, NULL, False)


cdef Tensor empty_device(Device device, Stream stream, uint8_t code, uint8_t bits, int ndim, const int64_t* shape):
    cdef Buffer buffer = allocate(device, bytes_of(bits, ndim, shape), stream)
    return make_tensor(buffer, None, <void*>buffer.ptr_, DEVICE_CUDA, device.id, code, bits, ndim, shape, NULL, False)


# The rest of the class: its modules need the type, so they come last.
from madspace.core import _contents, _exports  # no-cython-lint: they put their methods on Tensor
