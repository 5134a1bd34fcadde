"""Accuracy on upstream's comparison with fla: correlated keys, all kinds of gates, one long sequence or several."""

import pytest
from kda.inputs import BF16, FP32, GATES, SLOW_GATES, family
from kda.oracle import kda
from kda.places import ON_CPU_AND_GPU
from kda.tolerances import check_out, check_state

PACKED = [1300, 547, 2048, 963, 271, 3063]


def check(place, inputs, gate, final=FP32):
    kind = "slow gate" if gate in SLOW_GATES else "default"
    reference = kda(**inputs)
    result = place.run(inputs, final=final)
    check_out(result.out, reference.out, kind)
    check_state(result.final, reference.final, kind)


@ON_CPU_AND_GPU
@pytest.mark.parametrize("gate", GATES)
def test_fixed(place, gate):
    check(place, family(gate), gate)


@ON_CPU_AND_GPU
@pytest.mark.parametrize("gate", ["g=-8", "g=0", "g=uniform", "bias=normal"])
def test_packed(place, gate):
    check(place, family(gate, lengths=PACKED), gate)


@ON_CPU_AND_GPU
@pytest.mark.parametrize("gate", GATES)
def test_64_channels(place, gate):
    check(place, family(gate, tokens=1024, heads=2, D=64), gate)


@pytest.mark.parametrize("gate", GATES)
def test_short(place, gate):
    """Few tokens: what the initial state contributes is not forgotten yet."""
    check(place, family(gate, tokens=37, heads=2), gate)


@ON_CPU_AND_GPU
@pytest.mark.parametrize("gate", ["g=-8", "g=0", "g=normal"])
@pytest.mark.parametrize("heads", [1, 40], ids=["H1", "H40"])
def test_bfloat16_states(place, gate, heads):
    inputs = family(gate, tokens=256, heads=heads)
    inputs["initial_state"] = inputs["initial_state"].astype(BF16)
    check(place, inputs, gate, final=BF16)
