"""Packed sequences and short ones: empty anywhere, tails, decode, rows of nobody, nonsense in cu_seqlens."""

import numpy as np
import pytest
from kda.inputs import BF16, FP32, normal_state, offsets, packed, upstream
from kda.oracle import kda
from kda.places import n_sequences, spoiled
from kda.tolerances import check_out, check_state

import madspace

DTYPES = {"bf16": BF16, "fp32": FP32}
HEADS = {"two kernels": 3, "one kernel": 12}  # of three sequences
NAMES = (*"qkvg", "beta")


def check(place, inputs, final=FP32):
    reference = kda(**inputs)
    result = place.run(inputs, final=final)
    check_out(result.out, reference.out)
    check_state(result.final, reference.final)
    return result


@pytest.mark.parametrize("lengths", [[0, 17], [17, 0, 33], [0, 0, 17, 0], [0, 0], [0, 1, 0, 17, 0]], ids=str)
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("initial", [True, False], ids=["initial", "zero"])
def test_empty_sequences(place, lengths, heads, dtype, initial):
    """The state goes through, or is zero, exactly."""
    inputs = packed(lengths, heads, seed=41)
    if initial:
        inputs["initial_state"] = normal_state(len(lengths), heads, dtype=DTYPES[dtype])
    result = check(place, inputs, DTYPES[dtype])
    empty = [n for n, length in enumerate(lengths) if length == 0]
    expected = inputs["initial_state"][empty] if initial else np.zeros_like(result.final[empty])
    np.testing.assert_array_equal(result.final[empty], expected)


@pytest.mark.parametrize("tokens", [0, 1, 17])
@pytest.mark.parametrize("batches", [0, 1, 2])
def test_empty_batches(place, batches, tokens):
    inputs = upstream(tokens, 2, batches=batches, seed=42)
    check(place, inputs | {"initial_state": normal_state(batches, 2)})


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("batches", [1, 3, 17])
@pytest.mark.parametrize("channels", [64, 128])
def test_decode_lengths(place, channels, batches, tokens):
    inputs = upstream(tokens, 4, batches=batches, D=channels, seed=43)
    check(place, inputs | {"initial_state": normal_state(batches, 4, channels)})


@pytest.mark.parametrize("lengths", [[1] * 9, [1, 3, 0, 4, 2], [4, 4], [13, 0, 0, 0], [1]], ids=str)
def test_packed_decode(place, lengths):
    """Few tokens on average; a long sequence among empty ones may take the same way."""
    inputs = packed(lengths, 4, seed=44)
    check(place, inputs | {"initial_state": normal_state(len(lengths), 4)})


@pytest.mark.parametrize("tokens", range(1, 34))
def test_tails(place, tokens):
    inputs = upstream(tokens, 2, seed=45)
    check(place, inputs | {"initial_state": normal_state(1, 2)})


@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
def test_tails_see_nothing_of_the_next_sequence(place, heads):
    """What lies behind a sequence's last token, in the same 16 rows, may be anything."""
    inputs = packed([5, 20, 33], heads, seed=46)
    expected = place.run(inputs)
    for n, (first, last) in enumerate([(0, 5), (5, 25), (25, 58)]):
        spoiled = dict(inputs)
        for name in NAMES:
            spoiled[name] = np.full_like(inputs[name], np.nan)
            spoiled[name][:, first:last] = inputs[name][:, first:last]
        result = place.run(spoiled)
        assert result.out[:, first:last].tobytes() == expected.out[:, first:last].tobytes()
        assert result.final[n].tobytes() == expected.final[n].tobytes()


@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("lengths", [[5, 16, 30], [1, 2, 1]], ids=["chunks", "decode"])
@pytest.mark.parametrize(("before", "after"), [(0, 9), (7, 0), (3, 40)])
def test_rows_of_no_sequence_are_untouched(place, lengths, heads, before, after):
    total = sum(lengths)
    inputs = upstream(before + total + after, heads, seed=47)
    inputs |= {"cu_seqlens": offsets(lengths) + before}
    outside = np.r_[0:before, before + total : before + total + after]
    for name in NAMES:
        inputs[name][:, outside] = np.nan
    reference = kda(**inputs)
    result = place.run(inputs, poison="noise")
    inside = slice(before, before + total)
    check_out(result.out[:, inside], reference.out[:, inside])
    check_state(result.final, reference.final)
    pattern = spoiled(inputs["v"].shape, BF16, "noise")
    assert result.out[:, outside].tobytes() == pattern[:, outside].tobytes()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_types_of_cu_seqlens(place, dtype):
    inputs = packed([17, 33, 65], 4, dtype)
    assert place.run(inputs).bits() == place.run(packed([17, 33, 65], 4)).bits()


