"""Programs: straight-line code over scalar registers, as an executor takes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from madspace.errors import UnsupportedOpError

__all__ = ["Program", "ProgramArgument", "ProgramStep"]


@dataclass(frozen=True)
class ProgramArgument:
    """An array that goes in or comes out, with one register per element of an event, row-major.

    Attributes
    ----------
    name : str
        Its name in the graph.
    dtype : numpy.dtype
        float64 or int32.
    shape : tuple of int
        Shape of one event.
    registers : tuple of int
        Where the elements go, or come from; -1 for an element of an input that is not needed.
    """

    name: str
    dtype: np.dtype[np.float64] | np.dtype[np.int32]
    shape: tuple[int, ...]
    registers: tuple[int, ...]


@dataclass(frozen=True)
class ProgramStep:
    """One op with its registers; no output register is one of its inputs."""

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """Straight-line code over registers that hold one float64 per event; int32 is exact in them.

    Attributes
    ----------
    constants : ndarray
        Float64, shape ``(n_constants,)``: the contents of the first registers, which nothing overwrites.
    n_registers : int
        Registers in all.
    inputs : tuple of ProgramArgument
        Arguments of the graph, then its globals.
    outputs : tuple of ProgramArgument
        Results.
    steps : tuple of ProgramStep
        The code, in order.
    """

    constants: NDArray[np.float64]
    n_registers: int
    inputs: tuple[ProgramArgument, ...]
    outputs: tuple[ProgramArgument, ...]
    steps: tuple[ProgramStep, ...]

    def encode(self, op_table: Mapping[str, tuple[int, int, int]]) -> NDArray[np.int32]:
        """Return the code as an executor reads it.

        Parameters
        ----------
        op_table : mapping
            From the name of an op to its number, its inputs and its outputs; -1 for lists of any length.

        Returns
        -------
        ndarray
            Int32, per step: op, number of inputs, number of outputs, input registers, output registers.

        Raises
        ------
        UnsupportedOpError
            The executor lacks an op, or its form with that many values.
        """
        words: list[int] = []
        for step in self.steps:
            if step.op not in op_table:
                raise UnsupportedOpError(f"{step.op}: the executor does not have this operation")
            number, *wanted = op_table[step.op]
            counts = [len(step.inputs), len(step.outputs)]
            if any(expected not in (-1, got) for expected, got in zip(wanted, counts, strict=True)):
                raise UnsupportedOpError(
                    f"{step.op}: the executor has this operation with {wanted[0]} inputs and {wanted[1]} outputs, "
                    f"not with {counts[0]} and {counts[1]}"
                )
            words += [number, *counts, *step.inputs, *step.outputs]
        return np.array(words, dtype=np.int32)

    def to_bytes(self) -> bytes:
        """Return the program as bytes, for files and for ``ms_program_from_bytes`` of the C API.

        Returns
        -------
        bytes
            UTF-8 text that this and later versions read; the same for the same program.
        """
        from madspace.phasespace.program_bytes import dumps

        return dumps(self)

    @staticmethod
    def from_bytes(data: bytes) -> "Program":
        """Return the program that `to_bytes` was called of.

        Parameters
        ----------
        data : bytes
            From `to_bytes`, of this version or an earlier one.

        Returns
        -------
        Program

        Raises
        ------
        ValueError
            When `data` is something else, or damaged.
        """
        from madspace.phasespace.program_bytes import loads

        return loads(data)

    def describe(self) -> str:
        """Return a listing for people: sizes, constants, inputs, steps and outputs with their registers."""
        lines = [
            f"program: {len(self.steps)} steps, {self.n_registers} registers, {len(self.constants)} of them constants"
        ]
        lines += ["constants:"] + [f"  r{i} = {number!r}" for i, number in enumerate(self.constants.tolist())]
        lines += ["inputs:"] + [f"  {_registers(x.registers)} = {_label(x)}" for x in self.inputs]
        width = len(str(max(len(self.steps) - 1, 0)))
        lines += ["steps:"]
        for i, step in enumerate(self.steps):
            lines += [f"  {i:{width}}  {_registers(step.outputs)} = {step.op}({_registers(step.inputs)})"]
        lines += ["outputs:"] + [f"  {_label(x)} = {_registers(x.registers)}" for x in self.outputs]
        return "\n".join(lines) + "\n"


def _label(argument: ProgramArgument) -> str:
    shape = f"[{', '.join(map(str, argument.shape))}]" if argument.shape else ""
    return argument.name + shape + (" (int32)" if argument.dtype == np.int32 else "")


def _registers(registers: Sequence[int]) -> str:
    """Return a list of registers, neighbours in one range; ``_`` is an element that nothing needs."""
    parts: list[str] = []
    i = 0
    while i < len(registers):
        j = i
        while j + 1 < len(registers) and registers[i] >= 0 and registers[j + 1] == registers[j] + 1:
            j += 1
        if j < i + 2:
            j = i
        parts.append("_" if registers[i] < 0 else f"r{registers[i]}" + (f"..r{registers[j]}" if j > i else ""))
        i = j + 1
    return ", ".join(parts)
