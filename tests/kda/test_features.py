"""What a call can be told: types, grouped heads, gates, norms, strides, slots of a pool, snapshots."""

import numpy as np
import pytest
from kda.inputs import BF16, FP32, arange_state, bf16, normal_state, offsets, packed, upstream
from kda.oracle import kda, log_decay
from kda.places import ON_CPU
from kda.tolerances import check_out, check_state

HEADS = {"two kernels": 4, "one kernel": 36}
TOKENS = {"decode": 3, "chunks": 41}


def check(place, inputs, kind="default", **options):
    reference = kda(**inputs)
    result = place.run(inputs, **options)
    check_out(result.out, reference.out, kind)
    check_state(result.final, reference.final, kind)
    return result


@pytest.mark.parametrize("tokens", TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("dtype", [BF16, FP32], ids=str)
@pytest.mark.parametrize("channels", [64, 128])
def test_channels_and_state_types(place, channels, dtype, heads, tokens):
    inputs = upstream(tokens, heads, D=channels, seed=21)
    check(place, inputs | {"initial_state": normal_state(1, heads, channels, dtype)}, final=dtype)


@ON_CPU
@pytest.mark.parametrize("channels", [1, 16, 40, 96, 200, 256])
def test_other_channels_on_the_cpu(place, channels):
    inputs = upstream(21, 2, D=channels, seed=22)
    check(place, inputs | {"initial_state": normal_state(1, 2, channels)})


@pytest.mark.parametrize("given", ["neither", "initial", "final", "both"])
def test_states_are_optional(place, given):
    inputs = upstream(37, 4, batches=2, seed=23)
    if given in ("initial", "both"):
        inputs["initial_state"] = normal_state(2, 4)
    reference = kda(**inputs)
    result = place.run(inputs, final=FP32 if given in ("final", "both") else None)
    check_out(result.out, reference.out)
    if result.final is not None:
        check_state(result.final, reference.final)


@pytest.mark.parametrize("tokens", TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize(("key_heads", "heads"), [(1, 4), (2, 6), (20, 40)])
def test_grouped_heads(place, key_heads, heads, tokens):
    inputs = upstream(tokens, heads, key_heads=key_heads, batches=2, seed=24)
    check(place, inputs | {"initial_state": normal_state(2, heads)})


@pytest.mark.parametrize("tokens", TOKENS.values(), ids=TOKENS)
def test_without_norms(place, tokens):
    inputs = upstream(tokens, 2, seed=25) | {"use_qk_l2norm": False}
    inputs["q"] = bf16(np.float32(inputs["q"]) * 3)
    inputs["k"] = bf16(np.float32(inputs["k"]) * 0.7)
    check(place, inputs)


@pytest.mark.parametrize("tokens", TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
def test_gate_that_is_activated_already(place, heads, tokens):
    inputs = upstream(tokens, heads, seed=26)
    gate = log_decay(np.float64(inputs["g"]), inputs["A_log"], inputs["dt_bias"], -5.0)
    inputs |= {"g": bf16(gate), "gate_activated": True, "A_log": None, "dt_bias": None, "lower_bound": None}
    check(place, inputs)


def test_activated_gates_are_clamped(place):
    inputs = upstream(37, 2, seed=27)
    inputs |= {"gate_activated": True, "A_log": None, "dt_bias": None, "lower_bound": None}
    inputs["g"] = bf16(np.float32(inputs["g"]) * 6)  # half of them positive, a fifth below -5
    check(place, inputs, "slow gate")


@pytest.mark.parametrize("scale", [1.0, 1e-3, -2.5])
def test_scale(place, scale):
    check(place, upstream(20, 2, seed=28) | {"scale": scale})


def strided(place, array, how):
    """Return a view of larger memory at the place, with the array's values."""
    shape = list(array.shape)
    places = {"batch": 0, "token": 1, "head": 2}
    axis = places[how]
    shape[axis] = shape[axis] * 2 + 1
    base = np.full(shape, np.nan, np.float32).astype(array.dtype)
    index = [slice(None)] * array.ndim
    index[axis] = slice(1, None, 2)
    base[tuple(index)] = array
    return place.put(base)[tuple(index)]


@pytest.mark.parametrize("tokens", TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize("how", ["batch", "token", "head"])
def test_strided_inputs(place, how, tokens):
    inputs = upstream(tokens, 4, batches=2, seed=29)
    expected = place.run(inputs)
    views = {name: strided(place, inputs[name], how) for name in (*"qkvg", "beta")}
    assert place.run(inputs, **views).bits() == expected.bits()


@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
def test_rows_of_one_projection(place, heads):
    """All inputs are parts of one row per token, whose pitch is no power of two."""
    inputs = packed([33, 20], heads, seed=30)
    width = 128 * heads
    pitch = 4 * width + heads + -heads % 8 + 8  # rows of q, k, v and g are aligned to 16 bytes
    row = np.full((1, 53, pitch), np.nan, np.float32).astype(BF16)
    for i, name in enumerate("qkvg"):
        row[..., i * width : (i + 1) * width] = inputs[name].reshape(1, 53, width)
    row[..., 4 * width : 4 * width + heads] = inputs["beta"]
    row = place.put(row)
    views = {name: _heads(row[..., i * width : (i + 1) * width], heads) for i, name in enumerate("qkvg")}
    beta = row[..., 4 * width : 4 * width + heads]
    assert place.run(inputs, **views, beta=beta).bits() == place.run(inputs).bits()


def _heads(row, heads):
    """Return [1, T, H * 128] as [1, T, H, 128] without a copy."""
    view = row.reshape((*row.shape[:2], heads, 128))
    if isinstance(view, np.ndarray):
        assert np.shares_memory(view, row)
    return view


@pytest.mark.parametrize("tokens", TOKENS.values(), ids=TOKENS)
def test_beta_of_any_stride(place, tokens):
    inputs = upstream(tokens, 4, batches=2, seed=31)
    base = np.full((2, tokens, 4, 3), np.nan, np.float32).astype(BF16)
    base[..., 1] = inputs["beta"]
    assert place.run(inputs, beta=place.put(base)[..., 1]).bits() == place.run(inputs).bits()


@ON_CPU
def test_transposed_beta(place):
    inputs = upstream(41, 4, batches=2, seed=31)
    beta = np.ascontiguousarray(inputs["beta"].transpose(2, 1, 0)).transpose(2, 1, 0)
    assert place.run(inputs, beta=beta).bits() == place.run(inputs).bits()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("lengths", [[33, 20, 5], [1, 3, 2]], ids=["chunks", "decode"])
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
def test_slots(place, dtype, lengths, heads):
    """Three sequences in a pool of five: one begins with nothing and leaves nothing."""
    inputs = packed(lengths, heads, seed=32)
    inputs |= {"state_slots": np.array([3, -1, 0], dtype), "initial_state": normal_state(5, heads)}
    reference = kda(**inputs)
    final = np.full((5, heads, 128, 128), 7, np.float32)
    result = place.run(inputs, final=place.put(final.copy()))
    check_out(result.out, reference.out)
    check_state(result.final[[3, 0]], reference.final[[0, 2]])
    np.testing.assert_array_equal(result.final[[1, 2, 4]], final[[1, 2, 4]])


@pytest.mark.parametrize("slot", [-1, -(1 << 31), 4, 5, (1 << 31) - 1, pytest.param(1 << 40, id="1T")])
def test_slots_outside_the_pool(place, slot):
    inputs = upstream(20, 2, batches=2, seed=33)
    inputs |= {"state_slots": np.array([slot, 1], np.int64), "initial_state": normal_state(4, 2)}
    reference = kda(**inputs)
    final = np.full((4, 2, 128, 128), 7, np.float32)
    result = place.run(inputs, final=place.put(final.copy()))
    check_out(result.out, reference.out)
    check_state(result.final[1], reference.final[1])
    np.testing.assert_array_equal(result.final[[0, 2, 3]], final[[0, 2, 3]])


@pytest.mark.parametrize("tokens", [1, 41])
def test_a_pool_is_updated_in_place(place, tokens):
    inputs = upstream(tokens, 4, batches=2, seed=34) | {"state_slots": np.array([2, 0])}
    pool = normal_state(3, 4)
    reference = kda(**inputs, initial_state=pool)
    there = place.put(pool.copy())
    result = place.run(inputs, initial_state=there, final=there)
    check_out(result.out, reference.out)
    check_state(result.final[[2, 0]], reference.final)
    np.testing.assert_array_equal(result.final[1], pool[1])


SNAPSHOTS = {"intermediate_tokens": np.array([16, 48, 64, 32]), "intermediate_offsets": np.array([0, 3, 3, 4])}


@pytest.mark.parametrize("offset_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [BF16, FP32], ids=str)
@pytest.mark.parametrize("heads", [4, 12], ids=HEADS)
def test_snapshots(place, heads, dtype, offset_dtype):
    lengths = [70, 20, 32]
    inputs = packed(lengths, heads, seed=35) | {"initial_state": normal_state(3, heads)}
    plain = place.run(inputs)
    inputs |= {name: x.astype(offset_dtype) for name, x in SNAPSHOTS.items()}
    reference = kda(**inputs)
    result = place.run(inputs, snapshots=dtype)
    check_state(result.snapshots, reference.snapshots, name="snapshots")
    assert result.bits()[:2] == plain.bits()[:2]
    if dtype == FP32:
        assert result.snapshots[3].tobytes() == result.final[2].tobytes()


@pytest.mark.parametrize("m", range(4))
def test_a_snapshot_is_what_the_prefix_leaves(place, m):
    lengths, heads = [70, 20, 32], 4
    inputs = packed(lengths, heads, seed=36) | {"initial_state": arange_state(3, heads)}
    snapshot = place.run(inputs | SNAPSHOTS, snapshots=FP32).snapshots[m]
    sequence = (0, 0, 0, 2)[m]
    begins, tokens = offsets(lengths), int(SNAPSHOTS["intermediate_tokens"][m])
    part = slice(begins[sequence], begins[sequence] + tokens)
    prefix = inputs | {name: inputs[name][:, part] for name in (*"qkvg", "beta")}
    prefix |= {"cu_seqlens": offsets([tokens]), "initial_state": inputs["initial_state"][sequence : sequence + 1]}
    assert place.run(prefix).final[0].tobytes() == snapshot.tobytes()


def test_snapshots_of_batches(place):
    inputs = upstream(40, 2, batches=2, seed=37)
    inputs |= {"intermediate_tokens": np.array([32, 16]), "intermediate_offsets": np.array([0, 1, 2])}
    result = place.run(inputs, snapshots=FP32)
    check_state(result.snapshots, kda(**inputs).snapshots, name="snapshots")


def test_snapshots_behind_the_end_are_not_written(place):
    inputs = packed([20, 40], 2, seed=38)
    inputs |= {"intermediate_tokens": np.array([16, 32, 32]), "intermediate_offsets": np.array([0, 2, 3])}
    reference = kda(**inputs)
    result = place.run(inputs, snapshots=FP32, poison="ones")
    check_state(result.snapshots[[0, 2]], reference.snapshots[[0, 2]], name="snapshots")
    assert set(result.snapshots[1].tobytes()) == {0xFF}
