"""The compiler from graphs to programs: scalar code, dead code, lifetimes, registers."""

import heapq
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from madspace.phasespace.graph import Graph
from madspace.phasespace.lowering import lower
from madspace.phasespace.program import Program, ProgramArgument, ProgramStep
from madspace.phasespace.scalar_code import ScalarOp
from madspace.phasespace.types import DataType
from madspace.phasespace.values import Value

__all__ = ["compile_graph"]

_DTYPES: dict[DataType, Any] = {DataType.int: np.dtype(np.int32), DataType.float: np.dtype(np.float64)}


def compile_graph(graph: Graph, available: Collection[str] = ()) -> Program:
    """Compile a graph.

    Parameters
    ----------
    graph : Graph
        A function.
    available : collection of str
        Ops of the executor; of those that are cheaper in a special case only these are used.

    Returns
    -------
    Program
        Its inputs are the graph's arguments and then its globals.

    Raises
    ------
    ShapeError
        Arguments have more than one named batch size, or a constant index is out of range.
    UnsupportedOpError
        An argument or a result is a list of batch sizes.

    Notes
    -----
    Equal subexpressions are computed once, constants beforehand, and what no output needs not at all; whatever only
    moves numbers (``stack``, ``unstack``, ``gather`` with a constant index, ...) takes no step. A register is given to
    the next value as soon as its last reader is past.
    """
    lowered = lower(graph, available)
    results = [x for scalars in lowered.outputs for x in scalars]
    ops = lowered.code.live_ops(results)
    loaded = [x for scalars in (*lowered.inputs, *lowered.globals) for x in scalars]
    registers = _Registers(ops, results)
    # Constants and elements of inputs that nothing reads have no register.
    constants = [scalar for scalar in lowered.code.constants if scalar in registers.last_use]
    registers.keep(constants)
    registers.load([scalar for scalar in loaded if scalar in registers.last_use])
    steps = tuple(registers.step(position, op) for position, op in enumerate(ops))

    arguments = list(zip(graph.inputs.keys(), graph.inputs.values(), lowered.inputs, strict=True))
    arguments += [(name, value, x) for (name, value), x in zip(graph.globals, lowered.globals, strict=True)]
    outputs = zip(graph.outputs.keys(), graph.outputs.values(), lowered.outputs, strict=True)
    return Program(
        constants=np.array([lowered.code.constants[scalar] for scalar in constants], dtype=np.float64),
        n_registers=registers.count,
        inputs=tuple(registers.argument(*argument) for argument in arguments),
        outputs=tuple(registers.argument(*result) for result in outputs),
        steps=steps,
    )


class _Registers:
    """Gives registers to scalars in the order in which they come to life."""

    def __init__(self, ops: Sequence[ScalarOp], results: Sequence[int]) -> None:
        self.last_use = {x: position for position, op in enumerate(ops) for x in op.inputs}
        self.last_use.update(dict.fromkeys(results, len(ops)))
        self.of: dict[int, int] = {}
        self.count = 0
        self.kept: set[int] = set()
        self.free: list[int] = []

    def keep(self, scalars: Sequence[int]) -> None:
        """Give registers for good."""
        self.load(scalars)
        self.kept.update(scalars)

    def load(self, scalars: Sequence[int]) -> None:
        """Give registers to what is there before the first step."""
        self.of.update((scalar, self.count + i) for i, scalar in enumerate(scalars))
        self.count += len(scalars)

    def take(self) -> int:
        """Return the lowest free register."""
        if self.free:
            return heapq.heappop(self.free)
        self.count += 1
        return self.count - 1

    def step(self, position: int, op: ScalarOp) -> ProgramStep:
        """Give registers to the results of an op and take back those that nothing reads any more."""
        inputs = tuple(self.of[x] for x in op.inputs)
        outputs = tuple(self.take() for _ in op.outputs)
        self.of.update(zip(op.outputs, outputs, strict=True))
        ended = [x for x in dict.fromkeys(op.inputs) if self.last_use[x] == position and x not in self.kept]
        ended += [x for x in op.outputs if x not in self.last_use]
        for x in ended:
            heapq.heappush(self.free, self.of[x])
        return ProgramStep(op.name, inputs, outputs)

    def argument(self, name: str, value: Value, scalars: Sequence[int]) -> ProgramArgument:
        """Return an array that goes in or comes out, with its registers."""
        registers = tuple(self.of.get(x, -1) for x in scalars)
        return ProgramArgument(name, _DTYPES[value.type.dtype], tuple(value.type.shape), registers)
