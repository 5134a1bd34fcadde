"""torch, on the host, through its exchange table and through capsules."""

import ctypes
import gc
import weakref
from ctypes import POINTER, byref, c_void_p

import numpy as np
import pytest
from dlpack_structs import DLTensor, Versioned, delete, read, table_of, take

from madspace.core.creation import asarray, from_dlpack, zeros
from madspace.core.tensor import Tensor

pytestmark = pytest.mark.needs("torch")


@pytest.fixture
def torch():
    import torch

    return torch


DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "bfloat16",
]
FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]


def test_the_table_of_torch_is_as_we_describe_it(torch):
    table = table_of(torch.Tensor)
    assert table.major == 1
    assert table.prev_api is None
    source = torch.arange(6.0).reshape(2, 3)
    out = POINTER(Versioned)()
    assert table.from_object(source, byref(out)) == 0
    managed = out.contents
    assert managed.major == 1
    assert read(managed.tensor).tolist() == source.tolist()
    delete(managed)
    view = DLTensor()
    assert table.borrow(source, byref(view)) == 0
    assert view.data == source.data_ptr()
    stream = c_void_p()
    assert table.current_stream(1, 0, byref(stream)) == 0


@pytest.mark.parametrize("name", DTYPES + FLOAT8)
def test_types_in_and_out(torch, name):
    dtype = getattr(torch, name)
    source = torch.ones(2, 3).to(dtype)
    tensor = asarray(source)
    assert tensor.dtype.name == name
    assert tensor.shape == (2, 3)
    assert tensor.ptr == source.data_ptr()
    back = tensor.torch()
    assert back.dtype == dtype
    assert back.data_ptr() == source.data_ptr()
    if tensor.itemsize > 1:
        assert tensor.numpy().astype("c16").real.tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize("through", ["table", "capsule"])
@pytest.mark.parametrize(
    "view",
    [
        lambda t: t,
        lambda t: t[1:, ::2],
        lambda t: t.T,
        lambda t: t[1, 2],
        lambda t: t[:0],
        lambda t: t[:, :1].expand(4, 5),
        lambda t: t.reshape(2, 1, 12),
    ],
    ids=["whole", "sliced", "transposed", "scalar", "empty", "expanded", "reshaped"],
)
def test_views_come_in_as_they_are(torch, through, view):
    source = view(torch.arange(24.0).reshape(4, 6))
    tensor = asarray(source) if through == "table" else from_dlpack(Capsule(source))
    assert tensor.shape == tuple(source.shape)
    assert tensor.ptr == (source.data_ptr() if source.numel() else 0)
    assert tensor.is_contiguous == source.is_contiguous()
    assert tensor.numpy().tolist() == source.tolist()
    assert tensor.torch().tolist() == source.tolist()


class Capsule:
    """A torch tensor of which only __dlpack__ is seen."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.is_conj, self.is_neg = tensor.is_conj, tensor.is_neg

    def __dlpack_device__(self):
        return tuple(map(int, self.tensor.__dlpack_device__()))

    def __dlpack__(self, **keywords):
        return self.tensor.__dlpack__(**keywords)


def test_memory_is_shared_and_kept(torch):
    source = torch.zeros(4)
    tensor = asarray(source)
    source[1] = 3.0
    assert tensor.numpy().tolist() == [0.0, 3.0, 0.0, 0.0]
    view = tensor.numpy()
    del source, tensor
    gc.collect()
    assert view.tolist() == [0.0, 3.0, 0.0, 0.0]


def test_torch_keeps_the_tensor(torch):
    tensor = zeros(4)
    alive = weakref.ref(tensor)
    taken = tensor.torch()
    taken[2] = 5.0
    assert tensor.numpy()[2] == 5.0
    del tensor
    gc.collect()
    assert alive() is not None
    del taken
    gc.collect()
    assert alive() is None


def test_torch_never_sees_negative_strides(torch):
    tensor = asarray(np.arange(3.0)[::-1])
    for convert in (tensor.torch, lambda: torch.from_dlpack(tensor)):
        with pytest.raises(BufferError, match="expected no negative stride"):
            convert()


def test_no_reference_is_lost(torch):
    tensor = zeros(4)
    alive = weakref.ref(tensor)
    taken = tensor.torch()
    del tensor
    for _ in range(100):
        taken = asarray(taken).torch()
        taken = take(table_of(torch.Tensor), managed_from(torch, taken))
        from_dlpack(Capsule(taken))
    gc.collect()
    assert alive() is not None
    del taken
    gc.collect()
    assert alive() is None


def managed_from(torch, source):
    out = POINTER(Versioned)()
    assert table_of(torch.Tensor).from_object(source, byref(out)) == 0
    return out.contents


def test_our_tensors_become_torchs_by_the_tables(torch):
    out = POINTER(Versioned)()
    tensor = asarray(np.arange(6.0).reshape(2, 3))
    assert table_of(Tensor).from_object(tensor, byref(out)) == 0
    taken = take(table_of(torch.Tensor), out.contents)
    assert isinstance(taken, torch.Tensor)
    assert taken.data_ptr() == tensor.ptr
    assert taken.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_torchs_allocator_serves(torch):
    from dlpack_structs import SET_ERROR, DLDataType, DLDevice

    lengths = (ctypes.c_int64 * 2)(2, 3)
    prototype = DLTensor(None, DLDevice(1, 0), 2, DLDataType(2, 32, 1), lengths, None, 0)
    out = POINTER(Versioned)()
    assert table_of(torch.Tensor).allocate(byref(prototype), byref(out), None, SET_ERROR(lambda *_: None)) == 0
    tensor = take(table_of(Tensor), out.contents)
    assert (tensor.shape, tensor.dtype) == ((2, 3), np.float32)
    tensor.numpy()[:] = 1.0
    assert tensor.torch().sum() == 6.0


def test_torch_may_fill_in_place(torch):
    tensor = zeros((2, 3))
    tensor.copy_from(torch.arange(6.0, dtype=torch.float64).reshape(3, 2).T)
    assert tensor.numpy().tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]


@pytest.mark.parametrize("through", ["table", "capsule"])
@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.conj(),
        lambda t: t.conj()[1:],
        lambda t: t.conj().imag,
        lambda t: t.conj().imag[::3],
        lambda t: t.conj().imag[0],
        lambda t: t.conj().reshape(2, 3).T.imag,
    ],
    ids=["conj", "sliced conj", "neg", "strided neg", "scalar neg", "transposed neg"],
)
def test_lazy_views_are_refused(torch, through, view):
    lazy = view(torch.arange(6.0).to(torch.complex128) * 1j)
    assert lazy.is_conj() or lazy.is_neg()
    with pytest.raises(BufferError, match=r"resolve_conj|conjugate bit"):
        asarray(lazy if through == "table" else Capsule(lazy))
    resolved = lazy.resolve_conj().resolve_neg()
    assert asarray(resolved).numpy().tolist() == lazy.tolist()


@pytest.mark.parametrize("view", [lambda t: t, lambda t: t.real, lambda t: t.imag, lambda t: t[::2]])
def test_complex_views_that_are_in_memory_come_in(torch, view):
    source = view(torch.arange(6.0).to(torch.complex64) * (1 + 2j))
    assert asarray(source).numpy().tolist() == source.tolist()