def test_one_packed_sequence_is_one_batch(place):
    inputs = upstream(53, 4, seed=48)
    assert place.run(inputs, cu_seqlens=offsets([53])).bits() == place.run(inputs).bits()


def test_the_order_of_sequences_does_not_matter(place):
    """The same sequences in another order give the same results in that order."""
    lengths, order = [21, 3, 34], [2, 0, 1]
    inputs = packed(lengths, 4, seed=49)
    ends = offsets(lengths)
    rows = np.concatenate([np.arange(ends[n], ends[n + 1]) for n in order])
    moved = (
        inputs | {name: inputs[name][:, rows] for name in NAMES} | {"cu_seqlens": offsets([lengths[n] for n in order])}
    )
    expected, result = place.run(inputs), place.run(moved)
    assert result.out.tobytes() == expected.out[:, rows].tobytes()
    assert result.final.tobytes() == expected.final[order].tobytes()


GARBAGE = {
    "descending": [0, 40, 20, 64],
    "backwards": [64, 40, 20, 0],
    "beyond": [0, 20, 1_000_000, 2_000_000_000],
    "negative": [-50, 20, 40, 64],
    "all negative": [-9, -7, -5, -1],
    "extreme": [-(1 << 31), (1 << 31) - 1, -(1 << 31), (1 << 31) - 1],
    "equal": [70, 70, 70, 70],
}


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("garbage", GARBAGE)
def test_nonsense_in_cu_seqlens_stays_within_the_tensors(place, garbage, heads, dtype):
    """Results are anything; memory beside the outputs is as it was, and the next call is right."""
    inputs = packed([20, 30, 14], heads)
    expected = place.run(inputs).bits()
    values = np.array(GARBAGE[garbage], dtype)
    if garbage == "extreme" and dtype == np.int64:
        values = values << 32
    snapshots = {"intermediate_tokens": np.array([16, 16]), "intermediate_offsets": np.array([0, 1, 2, 2])}
    out, final = guarded(place, (64, heads, 128), BF16), guarded(place, (3, heads, 128, 128), FP32)
    state = guarded(place, (2, heads, 128, 128), FP32)
    nbytes = madspace.kda.get_workspace_size(64, heads, 3)
    workspace = guarded(place, (nbytes // 128, 128), np.uint8)
    place.run(
        inputs | snapshots | {"cu_seqlens": values, "initial_state": normal_state(3, heads)},
        out=out.middle.reshape((1, 64, heads, 128)),
        final=final.middle,
        intermediate_state=state.middle,
        workspace=workspace.middle.reshape((-1,)),
    )
    for x in (out, final, state, workspace):
        x.check()
    assert place.run(inputs).bits() == expected


class guarded:
    """An array in the middle of a larger one, whose ends must keep what they hold."""

    def __init__(self, place, shape, dtype, margin=2):
        self.place, self.margin = place, margin
        self.before = spoiled((shape[0] + 2 * margin, *shape[1:]), dtype, "noise")
        self.base = place.put(self.before.copy())
        self.middle = self.base[margin : margin + shape[0]]

    def check(self):
        """Compare the ends."""
        now = self.place.get(self.base)
        for end in (slice(0, self.margin), slice(-self.margin, None)):
            assert now[end].tobytes() == self.before[end].tobytes()


@pytest.mark.parametrize("values", [[0, 40, 20, 64], [0, 20, 40, 65], [-1, 20, 40, 64]], ids=str)
def test_nonsense_is_refused_where_that_is_asked_for(place, values):
    inputs = packed([20, 30, 14], 2)
    with pytest.raises(ValueError, match="cu_seqlens"):
        place.run(inputs, cu_seqlens=np.array(values), validate=True)
    assert place.run(inputs, validate=True).bits() == place.run(inputs).bits()
    assert n_sequences(inputs) == 3
