"""The caller's workspace: any content, larger than needed, part of a buffer, used again; the same bits each time."""

import numpy as np
import pytest
from kda.inputs import FP32, normal_state, packed, upstream
from kda.places import POISONS

import madspace

# Every way through a GPU: up to 32 chains, more than these, few tokens.
VARIANTS = {
    "two kernels": lambda: upstream(53, 4, seed=51),
    "two kernels, packed": lambda: packed([17, 0, 33, 1], 4, seed=51),
    "one kernel": lambda: upstream(37, 20, batches=2, seed=51),
    "one kernel, packed": lambda: packed([17, 0, 33, 1], 10, seed=51),
    "decode": lambda: upstream(3, 4, batches=5, seed=51),
    "decode, packed": lambda: packed([1, 2, 0, 4], 4, seed=51),
}


@pytest.fixture(params=VARIANTS)
def inputs(request):
    """Return the inputs of one way, with an initial state."""
    inputs = VARIANTS[request.param]()
    n = len(inputs["cu_seqlens"]) - 1 if "cu_seqlens" in inputs else inputs["v"].shape[0]
    return inputs | {"initial_state": normal_state(n, inputs["v"].shape[2])}


def test_what_memory_held_before_is_never_seen(place, inputs):
    expected = place.run(inputs, workspace=False).bits()
    for poison in POISONS:
        assert place.run(inputs, poison=poison).bits() == expected, poison


def test_two_calls_give_the_same_bits(place, inputs):
    assert place.run(inputs).bits() == place.run(inputs).bits()


def test_workspace_larger_than_needed_and_part_of_a_buffer(place, inputs):
    expected = place.run(inputs).bits()
    for extra in (1, 128, 5000):
        assert place.run(inputs, workspace=place.workspace(inputs, "noise", extra)).bits() == expected
    nbytes = place.workspace(inputs).shape[0]
    buffer = place.spoiled((nbytes + 1024,), np.uint8, "noise")
    for begin in (256, 512):
        part = buffer[begin : begin + nbytes]
        if part_is_aligned(part):
            assert place.run(inputs, workspace=part).bits() == expected


def part_is_aligned(part):
    """Tell whether a part begins where a workspace may; NumPy aligns arrays to 16 bytes only."""
    pointer = part.ctypes.data if isinstance(part, np.ndarray) else part.ptr
    return pointer % 256 == 0


def test_one_workspace_for_many_shapes(place):
    all_inputs = [make() for make in VARIANTS.values()]
    expected = [place.run(x).bits() for x in all_inputs]
    size = max(place.workspace(x).shape[0] for x in all_inputs)
    workspace = place.spoiled((size,), np.uint8, "noise")
    for _ in range(2):
        for x, bits in zip(all_inputs, expected, strict=True):
            assert place.run(x, workspace=workspace).bits() == bits


def test_workspace_object(place, inputs):
    expected = place.run(inputs).bits()
    size = place.workspace(inputs).shape[0]
    with madspace.Workspace(size, place.name) as workspace:
        assert place.run(inputs, workspace=workspace).bits() == expected
        assert place.run(inputs, workspace=workspace).bits() == expected


def test_allocate_workspace_is_large_enough(place, inputs):
    there = place.put(inputs["q"])
    cu_seqlens = inputs.get("cu_seqlens")
    workspace = madspace.kda.allocate_workspace(there, None if cu_seqlens is None else place.put(cu_seqlens))
    assert type(workspace) is type(there)
    assert workspace.dtype == np.uint8
    assert place.run(inputs, workspace=workspace).bits() == place.run(inputs).bits()


def test_overlapping_streams_with_one_workspace_object(device, delay, gpu_place):
    """The second call's records must wait for the first call's scan, which is late."""
    first, second = madspace.Stream(device), madspace.Stream(device)
    one, other = upstream(256, 4, seed=52), upstream(256, 4, seed=53)
    expected = [gpu_place.run(x, final=FP32).bits()[0] for x in (one, other)]
    with madspace.Workspace(gpu_place.workspace(one).shape[0], device) as workspace:
        there = [{name: gpu_place.put(x) for name, x in inputs.items()} for inputs in (one, other)]
        outs = [gpu_place.spoiled(one["v"].shape, one["v"].dtype) for _ in there]
        device.synchronize()
        delay(first, 30)
        for inputs, out, stream in zip(there, outs, (first, second), strict=True):
            madspace.kda.fwd(**inputs, out=out, workspace=workspace, stream=stream)
        assert [x.numpy().tobytes() for x in outs] == expected
