"""Calls put together by chance: sequences, heads, types, slots, snapshots, norms and gates as nobody chose them."""

import numpy as np
import pytest
from kda.inputs import BF16, FP32, bf16, normal_state, packed, upstream
from kda.oracle import kda
from kda.tolerances import check_out, check_state

N_GPU, N_CPU = 100, 15
SEEDS = [pytest.param(n, marks=() if n < N_CPU else pytest.mark.gpu) for n in range(N_GPU)]
INDEX = (np.int32, np.int64)


def draw(seed):
    """Return inputs, and options of `Place.run`."""
    rng = np.random.default_rng([13, seed])
    channels = int(rng.choice([64, 128]))
    key_heads = int(rng.integers(1, 5))
    heads = key_heads * int(rng.choice([1, 1, 2, 3, 5]))
    longest = int(rng.choice([4, 20, 70, 200]))
    n = int(rng.integers(1, 6))
    shape = {"key_heads": key_heads, "D": channels, "seed": seed}
    if rng.random() < 0.6:
        lengths = [int(x) for x in rng.integers(0, longest + 1, n)]
        inputs = packed(lengths, heads, rng.choice(INDEX), **shape)
    else:
        lengths = [int(rng.integers(0, longest + 1))] * n
        inputs = upstream(lengths[0], heads, batches=n, **shape)
    options = {"final": (BF16, FP32)[rng.integers(2)], "poison": str(rng.choice(["nan", "ones", "zeros", "noise"]))}
    n_states = n
    if rng.random() < 0.4:
        n_states = n + int(rng.integers(0, 3))
        inputs["state_slots"] = rng.permutation(n_states + 1)[:n].astype(rng.choice(INDEX)) - rng.integers(2)
        options["n_states"] = n_states
    if rng.random() < 0.7:
        inputs["initial_state"] = normal_state(n_states, heads, channels, options["final"], seed)
    if rng.random() < 0.4:
        per_sequence = [16 * np.flatnonzero(rng.random(length // 16) < 0.4) + 16 for length in lengths]
        ends = np.cumsum([0, *(len(x) for x in per_sequence)])
        index = rng.choice(INDEX)
        tokens = np.concatenate(per_sequence).astype(index)
        inputs |= {"intermediate_tokens": tokens, "intermediate_offsets": ends.astype(index)}
        options["snapshots"] = (BF16, FP32)[rng.integers(2)]
    if rng.random() < 0.3:
        inputs["use_qk_l2norm"] = False
    if rng.random() < 0.3:
        gates = {"g": bf16(-np.abs(np.float32(inputs["g"]))), "gate_activated": True}
        inputs |= gates | {"A_log": None, "dt_bias": None, "lower_bound": None}
    options["workspace"] = bool(rng.random() < 0.7)
    return inputs, options


@pytest.mark.parametrize("seed", SEEDS)
def test_call(place, seed):
    inputs, options = draw(seed)
    reference = kda(**inputs)
    result = place.run(inputs, **options)
    check_out(result.out, reference.out, "slow gate")
    n_states = len(result.final)
    slots = np.asarray(inputs.get("state_slots", np.arange(n_states)))
    used = (slots >= 0) & (slots < n_states)
    check_state(result.final[slots[used]], reference.final[used])
    if result.snapshots is not None:
        check_state(result.snapshots, reference.snapshots, name="snapshots")
