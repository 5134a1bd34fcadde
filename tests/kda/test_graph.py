"""Captured calls: replays see changed contents, cu_seqlens included, and nothing that memory held before."""

import numpy as np
import pytest
from kda.inputs import BF16, FP32, normal_state, offsets, packed, upstream
from kda.oracle import kda
from kda.places import spoiled
from kda.tolerances import check_out, check_state

import madspace

CALLS = {
    "fixed": lambda seed: upstream(53, 4, seed=seed),
    "batched": lambda seed: upstream(21, 17, batches=2, seed=seed),
    "packed": lambda seed: packed(LENGTHS[seed % 2], 4, seed=seed),
    "packed, one kernel": lambda seed: packed(LENGTHS[seed % 2], 12, seed=seed),
    "decode": lambda seed: upstream(1, 4, batches=3, seed=seed),
}
LENGTHS = ([17, 33, 15], [40, 0, 25])  # the same number and the same total


def with_state(inputs):
    """Return the inputs with a normal initial state."""
    n = len(inputs["cu_seqlens"]) - 1 if "cu_seqlens" in inputs else inputs["v"].shape[0]
    return inputs | {"initial_state": normal_state(n, inputs["v"].shape[2], seed=int(inputs["v"].size % 97))}


@pytest.mark.parametrize("own", [True, False], ids=["workspace", "allocation"])
@pytest.mark.parametrize("name", CALLS)
def test_replay(stream, gpu_place, name, own):
    inputs = with_state(CALLS[name](0))
    there = {key: gpu_place.put(x) for key, x in inputs.items()}
    out = gpu_place.spoiled(inputs["v"].shape, BF16)
    final = gpu_place.spoiled(inputs["initial_state"].shape, FP32)
    workspace = gpu_place.workspace(inputs) if own else None

    def call():
        madspace.kda.fwd(**there, out=out, final_state=final, workspace=workspace, stream=stream)

    call()  # loads the kernels
    stream.synchronize()
    with madspace.capture(stream) as graph:
        call()
    executable = graph.instantiate()
    for seed, poison in ((0, "nan"), (1, "ones"), (2, "zeros"), (3, "noise")):
        inputs = with_state(CALLS[name](seed))
        for key, x in inputs.items():
            if isinstance(x, np.ndarray):
                there[key].copy_from(x, stream=stream)
        for x in (out, final, workspace):
            if x is not None:
                x.copy_from(spoiled(x.shape, x.dtype, poison), stream=stream)
        executable.launch(stream)
        stream.synchronize()
        reference = kda(**inputs)
        check_out(out.numpy(), reference.out)
        check_state(final.numpy(), reference.final)
        assert [out.numpy().tobytes(), final.numpy().tobytes()] == gpu_place.run(inputs).bits()[:2]


def test_a_captured_call_with_workspace_and_out_is_launches_alone(stream, gpu_place):
    for name, make in CALLS.items():
        inputs = make(0)
        there = {key: gpu_place.put(x) for key, x in inputs.items()}
        out, workspace = gpu_place.spoiled(inputs["v"].shape, BF16), gpu_place.workspace(inputs)
        madspace.kda.fwd(**there, out=out, workspace=workspace, stream=stream)
        with madspace.capture(stream) as graph:
            madspace.kda.fwd(**there, out=out, workspace=workspace, stream=stream)
        assert set(graph.node_counts()) == {"kernel"}, name


def test_a_graph_keeps_what_it_reads(stream, gpu_place):
    inputs = upstream(53, 4, seed=61)
    there = {key: gpu_place.put(x) for key, x in inputs.items()}
    madspace.kda.fwd(**there, stream=stream)
    with madspace.capture(stream) as graph:
        out = madspace.kda.fwd(**there, stream=stream)
    there.clear()
    executable = graph.instantiate()
    for _ in range(2):
        executable.launch(stream)
        check_out(out.numpy(), kda(**inputs).out)


@pytest.mark.gpu
@pytest.mark.needs("torch")
def test_graph_of_torch(device):
    import torch

    def tensor(x):
        if x.dtype == BF16:
            return torch.from_numpy(x.view(np.int16)).cuda().view(torch.bfloat16)
        return torch.from_numpy(x).cuda()

    inputs = packed(LENGTHS[0], 4, seed=62)
    there = {key: tensor(x) if isinstance(x, np.ndarray) else x for key, x in inputs.items()}
    out = torch.full_like(there["v"], float("nan"))
    workspace = madspace.kda.allocate_workspace(there["q"], there["cu_seqlens"])
    arguments = there | {"out": out, "workspace": workspace}
    madspace.kda.fwd(**arguments)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        madspace.kda.fwd(**arguments)
    for lengths in (*LENGTHS, [0, 65, 0]):
        there["cu_seqlens"].copy_(torch.from_numpy(offsets(lengths)))
        out.fill_(float("nan"))
        workspace.fill_(0xFF)
        graph.replay()
        torch.cuda.synchronize()
        reference = kda(**inputs | {"cu_seqlens": offsets(lengths)})
        check_out(out.float().cpu().numpy(), reference.out)
