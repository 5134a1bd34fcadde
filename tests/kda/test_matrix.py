"""Upstream's full matrix of shapes, states and heads: 580 cases, all of them on a GPU, some on the CPU."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest
from kda.inputs import BF16, FP32, arange_state, offsets, packed, upstream
from kda.oracle import Result, kda, spans
from kda.places import ON_GPU, Place
from kda.tolerances import check_out, check_state


class Shape(NamedTuple):
    """Batches of tokens, or packed sequences."""

    batches: int
    tokens: int
    lengths: tuple[int, ...] = ()

    @property
    def name(self):
        """Upstream's name of the shape."""
        if self.lengths:
            return "seqs" + "_".join(map(str, self.lengths))
        return f"B{self.batches}_T{self.tokens}" if self.batches > 1 else f"T{self.tokens}"


class Case(NamedTuple):
    """One call: what it gets and gives, and the type of the states."""

    io: str
    dtype: str
    shape: Shape
    heads: int

    @property
    def name(self):
        """Upstream's name of the case."""
        return f"{self.io}-{self.dtype}-{self.shape.name}-H{self.heads}"

    @property
    def initial(self):
        """The type of the initial state, None where there is none."""
        return self.dtype if self.io in ("in_only", "in+out") else None

    @property
    def final(self):
        """The type of the final state, None where there is none."""
        return DTYPES[self.dtype] if self.io in ("out_only", "in+out") else None


DTYPES = {"bf16": BF16, "fp32": FP32}
# Cases with the same initial state stand together, since they share the oracle's answer.
STATES = [(io, dtype) for ios in (("no_state", "out_only"), ("in_only", "in+out")) for dtype in DTYPES for io in ios]
FIXED = [Shape(1, tokens) for tokens in (16, 64, 256, 1024, 4096, 8192, 17, 37, 97)]
LENGTHS = ([16], [16, 16], [4, 8, 12], [64, 128, 256], [1300, 547, 2048, 963, 271, 3063], [1024] * 8, [20, 50, 100])
PACKED = [Shape(1, sum(lengths), tuple(lengths)) for lengths in (*LENGTHS, [17, 33, 65])]
BATCHED = [Shape(batches, tokens) for batches, tokens in ((2, 64), (2, 1024), (4, 256), (8, 128))]
LONG = [Shape(1, 1 << 17), Shape(1, 1 << 20), Shape(1, 1 << 17, (1 << 17,)), Shape(1, 1 << 20, (1 << 19, 1 << 19))]
CASES = {
    case.name: case
    for shapes, all_heads in ((FIXED, (1, 4, 32, 96)), (PACKED, (1, 4, 96)), (BATCHED, (1, 4, 96)))
    for shape in shapes
    for heads in all_heads
    for case in (Case(*state, shape, heads) for state in STATES)
}
assert len(CASES) + len(LONG) == 580

FORGOTTEN = 64  # tokens after which nothing is left of an initial state; a million there would hide what comes later
WINDOW = 1024  # tokens of a long sequence that are compared, at its beginning and at its end


def cases():
    """Return every case on a GPU, some of them on the CPU, and small ones on a driver that is only played."""
    for number, case in enumerate(CASES.values()):
        work = case.shape.batches * case.shape.tokens * case.heads
        small = work <= 512 and number % 5 == 0
        if small or (work <= 20_000 and number % 7 == 0):
            yield pytest.param("cpu", case, id=f"cpu-{case.name}")
        yield pytest.param("cuda", case, id=f"cuda-{case.name}", marks=() if small else pytest.mark.gpu)


@lru_cache(maxsize=1)
def inputs_of(shape, heads):
    """Return the inputs of a shape, without states."""
    if shape.lengths:
        return packed(shape.lengths, heads, seed=shape.tokens)
    return upstream(shape.tokens, heads, batches=shape.batches, seed=shape.tokens)


@lru_cache(maxsize=1)
def inputs_on_device(shape, heads):
    """Return the same on the device."""
    return {name: Place("cuda").put(x) for name, x in inputs_of(shape, heads).items()}


def initial_state(shape, heads, dtype):
    """Return upstream's initial states."""
    return arange_state(len(shape.lengths) or shape.batches, heads, dtype=DTYPES[dtype]) if dtype else None


