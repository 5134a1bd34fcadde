"""Workspaces of torch's memory."""

import gc

import pytest
import scratch_op

from madspace.core.stream import to_stream
from madspace.core.workspace import Workspace, take_workspace

pytestmark = pytest.mark.needs("torch")

N = scratch_op.N
CYCLES = 50_000_000  # of torch.cuda._sleep: some 30 ms


@pytest.fixture
def torch():
    import torch

    return torch


def test_host_tensors(torch):
    source = torch.zeros(2, N, dtype=torch.uint8)
    workspace = Workspace.wrap(source)
    assert (workspace.ptr, workspace.nbytes, workspace.device) == (source.data_ptr(), 2 * N, "cpu")
    workspace.tensor().numpy()[:] = 7
    assert source.unique().tolist() == [7]
    del source
    gc.collect()
    assert workspace.tensor().numpy().sum() == 14 * N


def test_what_is_refused_is_told_in_the_words_of_torch(torch, device):
    with pytest.raises(RuntimeError, match="workspace: expected dtype uint8, got float32"):
        take_workspace(torch.zeros(8))
    with pytest.raises(RuntimeError, match="contiguous"):
        take_workspace(torch.zeros(8, 8, dtype=torch.uint8)[:, ::2])
    host = take_workspace(torch.zeros(N, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="CUDA tensor"):
        host.check(device, N)
    with pytest.raises(RuntimeError, match=f"too small: expected at least {N + 1} bytes, got {N}"):
        host.check(None, N + 1)


@pytest.mark.gpu
@pytest.mark.parametrize("take", [Workspace.wrap, None], ids=["wrapped", "plain"])
def test_device_tensors_come_behind_torch(torch, stream, take):
    source = torch.zeros(2 * N, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(CYCLES)
        source.fill_(1)
        workspace = source if take is None else take(source)
        scratch_op.run(workspace, 2, stream)
    assert scratch_op.content(source.data_ptr()) == 2
    assert source[N:].unique().tolist() == [1]


@pytest.mark.gpu
def test_torch_does_not_reuse_the_memory_too_early(torch, stream, block, delay):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        source = torch.zeros(N, dtype=torch.uint8, device="cuda")
        workspace = Workspace.wrap(source)
        delay(stream)
        scratch_op.run(workspace, 2, stream, int(block.ptr))
        del source
        workspace.close()
        torch.full((N,), 9, dtype=torch.uint8, device="cuda")  # most likely in the same place
    assert scratch_op.content(int(block.ptr)) == 2


@pytest.mark.gpu
def test_a_capture_of_torch(torch, device):
    workspace = Workspace(N, device)
    out = torch.zeros(N, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scratch_op.run(workspace, 5, to_stream(torch.cuda.current_stream()), out.data_ptr())
    graph.replay()
    torch.cuda.synchronize()
    assert out.unique().tolist() == [5]
