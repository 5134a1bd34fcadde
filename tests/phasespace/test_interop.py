"""map_forward on arrays of other libraries, which come back as their own kind."""

import ctypes
import sys

import numpy as np
import pytest
from chain_points import randoms
from dlpack_structs import Table, new_capsule, table_of

import madspace
from madspace import TPropagatorMapping

MAPPING = TPropagatorMapping([0, 1], 0.8)


def host_inputs(n=500):
    return [*randoms(3, n, 21), np.full(n, 500.0), np.full(n, 173.0), np.full(n, 100.0), np.zeros(n)]


def check(result):
    for x, y in zip(result, MAPPING.map_forward(host_inputs()), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12 * 500)


@pytest.mark.needs("torch")
def test_torch_on_the_cpu():
    import torch

    result = MAPPING.map_forward([torch.from_numpy(x) for x in host_inputs()])
    assert all(type(x) is torch.Tensor for x in result)
    check([x.numpy() for x in result])
    table = torch.zeros(500, 5, 4, dtype=torch.float64)
    MAPPING.map_forward([torch.from_numpy(x) for x in host_inputs()], out=[*table.unbind(1), None])
    np.testing.assert_array_equal(table[:, 3].numpy(), result.momentum3.numpy())


@pytest.mark.gpu
@pytest.mark.needs("torch")
def test_torch_uses_its_current_stream(device):
    """A slow producer on a side stream of torch, and torch's own reader behind: no synchronisation anywhere."""
    import torch

    inputs = [torch.from_numpy(x).cuda() for x in host_inputs()]
    late = [torch.full_like(x, float("nan")) for x in inputs]
    warm_up = [x * 1.0 for x in MAPPING.map_forward(inputs)]  # whatever is loaded at first use may wait
    torch.cuda.synchronize()
    del warm_up
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        for x, y in zip(late, inputs, strict=True):
            x.copy_(y)
        result = MAPPING.map_forward(late)
        del late
        scratch = [torch.full_like(x, float("nan")) for x in inputs]
        sums = [x * 1.0 for x in result]
    assert not side.query(), "the call must not have waited"
    side.synchronize()
    del scratch
    assert all(type(x) is torch.Tensor and x.is_cuda for x in result)
    check([x.cpu().numpy() for x in sums])


@pytest.mark.gpu
@pytest.mark.needs("torch")
@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
@pytest.mark.parametrize("with_out", [True, False], ids=["out", "new"])
def test_torch_graph_capture(device, mode, with_out):
    """What torch captures is replayed on other inputs; without out= the results are torch's, from its graph's pool."""
    import torch

    inputs = [torch.from_numpy(x).cuda() for x in host_inputs()]
    late = [torch.full_like(x, 0.5) for x in inputs]
    out = None
    if with_out:
        out = [torch.zeros(500, 4, dtype=torch.float64, device="cuda") for _ in range(5)]
        out.append(torch.zeros(500, dtype=torch.float64, device="cuda"))
    MAPPING.map_forward(late, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        results = MAPPING.map_forward(late, out=out)
        sums = [x * 1.0 for x in results]
    assert all(type(x) is torch.Tensor and x.is_cuda for x in results)
    for x, y in zip(late, inputs, strict=True):
        x.copy_(y)
    for _ in range(2):
        for x in (*results, *sums):
            x.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        check([x.cpu().numpy() for x in results])
        check([x.cpu().numpy() for x in sums])


@pytest.mark.gpu
@pytest.mark.needs("cupy")
def test_cupy(device):
    import cupy

    result = MAPPING.map_forward([cupy.asarray(x) for x in host_inputs()])
    assert all(isinstance(x, cupy.ndarray) for x in result)
    check([cupy.asnumpy(x) for x in result])


@pytest.mark.gpu
@pytest.mark.needs("jax")
def test_jax(device):
    import jax

    with jax.enable_x64(True):
        inputs = [jax.numpy.asarray(x) for x in host_inputs()]
        result = MAPPING.map_forward(inputs)
        assert all(isinstance(x, jax.Array) for x in result)
        check([np.asarray(x) for x in result])


class Library:
    """A package of arrays on the host, as JAX's: DLPack and a from_dlpack, no exchange table."""

    class Array:
        def __init__(self, array):
            self.array = array

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        def __dlpack__(self, **keywords):
            return self.array.__dlpack__(**keywords)

    @staticmethod
    def from_dlpack(tensor):
        return Library.Array(tensor.numpy())


def test_arrays_of_the_host_come_back_as_their_own_kind(monkeypatch):
    monkeypatch.setitem(sys.modules, "some_library", Library)
    monkeypatch.setattr(Library.Array, "__module__", "some_library.arrays")
    result = MAPPING.map_forward([Library.Array(x) for x in host_inputs()])
    assert all(type(x) is Library.Array for x in result)
    check([x.array for x in result])
    for kind in (np.asarray, memoryview):
        assert all(type(x) is np.ndarray for x in MAPPING.map_forward([kind(x) for x in host_inputs(3)]))


def test_a_library_that_refuses_a_result_is_quoted(fake):
    theirs, table, fields = table_of(madspace.Tensor), Table(), dict(Table._fields_)
    ctypes.memmove(ctypes.byref(table), ctypes.byref(theirs), ctypes.sizeof(table))
    table.borrow = fields["borrow"](lambda array, out: theirs.borrow(array.tensor, out))
    table.from_object = fields["from_object"](lambda array, out: theirs.from_object(array.tensor, out))
    table.to_object = ctypes.cast(fake.lib.fake_refuse, fields["to_object"])

    class Array:
        __dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(table), b"dlpack_exchange_api", None)

        def __init__(self, array):
            self.tensor = madspace.asarray(array)

    with pytest.raises(madspace.MadspaceError, match="could not take over a result: no room left") as caught:
        MAPPING.map_forward([Array(x) for x in host_inputs()])
    assert type(caught.value.__cause__) is ValueError
