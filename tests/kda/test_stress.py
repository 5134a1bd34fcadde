"""Inputs that have broken implementations: parallel keys, decays near 1, exact states, NaN, extreme numbers."""

import numpy as np
import pytest
from kda.inputs import (
    BF16,
    bf16,
    family,
    identical_keys,
    normal_state,
    packed,
    rotating_keys,
    slow_decay,
    upstream,
)
from kda.oracle import kda
from kda.places import ON_CPU_AND_GPU, ON_GPU
from kda.tolerances import check_out, check_state

# Chains (sequences times heads) that take the one or the other way through a GPU.
HEADS = {"two kernels": 2, "one kernel": 40}


def check(place, inputs, kind, **options):
    reference = kda(**inputs)
    result = place.run(inputs, **options)
    check_out(result.out, reference.out, kind)
    check_state(result.final, reference.final, kind)
    return result


@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("tokens", [16, 37])
def test_identical_keys(place, tokens, heads):
    check(place, identical_keys(tokens, heads), "collinear")


@ON_CPU_AND_GPU
@pytest.mark.parametrize("tokens", [512, pytest.param(16384, marks=pytest.mark.gpu)])
def test_identical_keys_for_long(place, tokens):
    check(place, identical_keys(tokens, 1), "collinear")


@pytest.mark.parametrize("begin", [0, 9, 16])
def test_sixteen_identical_keys_in_a_row(place, begin):
    inputs = upstream(64, 2, seed=6, gate=-12.0)
    inputs["beta"][:, begin : begin + 16] = 8
    for name in "qk":
        inputs[name][:, begin : begin + 16] = inputs["k"][:, begin : begin + 1]
    check(place, inputs, "stress")


@ON_CPU_AND_GPU
def test_correlated_keys_with_little_decay(place):
    rng = np.random.default_rng(8)
    inputs = family("g=0", tokens=8192, heads=2)
    inputs |= {"g": bf16(rng.uniform(-0.034, -0.012, inputs["g"].shape)), "gate_activated": True}
    inputs |= {"A_log": None, "dt_bias": None, "lower_bound": None}
    inputs["beta"][:] = 30
    check(place, inputs, "stress")


@ON_CPU_AND_GPU
@pytest.mark.parametrize("beta", [-9, -7, -5, -3, 0])
def test_slow_decay(place, beta):
    check(place, slow_decay(beta), "slow decay")


@pytest.mark.parametrize("channels", [64, 128])
def test_the_sums_of_gates_say_nothing_of_what_is_forgotten(place, channels):
    check(place, rotating_keys(channels), "stress")


@pytest.mark.parametrize("tokens", [1, 4, 5, 16, 40])
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
def test_a_float32_state_is_not_rounded(place, tokens, heads):
    """Nothing is written (beta is 0) and nothing forgotten: what comes out is what went in, or its neighbour."""
    inputs = upstream(tokens, heads, seed=7, gate=-100.0)
    inputs["beta"][:] = -100
    state = np.full((1, heads, 128, 128), 1 + 2.0**-12, np.float32)
    result = place.run(inputs, initial_state=state)
    np.testing.assert_allclose(result.final, state, rtol=2.0**-20)


@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
def test_no_tokens_copy_a_state_exactly(place, heads):
    inputs = packed([0, 7, 0], heads, seed=7)
    state = normal_state(3, heads)
    result = place.run(inputs, initial_state=state)
    np.testing.assert_array_equal(result.final[[0, 2]], state[[0, 2]])


LENGTHS = [50, 61, 40]
BAD_SEQUENCE, BAD_HEAD = 1, 1
# Lengths, heads and token: in the first chunk, in the second, in the tail; in one kernel; in decode.
PLACES_OF_NAN = [(LENGTHS, 3, 0), (LENGTHS, 3, 20), (LENGTHS, 3, 60), (LENGTHS, 12, 20), ([2, 3, 1], 3, 1)]


# An infinite logit is a decay or a step like any other.
SPOILED = [("q", np.nan), ("k", np.nan), ("v", np.nan), ("g", np.nan), ("beta", np.nan), ("k", np.inf), ("v", -np.inf)]


