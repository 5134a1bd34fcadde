"""The compiler from graphs to programs: scalar code, dead code, lifetimes, registers."""

import heapq
from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import numpy as np

from madspace.phasespace.graph import Graph
from madspace.phasespace.lowering import lower
from madspace.phasespace.program import Program, ProgramArgument, ProgramStep
from madspace.phasespace.scalar_code import ScalarCode, ScalarOp
from madspace.phasespace.types import DataType, Type
from madspace.phasespace.values import NamedValues

__all__ = ["compile_code", "compile_graph"]

# An array with its name, its type and the scalars of its elements.
Array: TypeAlias = tuple[str, Type, Sequence[int]]

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
    globals_ = [(name, value.type, x) for (name, value), x in zip(graph.globals, lowered.globals, strict=True)]
    return compile_code(
        lowered.code,
        [*_arrays(graph.inputs, lowered.inputs), *globals_],
        _arrays(graph.outputs, lowered.outputs),
    )


def compile_code(code: ScalarCode, inputs: Sequence[Array], outputs: Sequence[Array]) -> Program:
    """Compile scalar code: leave out what no output needs, and give registers.

    Parameters
    ----------
    code : ScalarCode
        The code.
    inputs, outputs : sequence of (str, Type, sequence of int)
        Arrays with their names, types and scalars, row-major.

    Returns
    -------
    Program
        The program.
    """
    results = [x for *_, scalars in outputs for x in scalars]
    ops = code.live_ops(results)
    registers = _Registers(ops, results)
    # Constants and elements of inputs that nothing reads have no register.
    constants = [scalar for scalar in code.constants if scalar in registers.last_use]
    registers.keep(constants)
    registers.load([x for *_, scalars in inputs for x in scalars if x in registers.last_use])
    steps = tuple(registers.step(position, op) for position, op in enumerate(ops))
    return Program(
        constants=np.array([code.constants[scalar] for scalar in constants], dtype=np.float64),
        n_registers=registers.count,
        inputs=tuple(registers.argument(*array) for array in inputs),
        outputs=tuple(registers.argument(*array) for array in outputs),
        steps=steps,
    )


def _arrays(values: NamedValues, scalars: Sequence[Sequence[int]]) -> list[Array]:
    return [(name, v.type, x) for name, v, x in zip(values.keys(), values.values(), scalars, strict=True)]


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

    def argument(self, name: str, type: Type, scalars: Sequence[int]) -> ProgramArgument:
        """Return an array that goes in or comes out, with its registers."""
        registers = tuple(self.of.get(x, -1) for x in scalars)
        return ProgramArgument(name, _DTYPES[type.dtype], tuple(type.shape), registers)
