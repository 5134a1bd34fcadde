"""What a Tensor hands to other libraries: DLPack capsules, the CUDA array interface, torch.

Importing this module puts the methods on the type; tensor.pyx does.
"""
from cuda.bindings.cydriver cimport CUstream
from libc.stdint cimport uint64_t, uintptr_t

from madspace.core._attach cimport attach, attach_methods
from madspace.core._dlpack_abi cimport DEVICE_CPU, DEVICE_CUDA, DLTensor, FLAG_COPIED, FLAG_READ_ONLY
from madspace.core._dtypes cimport CODE_BFLOAT, CODE_FLOAT8_FIRST, CODE_FLOAT8_LAST, dtype_name, typestr_of
from madspace.core._managed cimport lend, new_capsule
from madspace.core.device cimport get_device
from madspace.core.stream cimport Stream, told_by_handle
from madspace.core.tensor cimport Tensor, open_stream

import importlib
import operator


def __dlpack_device__(Tensor self not None):
    """Give DLPack's device pair: (1, 0) on the host, (2, ordinal) on a device."""
    return self.device_type_, self.device_id_


def __dlpack__(Tensor self not None, *, stream=None, max_version=None, dl_device=None, copy=None):
    """
    Export as a DLPack capsule.

    Parameters
    ----------
    stream : int, optional
        The consumer's stream, which waits on the device for the last write: 1 the legacy default, 2 the
        per-thread default, above 2 a handle, -1 for no ordering. None means 1. On the host None alone.
    max_version : (int, int), optional
        Newest DLPack version that the consumer reads. None or a major of 0 gives the old structure.
    dl_device : (int, int), optional
        Where the export must lie: the tensor's own device, or (1, 0) for a copy on the host, for which the call
        waits.
    copy : bool, optional
        True: always a copy. False: never. None: only where `dl_device` needs it.

    Raises
    ------
    BufferError
        For a negative stride, a `dl_device` that is neither of these, or a read-only tensor in the old structure.
    ValueError
        For a `stream` that is 0, below -1 or given for the host, and for ``copy=False`` where a copy is needed.

    Notes
    -----
    Asynchronous but for a device's copy on the host. When the capsule's tensor is deleted the consumer's stream
    is noted as a user, and the memory is reused only behind its work: the handle must be alive until then.
    """
    cdef Tensor source = self
    cdef Stream consumer = None
    cdef bint versioned = max_version is not None and pair_of(max_version, "max_version")[0] >= 1
    cdef uint64_t flags = 0
    own = (self.device_type_, self.device_id_)
    target = own if dl_device is None else pair_of(dl_device, "dl_device")
    if target != own and target != (DEVICE_CPU, 0):
        raise BufferError(f"dl_device: expected {own} or (1, 0), got {target}")
    to_host = target != own
    if to_host and copy is not None and not copy:
        raise ValueError(f"copy: expected None or True for an export from {own} to the host, got False")
    if target[0] == DEVICE_CPU:
        if stream is not None:
            raise ValueError(f"stream: expected None for an export on the host, got {stream!r}")
    else:
        consumer = consumer_stream(self, stream)
    if to_host or copy:
        source = self.host_copy() if consumer is None and target[0] == DEVICE_CPU else (
            self.device_copy(get_device(self.device_id_), consumer or open_stream(self)))
        flags = FLAG_COPIED
    return export_capsule(source, consumer, versioned, flags)


def cuda_array_interface(Tensor self not None):
    """Version 3, with the stream that the last write is ordered on; device memory of NumPy's own types alone."""
    if self.device_type_ != DEVICE_CUDA:
        raise AttributeError("__cuda_array_interface__: expected device memory, got a tensor on the cpu")
    if self.code_ == CODE_BFLOAT or CODE_FLOAT8_FIRST <= self.code_ <= CODE_FLOAT8_LAST:
        raise AttributeError(f"__cuda_array_interface__ has no word for {dtype_name(self.code_, self.bits_)}: "
                             "use __dlpack__")
    cdef Stream stream = self.work_stream()
    self.before(stream, False)
    cdef int itemsize = self.bits_ // 8
    strides = None
    if not self.contiguous():
        strides = tuple([self.strides_[i] * itemsize for i in range(self.ndim_)])
    return {
        "shape": self.shape,
        "strides": strides,
        "typestr": typestr_of(self.code_, self.bits_),
        "data": (<uintptr_t>self.data_, self.readonly_),
        "version": 3,
        "stream": <uintptr_t>stream.handle_,
    }


def array_interface(Tensor self not None):
    """NumPy's own protocol, version 3; host memory of NumPy's own types alone."""
    if self.device_type_ != DEVICE_CPU:
        raise AttributeError("__array_interface__: expected host memory, got a tensor on a device: call numpy()")
    if self.code_ == CODE_BFLOAT or CODE_FLOAT8_FIRST <= self.code_ <= CODE_FLOAT8_LAST:
        raise AttributeError(f"__array_interface__ has no word for {dtype_name(self.code_, self.bits_)}: use numpy()")
    cdef int itemsize = self.bits_ // 8
    return {
        "shape": self.shape,
        "strides": tuple([self.strides_[i] * itemsize for i in range(self.ndim_)]),
        "typestr": typestr_of(self.code_, self.bits_),
        "data": (<uintptr_t>self.data_, self.readonly_),
        "version": 3,
    }


def torch(Tensor self not None):
    """
    Give the tensor to torch, without a copy.

    Returns
    -------
    torch.Tensor, shape, dtype and device as this tensor's
        Shares the memory. torch has no read-only tensors: writing to one made of a read-only tensor is an error
        that nobody reports.

    Raises
    ------
    ImportError
        If torch is not installed.
    BufferError
        If a stride is negative.

    Notes
    -----
    Asynchronous: torch's current stream waits, on the device, for the last write.
    """
    # Asked for by name; nothing else here depends on it.
    return importlib.import_module("torch").from_dlpack(self)


cdef tuple pair_of(object value, str name):
    try:
        first, second = value
        return operator.index(first), operator.index(second)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected a pair of ints, got {value!r}") from None


cdef Stream consumer_stream(Tensor tensor, object stream):
    cdef Stream consumer
    if isinstance(stream, bool) or not (stream is None or hasattr(stream, "__index__")):
        raise TypeError(f"stream: expected an int (-1, 1, 2 or a handle) or None, got {stream!r}")
    handle = 1 if stream is None else operator.index(stream)
    if handle == 0 or handle < -1:
        raise ValueError("stream: expected -1, 1, 2, a handle or None "
                         f"(0 does not tell the legacy from the per-thread default stream), got {handle}")
    if handle == -1:
        return None
    consumer = told_by_handle(get_device(tensor.device_id_), <CUstream><uintptr_t>handle, None)
    return consumer


cdef object export_capsule(Tensor tensor, Stream consumer, bint versioned, uint64_t flags):
    cdef DLTensor view
    cdef object owner = tensor
    tensor.describe(&view)
    if tensor.readonly_:
        if not versioned:
            raise BufferError("max_version: expected at least (1, 0) for a read-only tensor, got an older version")
        flags |= FLAG_READ_ONLY
    if consumer is not None:
        tensor.before(consumer, not tensor.readonly_)
        owner = lend(tensor, tensor.memory(), consumer, not tensor.readonly_)
    return new_capsule(&view, owner, flags, versioned)


attach_methods(Tensor, (__dlpack_device__, __dlpack__, torch))
attach(Tensor, "__array_interface__", property(array_interface))
attach(Tensor, "__cuda_array_interface__", property(cuda_array_interface))
