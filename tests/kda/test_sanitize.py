"""A small case of every variant of the kernels, for compute-sanitizer.

    for tool in memcheck racecheck initcheck; do
        compute-sanitizer --tool $tool python -m pytest --require-gpu tests/kda/test_sanitize.py
    done

Blocks share a state by its rows: with 132 multiprocessors, 8 of them for up to 16 chains (sequences times heads), 4 up
to 33, 2 up to 66, then 1; 64 channels allow 4 at most. Beyond 32 chains one kernel does everything.
"""

import numpy as np
import pytest
from kda.inputs import BF16, FP32, normal_state, offsets, packed, upstream
from kda.oracle import kda
from kda.tolerances import check_out, check_state


def slots(inputs, n):
    """Return the inputs with their states in a pool, the first sequence's outside."""
    return inputs | {"state_slots": np.array([-1, *range(n, 1, -1)]), "pool": n + 1}


def snapshots(inputs, tokens, ends):
    """Return the inputs with snapshots."""
    return inputs | {"intermediate_tokens": np.array(tokens), "intermediate_offsets": np.array(ends)}


def activated(inputs):
    """Return the inputs with decays for gates."""
    gates = {"g": -np.abs(inputs["g"]), "gate_activated": True}
    return inputs | gates | {"A_log": None, "dt_bias": None, "lower_bound": None}


def headless(inputs):
    """Return the inputs with cu_seqlens that leave rows out at both ends."""
    return inputs | {"cu_seqlens": inputs["cu_seqlens"].clip(3, inputs["v"].shape[1] - 2)}


# Name: (inputs, type of the states).
CASES = {
    "decode": lambda: (upstream(1, 3, batches=2), FP32),
    "decode-4-bf16": lambda: (upstream(4, 3, batches=2), BF16),
    "decode-D64": lambda: (upstream(2, 3, D=64), FP32),
    "decode-D64-bf16": lambda: (upstream(3, 3, D=64), BF16),
    "decode-packed-slots": lambda: (slots(packed([1, 0, 3, 2], 2, np.int32), 4), FP32),
    "decode-grouped-activated": lambda: (activated(upstream(1, 4, key_heads=2, batches=3)), FP32),
    "two-split8": lambda: (upstream(37, 2), FP32),
    "two-split8-bf16": lambda: (upstream(32, 2, batches=2), BF16),
    "two-split8-packed": lambda: (packed([17, 0, 33, 1], 3, np.int32), FP32),
    "two-split8-long": lambda: (upstream(300, 1), FP32),
    "two-split8-slots": lambda: (slots(packed([5, 20, 16], 2), 3), BF16),
    "two-split8-snapshots": lambda: (snapshots(packed([40, 20, 32], 2), [16, 32, 16, 32], [0, 2, 3, 4]), FP32),
    "two-split8-grouped": lambda: (upstream(37, 4, key_heads=2), FP32),
    "two-split8-rows-outside": lambda: (headless(packed([10, 25, 12], 2)), FP32),
    "two-split4": lambda: (upstream(21, 32), FP32),
    "two-split4-D64": lambda: (upstream(37, 2, D=64), FP32),
    "two-split4-D64-packed-bf16": lambda: (packed([17, 0, 33, 1], 2, D=64), BF16),
    "two-split4-D64-32-chains": lambda: (upstream(21, 32, D=64), FP32),
    "one-split4": lambda: (upstream(37, 33), FP32),
    "one-split2-packed": lambda: (packed([17, 0, 33, 1], 12), FP32),
    "one-split2-snapshots-bf16": lambda: (snapshots(packed([40, 20, 32], 13), [16, 32, 16, 32], [0, 2, 3, 4]), BF16),
    "one-split1": lambda: (upstream(37, 35, batches=2), FP32),
    "one-split1-slots-grouped": lambda: (slots(packed([5, 20, 16], 24, key_heads=8), 3), BF16),
    "one-split1-activated": lambda: (activated(upstream(20, 70)), FP32),
    "one-split2-D64": lambda: (upstream(37, 20, batches=2, D=64), FP32),
    "one-split1-D64-packed-bf16": lambda: (packed([17, 0, 33, 1], 20, D=64), BF16),
    "one-long": lambda: (upstream(300, 34), FP32),
    "nothing": lambda: (packed([0, 0], 2), FP32),
}


@pytest.mark.parametrize(
    ("place", "layout"), [("cpu", "contiguous"), ("cuda", "contiguous"), ("cuda", "strided")], indirect=["place"]
)
@pytest.mark.parametrize("name", CASES)
def test_case(place, name, layout):
    check_case(place, name, layout)


def check_case(place, name, layout="contiguous"):
    """Run a case and compare all its results with the oracle's."""
    inputs, dtype = CASES[name]()
    _, _, heads, channels = inputs["v"].shape
    ends = inputs.get("cu_seqlens", offsets([1] * len(inputs["v"])))
    n_states = inputs.pop("pool", len(ends) - 1)
    inputs["initial_state"] = normal_state(n_states, heads, channels, dtype)
    views = {}
    if layout == "strided":
        for key in (*"qkvg", "beta"):
            x = inputs[key]
            views[key] = place.put(np.concatenate([x, x], axis=2))[:, :, x.shape[2] :]
    reference = kda(**inputs)
    result = place.run(
        inputs,
        **views,
        final=dtype,
        n_states=n_states,
        snapshots=dtype if "intermediate_tokens" in inputs else None,
    )
    written = ~np.isnan(reference.out[..., 0, 0])
    check_out(result.out[written], reference.out[written])
    used = np.asarray(inputs.get("state_slots", np.arange(n_states)))
    check_state(result.final[used[used >= 0]], reference.final[used >= 0])
    if result.snapshots is not None:
        check_state(result.snapshots, reference.snapshots, name="snapshots")
