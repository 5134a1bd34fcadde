"""Arrays of other libraries: they go in as they are, and the output is of the same kind."""

import numpy as np
import pytest
from kda.inputs import BF16, normal_state, packed, upstream
from kda.oracle import kda
from kda.tolerances import check_out, check_state

import madspace

TORCH_DEVICES = [pytest.param("cpu"), pytest.param("cuda", marks=pytest.mark.gpu)]


def to_torch(x, device):
    """Return a NumPy array as a torch tensor; anything else as it is."""
    import torch

    if not isinstance(x, np.ndarray):
        return x
    if x.dtype == BF16:
        return torch.from_numpy(x.view(np.int16)).to(device).view(torch.bfloat16)
    return torch.from_numpy(x).to(device)


@pytest.mark.needs("torch")
@pytest.mark.parametrize("device", TORCH_DEVICES)
@pytest.mark.parametrize("own", [True, False], ids=["out and workspace", "neither"])
def test_torch(device, own):
    import torch

    inputs = packed([17, 33, 65], 4, seed=71) | {"initial_state": normal_state(3, 4)}
    there = {name: to_torch(x, device) for name, x in inputs.items()}
    final = torch.full_like(there["initial_state"], float("nan"))
    if own:
        there["out"] = torch.full_like(there["v"], float("nan"))
        there["workspace"] = madspace.kda.allocate_workspace(there["q"], there["cu_seqlens"])
        assert type(there["workspace"]) is torch.Tensor
        assert there["workspace"].dtype == torch.uint8
    out = madspace.kda.fwd(**there, final_state=final)
    assert type(out) is torch.Tensor
    assert out.dtype == torch.bfloat16
    assert out.device == there["q"].device
    assert not own or out is there["out"]
    reference = kda(**inputs)
    check_out(out.float().cpu().numpy(), reference.out)
    check_state(final.cpu().numpy(), reference.final)


@pytest.mark.gpu
@pytest.mark.needs("torch")
def test_torch_uses_its_current_stream(device):
    """A slow producer on a side stream of torch and its own reader behind: nothing waits on the host."""
    import torch

    inputs = upstream(53, 4, seed=72)
    there = {name: to_torch(x, "cuda") for name, x in inputs.items()}
    warm_up = madspace.kda.fwd(**there) * 1  # whatever is loaded at first use may wait
    late = torch.full_like(there["v"], float("nan"))
    torch.cuda.synchronize()
    del warm_up
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        late.copy_(there["v"])
        out = madspace.kda.fwd(**there | {"v": late}) * 1
    assert not side.query(), "the call must not have waited"
    side.synchronize()
    check_out(out.float().cpu().numpy(), kda(**inputs).out)


@pytest.mark.gpu
@pytest.mark.needs("cupy")
def test_cupy(device):
    """CuPy has no bfloat16 of its own on every version: it brings the states, the offsets and the workspace."""
    import cupy

    inputs = packed([17, 33, 65], 4, seed=73)
    there = {name: madspace.asarray(x, device="cuda") if isinstance(x, np.ndarray) else x for name, x in inputs.items()}
    state, final = cupy.asarray(normal_state(3, 4)), cupy.full((3, 4, 128, 128), cupy.nan, cupy.float32)
    workspace = cupy.full(madspace.kda.get_workspace_size(115, 4, 3), 0xFF, cupy.uint8)
    there["cu_seqlens"] = cupy.asarray(inputs["cu_seqlens"])
    out = madspace.kda.fwd(**there, initial_state=state, final_state=final, workspace=workspace)
    cupy.cuda.Device().synchronize()
    reference = kda(**inputs, initial_state=normal_state(3, 4))
    check_out(out.numpy(), reference.out)
    check_state(cupy.asnumpy(final), reference.final)


def test_tensors_of_the_host():
    """A Tensor on the CPU gives a Tensor."""
    inputs = upstream(20, 2, seed=74)
    there = {name: madspace.asarray(x, device="cpu") if isinstance(x, np.ndarray) else x for name, x in inputs.items()}
    out = madspace.kda.fwd(**there)
    assert type(out) is madspace.Tensor
    check_out(out.numpy(), kda(**inputs).out)
