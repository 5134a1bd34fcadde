"""The host kernel against the recurrence in float64: every feature once, at sizes that take no time."""

import ml_dtypes
import numpy as np
import pytest
from kda import oracle
from kda.inputs import ARRAYS, BF16, draw, offsets

import madspace
from madspace import kda

OUT = 2.5e-3  # one rounding to bfloat16 is 1.7e-3
STATE = 1e-6


def states_like(x, n, dtype=np.float32, seed=5):
    _, _, hv, d = x["v"].shape
    return np.random.default_rng(seed).standard_normal((n, hv, d, d)).astype(dtype)


@pytest.mark.parametrize("d", [1, 3, 16, 64, 100, 128, 256])
def test_any_number_of_channels(d):
    x = draw(t=21, hk=1, hv=2, d=d)
    initial, final = states_like(x, 1), np.full((1, 2, d, d), np.nan, np.float32)
    out = kda.fwd(**x, initial_state=initial, final_state=final)
    expected = oracle.kda(**x, initial_state=initial)
    assert oracle.relative_l2(out, expected.out) < OUT
    assert oracle.relative_l2(final, expected.final) < STATE


@pytest.mark.parametrize("t", [1, 2, 7, 8, 9, 16, 17, 31])
def test_lengths_around_the_chunks(t):
    x = draw(b=2, t=t, hk=1)
    final = states_like(x, 2)
    out = kda.fwd(**x, final_state=final)
    expected = oracle.kda(**x)
    assert oracle.relative_l2(out, expected.out) < OUT
    assert oracle.relative_l2(final, expected.final) < STATE


def test_grouped_value_heads():
    x = draw(t=20, hk=2, hv=6)
    assert oracle.relative_l2(kda.fwd(**x), oracle.kda(**x).out) < OUT


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("lengths", [[0, 17], [17, 0, 33], [0, 0, 17, 0], [5, 16, 1, 9]], ids=str)
def test_packed_sequences(lengths, index):
    x = draw(t=sum(lengths), hk=2)
    initial = states_like(x, len(lengths))
    final = np.full_like(initial, np.nan)
    x["cu_seqlens"] = offsets(lengths, index)
    out = kda.fwd(**x, initial_state=initial, final_state=final, validate=True)
    expected = oracle.kda(**x, initial_state=initial)
    assert oracle.relative_l2(out, expected.out) < OUT
    assert oracle.relative_l2(final, expected.final) < STATE


def test_a_state_is_updated_in_place():
    x = draw(b=2, t=20, hk=2)
    state = states_like(x, 2)
    expected = oracle.kda(**x, initial_state=state)
    kda.fwd(**x, initial_state=state, final_state=state)
    assert oracle.relative_l2(state, expected.final) < STATE


def test_two_halves_are_the_whole():
    x = draw(t=37)
    first, second = ({n: a[:, s] if n in ARRAYS else a for n, a in x.items()} for s in (slice(16), slice(16, None)))
    state, whole = states_like(x, 1), states_like(x, 1)
    out = kda.fwd(**x, initial_state=whole, final_state=whole)
    parts = [kda.fwd(**part, initial_state=state, final_state=state) for part in (first, second)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), out)
    np.testing.assert_array_equal(state, whole)


def test_bfloat16_states_are_rounded_once():
    x = draw(t=50)
    initial = states_like(x, 1, BF16)
    final = np.zeros_like(initial)
    kda.fwd(**x, initial_state=initial, final_state=final)
    exact = np.zeros(final.shape, np.float32)
    kda.fwd(**x, initial_state=initial.astype(np.float32), final_state=exact)
    np.testing.assert_array_equal(final, exact.astype(BF16))


def test_a_float32_state_stays_one():
    x = draw(t=1)
    x["beta"][:] = -100
    x["A_log"][:] = 10
    x["g"][:] = -100
    state = np.full((1, 1, 64, 64), 1 + 2.0**-12, np.float32)
    kda.fwd(**x, initial_state=state, final_state=state)
    np.testing.assert_array_equal(state, np.float32(1 + 2.0**-12))


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_states_from_a_pool(index):
    x = draw(b=4, t=9)
    pool = states_like(x, 6)
    before = pool.copy()
    slots = np.array([5, -1, 0, 6], index)  # the second and the last are outside
    out = kda.fwd(**x, initial_state=pool, final_state=pool, state_slots=slots)
    zero = np.zeros_like(before[0])
    expected = oracle.kda(**x, initial_state=np.stack([before[5], zero, before[0], zero]))
    assert oracle.relative_l2(out, expected.out) < OUT
    assert oracle.relative_l2(pool[[5, 0]], expected.final[[0, 2]]) < STATE
    np.testing.assert_array_equal(pool[1:5], before[1:5])


def test_states_within_sequences():
    lengths = [40, 15, 70]
    x = draw(t=sum(lengths), hk=2) | {
        "cu_seqlens": offsets(lengths),
        "intermediate_tokens": np.array([16, 32, 48, 16, 32, 64, 80]),
        "intermediate_offsets": np.array([0, 3, 3, 7]),
    }
    kept = np.full((7, 2, 64, 64), np.nan, np.float32)
    kda.fwd(**x, intermediate_state=kept, validate=True)
    expected = oracle.kda(**x).snapshots
    for place in (0, 1, 3, 4, 5):
        assert oracle.relative_l2(kept[place], expected[place]) < STATE
    assert np.isnan(kept[[2, 6]]).all()  # after the end of their sequence


