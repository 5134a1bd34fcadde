"""Straight-line code over scalars that are assigned once: what a graph becomes before registers are chosen."""

import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from madspace.phasespace import arithmetic

__all__ = ["ScalarCode", "ScalarOp"]

# The order of their arguments does not matter, up to the payload of a NaN.
_COMMUTATIVE = frozenset({"add", "add_int", "mul"})
# What a list of two is, and an empty one.
_PAIRS = {"reduce_sum": "add", "reduce_product": "mul"}
_EMPTY = {"reduce_sum": 0.0, "reduce_product": 1.0}
# Cheaper ops for one value of an input: op, position and value, the op without that input.
_SPECIAL = (
    ("stable_invariant_nu", 2, 1.0, "stable_invariant"),
    ("stable_invariant_nu_inverse", 2, 1.0, "stable_invariant_inverse"),
    ("stable_invariant_nu", 2, 0.8, "stable_invariant_fifth"),
    ("t_chain_transfer", 7, 0.0, "t_chain_transfer_uniform"),
    ("t_chain_transfer", 7, 0.8, "t_chain_transfer_fifth"),
    ("t_chain_transfer", 7, 1.0, "t_chain_transfer_log"),
)


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
        self._special = {(op, i, x): cheaper for op, i, x, cheaper in _SPECIAL if cheaper in available}
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
        for (op, position, value), cheaper in self._special.items():
            if name == op and self.constants.get(inputs[position]) == value:
                name, inputs = cheaper, inputs[:position] + inputs[position + 1 :]
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
