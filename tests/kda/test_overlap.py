"""Arrays that share memory: refused where one of them is written, but for a state that is updated in place."""

from types import SimpleNamespace

import numpy as np
import pytest
from kda.inputs import BF16, draw

from madspace import kda


@pytest.mark.parametrize("name", ["q", "k", "v", "g"])
def test_out_is_no_input(place, name):
    x = place.put(draw(t=20))
    with pytest.raises(ValueError, match=f"out: expected memory of its own, got memory shared with {name}"):
        kda.fwd(**x, out=x[name])


def test_out_beside_its_inputs_in_one_buffer(place):
    x = draw(t=20)
    table = place.put(np.zeros((1, 20, 3, 64), BF16))
    other = place.put({name: a for name, a in x.items() if name not in ("q", "k")})
    kda.fwd(table[:, :, :1], table[:, :, 1:2], **other)  # columns of one table
    block = place.put(np.zeros((4, 20, 1, 64), BF16))
    kda.fwd(block[:1], block[1:2], **other, out=block[3:])
    with pytest.raises(ValueError, match="out: expected memory of its own, got memory shared with k"):
        kda.fwd(block[:1], block[1:2], **other, out=block[1:2])


def test_out_in_a_gap_of_an_input(place):
    x = place.put(draw(b=2, t=20))
    block = place.put(np.zeros((6, 20, 1, 64), BF16))
    del x["q"]
    kda.fwd(block[::4], **x, out=block[1:3])  # batches 0 and 4, and between them
    with pytest.raises(ValueError, match="shared with q"):
        kda.fwd(block[::4], **x, out=block[3:5])
    with pytest.raises(ValueError, match="shared with q"):
        kda.fwd(block[::2][:2], **x, out=block[1:3])


def test_out_under_an_array_of_all_kinds_of_strides():
    x = draw(b=2, t=6, hk=2)
    memory = np.zeros(2 * 6 * 2 * 64 * 4, BF16)
    x["q"] = memory.reshape(2, 6, 2, 4, 64)[:, ::-1, ::-1, 1]
    kda.fwd(**x)
    for start in (64, 64 * 8 + 64):
        with pytest.raises(ValueError, match="out: expected memory of its own, got memory shared with q"):
            kda.fwd(**x, out=memory[start : start + x["q"].size].reshape(x["q"].shape))
    x["q"] = memory.reshape(2, 24, 2, 64)[:, 5::-1]  # the first quarter of each half
    kda.fwd(**x, out=memory[6 * 128 : 18 * 128].reshape(2, 6, 2, 64))
    with pytest.raises(ValueError, match="shared with q"):
        kda.fwd(**x, out=memory[5 * 128 : 17 * 128].reshape(2, 6, 2, 64))


def test_states(place):
    x = place.put(draw(b=2, t=20, hk=1))
    pool = place.put(np.zeros((3, 1, 64, 64), np.float32))
    kda.fwd(**x, initial_state=pool[:2], final_state=pool[:2])
    with pytest.raises(ValueError, match="final_state: expected memory of its own, got memory shared with initial_st"):
        kda.fwd(**x, initial_state=pool[:2], final_state=pool[1:])
    marks = {
        "intermediate_tokens": place.put(np.array([16])),
        "intermediate_offsets": place.put(np.array([0, 1, 1])),
    }
    kda.fwd(**x, final_state=pool[:2], intermediate_state=pool[2:], **marks)
    for name in ("initial_state", "final_state"):
        with pytest.raises(ValueError, match=f"intermediate_state: expected .*, got memory shared with {name}"):
            kda.fwd(**x, **{name: pool[:2]}, intermediate_state=pool[1:2], **marks)


def test_gate_parameters(place):
    x = draw(t=20, d=64)
    state = place.put(np.zeros((1, 1, 64, 64), np.float32))
    x = place.put(x) | {"dt_bias": state[0, 0, :1]}
    with pytest.raises(ValueError, match="final_state: expected memory of its own, got memory shared with dt_bias"):
        kda.fwd(**x, final_state=state)


def test_the_workspace(place):
    nbytes = kda.get_workspace_size(1, 1)
    memory = place.put(np.zeros((nbytes // 128 + 4, 1, 1, 64), BF16))
    x = place.put(draw(t=1))
    workspace = bytes_of(memory)
    for inside in (0, nbytes // 128 - 1):
        q = memory[inside : inside + 1]
        with pytest.raises(ValueError, match="workspace: expected memory of its own, got memory shared with q"):
            kda.fwd(**(x | {"q": q}), workspace=workspace)
        with pytest.raises(ValueError, match="workspace: expected memory of its own, got memory shared with out"):
            kda.fwd(**x, out=q, workspace=workspace)
    kda.fwd(**(x | {"q": memory[-1:]}), out=memory[-2:-1], workspace=workspace)  # beyond what the call needs


def bytes_of(array):
    """Return the memory of an array as a flat one of bytes."""
    if isinstance(array, np.ndarray):
        return array.reshape(-1).view(np.uint8)
    interface = {"shape": (array.nbytes,), "typestr": "|u1", "data": (array.ptr, False), "version": 3}
    return SimpleNamespace(__cuda_array_interface__=interface)