def test_a_kept_state_is_that_of_the_prefix_alone():
    x = draw(t=40)
    kept, prefix = (np.zeros((1, 1, 64, 64), BF16) for _ in range(2))
    marks = {"intermediate_tokens": np.array([32], np.int32), "intermediate_offsets": np.array([0, 1], np.int32)}
    kda.fwd(**x, intermediate_state=kept, **marks)
    kda.fwd(**{n: a[:, :32] if n in ARRAYS else a for n, a in x.items()}, final_state=prefix)
    np.testing.assert_array_equal(kept, prefix)


def test_norms_are_optional():
    x = draw(t=12)
    x["k"] = (x["k"].astype(np.float32) / 8).astype(BF16)
    assert oracle.relative_l2(kda.fwd(**x, use_qk_l2norm=False), oracle.kda(**x, use_qk_l2norm=False).out) < OUT


def test_an_activated_gate_is_clipped():
    x = draw(t=12)
    activated = {name: a for name, a in x.items() if name not in ("A_log", "dt_bias", "lower_bound")}
    activated["g"] = np.where(np.arange(64) < 32, activated["g"] * 4, -0.01).astype(BF16)
    out = kda.fwd(**activated, gate_activated=True)
    assert oracle.relative_l2(out, oracle.kda(**activated, gate_activated=True).out) < OUT


def test_strides_of_any_kind():
    x = draw(b=2, t=11, hk=2)
    expected = kda.fwd(**x)
    for name in ("q", "k", "v", "g"):
        wide = np.full((2, 3, 22, 64), np.nan, BF16)  # heads before tokens, every second token, backwards
        view = wide.transpose(0, 2, 1, 3)[:, ::2, :2][:, ::-1]
        view[:] = x[name]
        x[name] = view
    packed = np.full((11, 2, 2, 3), np.nan, BF16)
    x["beta"] = packed.transpose(1, 0, 2, 3)[..., 1]
    x["beta"][:] = draw(b=2, t=11, hk=2)["beta"]
    np.testing.assert_array_equal(kda.fwd(**x), expected)


def test_a_batch_may_be_one_array_seen_often():
    x = draw(t=10)
    x |= {name: np.broadcast_to(x[name], (3, *x[name].shape[1:])) for name in ("q", "k", "v", "g", "beta")}
    out = kda.fwd(**x)
    np.testing.assert_array_equal(out[0], out[2])
    assert oracle.relative_l2(out, oracle.kda(**x).out) < OUT


@pytest.mark.parametrize("hk", [1, 5])
def test_threads_change_no_bit(hk):
    x = draw(t=300, hk=hk, d=128)
    results = []
    for n in (1, 2, 7):
        madspace.set_num_threads(n)
        try:
            final = np.zeros((1, hk, 128, 128), np.float32)
            results.append((kda.fwd(**x, final_state=final), final))
        finally:
            madspace.set_num_threads(0)
    for out, final in results[1:]:
        np.testing.assert_array_equal(out, results[0][0])
        np.testing.assert_array_equal(final, results[0][1])


def test_a_nan_stays_in_its_sequence_and_after_its_token():
    lengths = [20, 20, 20]
    x = draw(t=60, hk=2)
    clean = kda.fwd(**x, cu_seqlens=np.cumsum([0, *lengths]))
    x["k"][0, 27, 0, 3] = np.nan
    out = kda.fwd(**x, cu_seqlens=np.cumsum([0, *lengths]))
    hit = np.isnan(out.astype(np.float32))
    assert hit[0, 27:40, 0].all()
    hit[0, 27:40, 0] = False
    assert not hit.any()
    keep = np.ones(60, bool)
    keep[27:40] = False
    np.testing.assert_array_equal(out[:, keep], clean[:, keep])


@pytest.mark.parametrize("name", ["q", "k", "v", "g", "beta"])
def test_a_nan_comes_out(name):
    x = draw(t=3)
    x[name][0, 1, 0] = np.nan
    out = kda.fwd(**x).astype(np.float32)
    assert not np.isnan(out[0, 0]).any()
    assert np.isnan(out[0, 1]).all()
    assert np.isnan(out[0, 2]).all() == (name != "q")


def test_sixteen_times_the_same_key():
    """Every step of the recurrence projects on one direction: the inverse of a chunk is badly conditioned."""
    x = draw(t=512)
    x["k"][:] = x["k"][0, 0]
    x["q"][:] = x["k"][0, 0]
    x["g"][:], x["beta"][:] = -12, 8
    assert oracle.relative_l2(kda.fwd(**x), oracle.kda(**x).out) < OUT


def test_instruction_sets_agree(run_python):
    code = """
import hashlib, sys
import numpy as np
from kda import oracle
from kda.inputs import draw
from madspace import kda
from madspace.cpu import _lanes
x = draw(t=40, d=100)
print(_lanes.isa(), oracle.relative_l2(kda.fwd(**x), oracle.kda(**x).out) < 2.5e-3)
"""
    for isa in ("base", _best_isa()):
        done = run_python(code, env={"MADSPACE_CPU_ISA": isa})
        assert done.stdout == f"{isa} True\n", done.stderr


def _best_isa():
    from madspace.cpu import _lanes

    return _lanes.isa()


def test_results_are_of_the_inputs_kind():
    x = draw(t=4)
    assert type(kda.fwd(**x)) is np.ndarray
    assert kda.fwd(**x).dtype == ml_dtypes.bfloat16
    tensors = {n: madspace.asarray(a) if isinstance(a, np.ndarray) else a for n, a in x.items()}
    result = kda.fwd(**tensors)
    assert type(result) is madspace.Tensor
    np.testing.assert_array_equal(result.numpy(), kda.fwd(**x))
