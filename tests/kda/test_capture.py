"""fwd in CUDA graphs: captured as it is, replayed with other contents, in order with what shares its memory."""

import numpy as np
import pytest
from kda import oracle
from kda.inputs import BF16, draw

import madspace
from madspace import Stream, Workspace, kda

OUT, STATE = 4e-3, 3e-3


@pytest.fixture
def loaded(device, kda_kernels):
    """Load the kernels, which no capture may do."""
    madspace.preload(device)


def buffers(device, b, t, n, h=1):
    """Return what a call needs to allocate nothing."""
    return {
        "out": madspace.zeros((b, t, h, 64), BF16, device=device),
        "final_state": madspace.zeros((n, h, 64, 64), np.float32, device=device),
        "workspace": Workspace(kda.get_workspace_size(b * t, h, n), device),
    }


def fill(arrays, x):
    for name, array in arrays.items():
        if isinstance(array, madspace.Tensor):
            array.copy_from(x[name])


@pytest.mark.parametrize("shape", [(1, 50), (3, 20), (2, 3)], ids=["fixed", "batched", "decode"])
def test_replay_with_other_contents(loaded, gpu_place, device, stream, shape):
    b, t = shape
    x = gpu_place.put(draw(b=b, t=t))
    given = buffers(device, b, t, b)
    with madspace.capture(stream) as graph:
        assert kda.fwd(**x, **given, stream=stream) is given["out"]
    assert graph.node_counts() == {"kernel": 1 if t <= 4 else 2}
    executable = graph.instantiate()
    for seed in (7, 8):
        new = draw(b=b, t=t, seed=seed)
        fill(x, new)
        executable.launch(stream)
        expected = oracle.kda(**new)
        assert oracle.relative_l2(given["out"].numpy(), expected.out) < OUT
        assert oracle.relative_l2(given["final_state"].numpy(), expected.final) < STATE


def test_replay_with_other_lengths(loaded, gpu_place, device, stream):
    x = draw(t=60)
    there = gpu_place.put(x)
    given = buffers(device, 1, 60, 3)
    offsets = gpu_place.put(np.array([0, 20, 40, 60], np.int32))
    with madspace.capture(stream) as graph:
        kda.fwd(**there, **given, cu_seqlens=offsets, stream=stream)
    executable = graph.instantiate()
    for lengths in ([20, 20, 20], [1, 0, 59], [0, 60, 0]):
        ends = np.cumsum([0, *lengths]).astype(np.int32)
        offsets.copy_from(ends)
        executable.launch(stream)
        expected = oracle.kda(**x, cu_seqlens=ends)
        assert oracle.relative_l2(given["out"].numpy(), expected.out) < OUT
        assert oracle.relative_l2(given["final_state"].numpy(), expected.final) < STATE


def test_nothing_is_made_in_a_capture(fake, loaded, gpu_place, device, stream):
    x, given = gpu_place.put(draw(t=50)), buffers(device, 1, 50, 1)
    with madspace.capture(stream):
        kda.fwd(**x, **given, stream=stream)  # a workspace has one event for captures, made in its first one
        fake.clear_log()
        kda.fwd(**x, **given, stream=stream)
        names = fake.names()
    assert not any("Alloc" in name or "EventCreate" in name or "Sync" in name for name in names)


def test_two_calls_share_a_workspace_in_one_capture(loaded, gpu_place, device, stream):
    """On two streams of the capture: the second comes behind the first."""
    x = [draw(t=50, seed=seed) for seed in (1, 2)]
    there = [gpu_place.put(y) for y in x]
    given = [buffers(device, 1, 50, 1) for _ in x]
    given[1]["workspace"] = given[0]["workspace"]
    side = Stream(device)
    with madspace.capture(stream) as graph:
        side.wait(stream)
        kda.fwd(**there[0], **given[0], stream=stream)
        kda.fwd(**there[1], **given[1], stream=side)
        stream.wait(side)
    graph.instantiate().launch(stream)
    for y, target in zip(x, given, strict=True):
        assert oracle.relative_l2(target["out"].numpy(), oracle.kda(**y).out) < OUT


def test_a_capture_may_allocate(loaded, gpu_place, device, stream):
    x = draw(t=50)
    there = gpu_place.put(x)
    with madspace.capture(stream) as graph:
        result = kda.fwd(**there, stream=stream)
    there.clear()
    executable = graph.instantiate()
    for _ in range(2):
        executable.launch(stream)
        assert oracle.relative_l2(result.numpy(), oracle.kda(**x).out) < OUT


def test_validation_is_refused_in_a_capture(loaded, gpu_place, device, stream):
    x, given = gpu_place.put(draw(t=50)), buffers(device, 1, 50, 1)
    offsets = madspace.asarray(np.array([0, 50]), device=device, stream=stream)
    with madspace.capture(stream) as graph:
        with pytest.raises(madspace.CaptureError):
            kda.fwd(**x, **given, cu_seqlens=offsets, validate=True, stream=stream)
        kda.fwd(**x, **given, cu_seqlens=offsets, stream=stream)
    assert graph.node_counts() == {"kernel": 2}
