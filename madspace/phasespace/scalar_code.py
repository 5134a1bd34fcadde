"""Straight-line code over scalars that are assigned once: what a graph becomes before registers are chosen."""

import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from madspace.phasespace import arithmetic

__all__ = ["ScalarCode", "ScalarOp", "special_ops"]

# The order of their arguments does not matter, up to the payload of a NaN.
_COMMUTATIVE = frozenset({"add", "add_int", "mul"})
# What a list of two is, and an empty one.
_PAIRS = {"reduce_sum": "add", "reduce_product": "mul"}
_EMPTY = {"reduce_sum": 0.0, "reduce_product": 1.0}
# Cheaper ops where some inputs are constants: op, positions and values of these, the other op and the inputs it takes.
# The first that fits is taken, and then perhaps another one of what that gave.
_Special: TypeAlias = tuple[str, dict[int, float], str, tuple[int, ...]]


def _without(op: str, inputs: int, constants: dict[int, float], cheaper: str) -> _Special:
    """Return what leaves out the constants alone."""
    return op, constants, cheaper, tuple(i for i in range(inputs) if i not in constants)


def _transfers(cheaper: str) -> list[_Special]:
    """Return the transfers of one map whose legs are beams."""
    legs = {"start": {5: 0.0, 6: 0.0}, "b": {5: 0.0}, "a": {6: 0.0}}
    return [_without(cheaper, 8, zeros, f"{cheaper}_{name}") for name, zeros in legs.items()]


_FRAME = (0, 1, 2, 3, 4)
_SPECIAL: tuple[_Special, ...] = (
    _without("stable_invariant_nu", 5, {2: 1.0}, "stable_invariant"),
    _without("stable_invariant_nu_inverse", 5, {2: 1.0}, "stable_invariant_inverse"),
    _without("stable_invariant_nu", 5, {2: 0.8}, "stable_invariant_fifth"),
    _without("t_chain_transfer", 9, {7: 0.0}, "t_chain_transfer_uniform"),
    _without("t_chain_transfer", 9, {7: 0.8}, "t_chain_transfer_fifth"),
    _without("t_chain_transfer", 9, {7: 1.0}, "t_chain_transfer_log"),
    *_transfers("t_chain_transfer_uniform"),
    *_transfers("t_chain_transfer_fifth"),
    *_transfers("t_chain_transfer_log"),
    ("t_chain_scatter", dict.fromkeys(range(9, 16), 0.0), "t_chain_scatter_start", (*_FRAME, 16)),
    ("t_chain_scatter", {12: 0.0, 13: 0.0, 14: 0.0}, "t_chain_scatter_lower", (*range(12), 16)),
    ("t_chain_scatter", {15: 0.0}, "t_chain_scatter_upper", (*range(12), 16)),
)


def special_ops(ops: Collection[str]) -> frozenset[str]:
    """Return the cheaper ops that stand for some ops in special cases, but those that are among them."""
    return frozenset(cheaper for op, _, cheaper, _ in _SPECIAL if op in ops and cheaper not in ops)


@dataclass(frozen=True)
class ScalarOp:
    """One op; inputs and outputs are numbers of scalars."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class ScalarCode:
    """Builds scalar code; what is known or was computed already is not computed again.

    Parameters
    ----------
    available : collection of str
        Ops of the executor; of those that are cheaper in a special case only these are used.
    """

    def __init__(self, available: Collection[str] = ()) -> None:
        self._special = [special for special in _SPECIAL if special[2] in available]
        self.n_scalars = 0
        self.ops: list[ScalarOp] = []
        self.constants: dict[int, float] = {}
        self._constant_numbers: dict[bytes, int] = {}
        self._known: dict[tuple[object, ...], tuple[int, ...]] = {}

    def new(self, count: int) -> tuple[int, ...]:
        """Return new scalars."""
        first = self.n_scalars
        self.n_scalars += count
        return tuple(range(first, self.n_scalars))

    def constant(self, number: float) -> int:
        """Return the scalar of a constant."""
        key = struct.pack("d", number)
        if key not in self._constant_numbers:
            (scalar,) = self.new(1)
            self._constant_numbers[key] = scalar
            self.constants[scalar] = float(number)
        return self._constant_numbers[key]

    def emit(self, name: str, inputs: Sequence[int], n_outputs: int = 1) -> tuple[int, ...]:
        """Add an op and return its results."""
        inputs = tuple(inputs)
        if name == "reduce_product":
            inputs = tuple(x for x in inputs if self.constants.get(x) != 1.0) or inputs[:1]
        if name in _PAIRS and len(inputs) < 2:
            return inputs or (self.constant(_EMPTY[name]),)
        if name in _PAIRS and len(inputs) == 2:
            name = _PAIRS[name]
        for op, constants, cheaper, kept in self._special:
            if name == op and all(self.constants.get(inputs[i]) == x for i, x in constants.items()):
                name, inputs = cheaper, tuple(inputs[i] for i in kept)
        known = self._without_op(name, inputs)
        if known is not None:
            return (known,)
        key = (name, n_outputs, *(sorted(inputs) if name in _COMMUTATIVE else inputs))
        if key not in self._known:
            outputs = self.new(n_outputs)
            self.ops.append(ScalarOp(name, inputs, outputs))
            self._known[key] = outputs
        return self._known[key]

    def _without_op(self, name: str, inputs: tuple[int, ...]) -> int | None:
        numbers = [self.constants.get(x) for x in inputs]
        present = [x for x in numbers if x is not None]
        if len(present) == len(numbers):
            result = arithmetic.evaluate(name, present)
            if result is not None:
                return self.constant(result)
        same = arithmetic.same_as(name, numbers)
        return None if same is None else inputs[same]

    def ops_behind(self, scalars: Iterable[int]) -> tuple[list[ScalarOp], set[int]]:
        """Return the ops that some scalars have an influence on, and all these scalars."""
        active = set(scalars)
        ops = []
        for op in self.ops:
            if not active.isdisjoint(op.inputs):
                active.update(op.outputs)
                ops.append(op)
        return ops, active

    def live_ops(self, results: Sequence[int]) -> list[ScalarOp]:
        """Return the ops that the results need."""
        needed = set(results)
        live = []
        for op in reversed(self.ops):
            if not needed.isdisjoint(op.outputs):
                live.append(op)
                needed.update(op.inputs)
        return live[::-1]