def chosen_heads(heads):
    """Return the heads that are compared."""
    return sorted({0, heads // 2, heads - 1})


@lru_cache(maxsize=1)
def stateless_reference(shape, heads):
    """Return what the chosen heads should be without an initial state."""
    return kda(**inputs_of(shape, heads), heads=chosen_heads(heads))


@lru_cache(maxsize=1)
def reference_of(shape, heads, initial):
    """Return what the chosen heads should be: another initial state changes the first tokens of a sequence alone."""
    result = stateless_reference(shape, heads)
    if initial is None:
        return result
    inputs, chosen = inputs_of(shape, heads), chosen_heads(heads)
    begins, lengths = spans_of(shape)
    short = np.minimum(lengths, FORGOTTEN)
    rows = np.concatenate([np.arange(first, first + n) for first, n in zip(begins, short, strict=True)])
    parts = {key: inputs[key].reshape(1, -1, *inputs[key].shape[2:])[:, rows] for key in (*"qkvg", "beta")}
    state = initial_state(shape, heads, initial)
    first = kda(**inputs | parts | {"cu_seqlens": offsets(short)}, initial_state=state, heads=chosen)
    out = result.out.reshape(1, -1, *result.out.shape[2:]).copy()
    out[:, rows] = first.out
    final = np.where((lengths <= FORGOTTEN)[:, None, None, None], first.final, result.final)
    return Result(out.reshape(result.out.shape), final, result.snapshots)


@pytest.fixture(autouse=True, scope="module")
def _nothing_kept():
    yield
    for function in (inputs_of, inputs_on_device, stateless_reference, reference_of):
        function.cache_clear()


def is_finite(array):
    """Tell whether everything is finite, quickly for bfloat16."""
    if array.dtype != BF16:
        return bool(np.isfinite(array).all())
    return int((array.view(np.uint16) & 0x7FFF).max(initial=0)) < 0x7F80


def spans_of(shape):
    """Return first row and length of each sequence."""
    return spans(shape, [0, *np.cumsum(shape.lengths)] if shape.lengths else None)


def late_tokens(shape):
    """Return which rows of [B * T] come after `FORGOTTEN` tokens of their sequence."""
    late = np.zeros(shape.batches * shape.tokens, bool)
    for first, length in zip(*spans_of(shape), strict=True):
        late[first + FORGOTTEN : first + length] = True
    return late


@pytest.mark.parametrize(("place", "case"), list(cases()), indirect=["place"])
def test_case(place, case):
    shape, heads = case.shape, case.heads
    inputs = (inputs_of if place.name == "cpu" else inputs_on_device)(shape, heads)
    chosen, reference = chosen_heads(heads), reference_of(shape, heads, case.initial)
    result = place.run(inputs, initial_state=initial_state(shape, heads, case.initial), final=case.final, poison="ones")
    assert is_finite(result.out)
    out = result.out[:, :, chosen]
    check_out(out, reference.out, "huge state" if case.initial else "default")
    late = late_tokens(shape)
    flat = (-1, *out.shape[2:])
    check_out(out.reshape(flat)[late], reference.out.reshape(flat)[late])
    if case.final is not None:
        assert is_finite(result.final)
        check_state(result.final[:, chosen], reference.final)


@pytest.mark.slow
@ON_GPU
@pytest.mark.parametrize("shape", LONG, ids=lambda shape: shape.name)
def test_long(place, shape):
    """Up to a million tokens: the first and the last of each sequence, which know nothing of each other."""
    lengths = shape.lengths or (shape.tokens,)
    states = arange_state(len(lengths), 1)
    inputs = packed(lengths, 1, seed=1) if shape.lengths else upstream(shape.tokens, 1, seed=1)
    result = place.run(inputs, initial_state=states)
    assert is_finite(result.out)

    def window(begin, end, **state):
        parts = {name: x[:, begin:end] for name, x in inputs.items() if name in {*"qkvg", "beta"}}
        return kda(**{**inputs, "cu_seqlens": None, **parts, **state})

    first = 0
    for n, length in enumerate(lengths):
        begin = window(first, first + WINDOW, initial_state=states[n : n + 1])
        check_out(result.out[:, first : first + WINDOW], begin.out, "huge state")
        first += length
        end = window(first - 2 * WINDOW, first)
        check_out(result.out[:, first - WINDOW : first], end.out[:, WINDOW:])
        check_state(result.final[n], end.final[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_tail(place, dtype):
    """Sequences of 1 to 15 tokens in one pack, then of 17 to 31."""
    for lengths in (range(1, 16), range(17, 32)):
        inputs = packed(list(lengths), 4, seed=15)
        state = arange_state(15, 4, dtype=DTYPES[dtype])
        reference = kda(**inputs, initial_state=state)
        result = place.run(inputs, initial_state=state, final=DTYPES[dtype])
        check_out(result.out, reference.out, "huge state")
        check_state(result.final, reference.final)
