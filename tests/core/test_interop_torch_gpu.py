"""torch on a GPU: whose stream is used, and who waits for whom."""

import gc
from ctypes import POINTER, byref

import numpy as np
import pytest
from dlpack_structs import Versioned, table_of, take

import madspace
from madspace.core.creation import asarray, from_dlpack, zeros
from madspace.core.stream import Stream
from madspace.core.tensor import Tensor

pytestmark = [pytest.mark.needs("torch"), pytest.mark.gpu]

N = 1 << 20
CYCLES = 50_000_000  # of torch.cuda._sleep: some 30 ms


@pytest.fixture
def torch():
    import torch

    return torch


@pytest.fixture
def side(torch):
    """Return a stream of torch that is not its default one."""
    return torch.cuda.Stream()


def test_memory_is_shared(torch, device):
    source = torch.arange(6.0, device="cuda").reshape(2, 3)[:, ::2]
    tensor = asarray(source)
    assert tensor.device is device
    assert tensor.ptr == source.data_ptr()
    assert (tensor.shape, tensor.strides) == ((2, 2), (3, 2))
    assert tensor.numpy().tolist() == [[0.0, 2.0], [3.0, 5.0]]
    back = tensor.torch()
    assert back.data_ptr() == source.data_ptr()
    assert back.device == source.device


def test_byte_offsets_of_torch(torch):
    base = torch.arange(100.0, device="cuda")
    for source in (base[7:], base[10:].clone()[3:]):
        assert asarray(source).ptr == source.data_ptr()
        assert from_dlpack(source).numpy().tolist() == source.tolist()


def test_the_stream_is_that_of_torch(torch, device, side):
    source = torch.zeros(3, device="cuda")
    assert asarray(source).stream.handle == 1  # torch works on the legacy default stream
    with torch.cuda.stream(side):
        assert asarray(source).stream.handle == side.cuda_stream
    own = Stream(device)
    assert asarray(source, stream=own).stream is own


class Capsule:
    """A torch tensor of which only __dlpack__ is seen."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return tuple(map(int, self.tensor.__dlpack_device__()))

    def __dlpack__(self, **keywords):
        return self.tensor.__dlpack__(**keywords)


@pytest.mark.parametrize("through", ["table", "capsule", "interface"])
def test_our_stream_waits_for_torch(torch, stream, side, through):
    class Interface:
        def __init__(self, tensor):
            self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "stream": side.cuda_stream}
            self.tensor = tensor

    source = torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(CYCLES)
        source.fill_(1.0)
        wrap = {"table": lambda t: t, "capsule": Capsule, "interface": Interface}[through]
        tensor = asarray(wrap(source), stream=stream)
    assert tensor.numpy().sum() == N


def test_torch_waits_for_our_stream(torch, device, stream, delay, side):
    tensor = zeros(N, "f4", device=device)
    ones = asarray(np.ones(N, "f4"), device, stream=stream)
    delay(stream)
    tensor.copy_from(ones, stream=stream)
    with torch.cuda.stream(side):
        assert tensor.torch().sum().item() == N


@pytest.mark.parametrize("kind", ["ours", "torchs"])
def test_a_block_is_in_order_with_torch_on_both_sides(torch, device, side, kind):
    chosen = Stream(device) if kind == "ours" else side
    source = torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    torch.cuda._sleep(CYCLES)
    source.fill_(1.0)
    with madspace.stream(chosen) as stream:
        tensor = asarray(source)
        assert tensor.stream is stream
        copy = tensor.copy()
    assert copy.torch().sum().item() == N


def test_our_memory_is_not_reused_under_torch(torch, device, delay, side):
    tensor = asarray(np.ones(N, "f4"), device)
    with torch.cuda.stream(side):
        taken = tensor.torch()
        torch.cuda._sleep(CYCLES)
        total = taken.sum()
        del tensor, taken
        gc.collect()
    reused = zeros(N, "f4", device=device)
    with torch.cuda.stream(side):  # nothing else is behind the sum
        assert total.item() == N
    assert reused.numpy().sum() == 0.0


def test_torchs_memory_is_not_reused_under_us(torch, device, stream, delay):
    target = zeros(N, "f4", device=device, stream=stream)
    tensor = asarray(torch.ones(N, device="cuda"), stream=stream)
    delay(stream)
    target.copy_from(tensor, stream=stream)
    del tensor
    gc.collect()
    torch.zeros(N, device="cuda")  # most likely in the same place
    assert target.numpy().sum() == N


@pytest.mark.needs("ml_dtypes")
@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e4m3fn"])
def test_small_floats(torch, name):
    source = torch.arange(4.0, device="cuda").to(getattr(torch, name))
    tensor = asarray(source)
    assert tensor.dtype.name == name
    assert tensor.numpy().astype("f4").tolist() == [0.0, 1.0, 2.0, 3.0]
    assert tensor.torch().dtype == source.dtype


def test_torchs_own_tensors_come_out_of_its_table(torch, device):
    out = POINTER(Versioned)()
    tensor = asarray(np.arange(3.0), device)
    device.synchronize()  # the table tells the device's own stream, for which torch does not wait by itself
    assert table_of(Tensor).from_object(tensor, byref(out)) == 0
    assert take(table_of(torch.Tensor), out.contents).tolist() == [0.0, 1.0, 2.0]