@pytest.mark.parametrize(("name", "value"), SPOILED, ids=[f"{name}={value}" for name, value in SPOILED])
@pytest.mark.parametrize(("lengths", "heads", "token"), PLACES_OF_NAN, ids=str)
def test_what_is_not_finite_stays_in_its_sequence_and_after_its_token(place, name, value, lengths, heads, token):
    clean = packed(lengths, heads, seed=9)
    spoiled = clean | {name: clean[name].copy()}
    row = lengths[0] + token
    spoiled[name][(0, row, BAD_HEAD, *([5] if spoiled[name].ndim == 4 else []))] = value
    expected, result = place.run(clean), place.run(spoiled)
    others, other_heads = [0, 2], [h for h in range(heads) if h != BAD_HEAD]
    assert result.final[others].tobytes() == expected.final[others].tobytes(), "another sequence's state"
    assert result.final[:, other_heads].tobytes() == expected.final[:, other_heads].tobytes(), "another head's state"
    assert result.out[:, :, other_heads].tobytes() == expected.out[:, :, other_heads].tobytes(), "another head's output"
    end = sum(lengths[:2])
    for part in (slice(0, lengths[0]), slice(end, None)):
        assert result.out[:, part].tobytes() == expected.out[:, part].tobytes(), "another sequence's output"
    before = slice(lengths[0], row)
    check_out(result.out[:, before], kda(**clean).out[:, before])
    assert not np.isfinite(np.float32(result.out[0, row, BAD_HEAD])).all(), "the token itself must show it"
    if name != "q":
        after = np.float32(result.out[0, row:end, BAD_HEAD])
        assert not np.isfinite(after).all(axis=-1).any(), "so must all that follow"
        assert not np.isfinite(result.final[BAD_SEQUENCE, BAD_HEAD]).all()


def test_a_spoiled_state_stays_in_its_sequence(place):
    inputs = packed(LENGTHS, 3, seed=9)
    clean = normal_state(3, 3)
    state = clean.copy()
    state[BAD_SEQUENCE, BAD_HEAD] = np.nan
    expected, result = place.run(inputs, initial_state=clean), place.run(inputs, initial_state=state)
    end = sum(LENGTHS[:2])
    for part in (slice(0, LENGTHS[0]), slice(end, None)):
        assert result.out[:, part].tobytes() == expected.out[:, part].tobytes()
    assert result.final[[0, 2]].tobytes() == expected.final[[0, 2]].tobytes()
    assert np.isnan(np.float32(result.out[0, LENGTHS[0] : end, BAD_HEAD])).all()


@pytest.mark.parametrize("tokens", [3, 37])
def test_zero_and_tiny_keys(place, tokens):
    inputs = upstream(tokens, 3, seed=10)
    inputs["k"][:, :, 0] = 0
    inputs["q"][:, :, 1] = 0
    inputs["k"][:, :, 2] *= bf16(1e-4)
    check(place, inputs, "default", initial_state=None)


@pytest.mark.parametrize("logit", [-1e4, -80.0, 80.0, 1e4])
@pytest.mark.parametrize("name", ["g", "beta"])
def test_extreme_logits(place, name, logit):
    inputs = upstream(37, 2, seed=12)
    inputs[name][:] = logit
    inputs["initial_state"] = normal_state(1, 2)
    check(place, inputs, "slow gate")


@pytest.mark.parametrize("A_log", [-20.0, 5.0])
def test_extreme_gate_parameters(place, A_log):
    inputs = upstream(37, 2, seed=13)
    inputs["A_log"][:] = A_log
    check(place, inputs, "slow gate")


@pytest.mark.parametrize("bound", [-5.0, -1.0, -1e-3])
def test_lower_bounds(place, bound):
    check(place, upstream(100, 2, seed=14) | {"lower_bound": bound}, "slow gate")


@pytest.mark.slow
@ON_GPU
@pytest.mark.parametrize("gate", [-8.0, 0.0])
def test_a_million_tokens_stay_finite(place, gate):
    result = place.run(upstream(1 << 20, 1, seed=16, gate=gate))
    assert np.isfinite(result.final).all()
    assert result.out.dtype == BF16
    assert int((result.out.view(np.uint16) & 0x7FFF).max()) < 0x7F80
