"""What a GPU loads and stores of a program's arrays, in the order of ``cuda_src/phasespace/program_args.h``."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from madspace.phasespace.program import Program

__all__ = ["Column", "Section", "columns", "draws"]


class Section(IntEnum):
    """Where a column stands in the kernel's parameters."""

    CONSTANTS = 0
    INPUTS = 1
    INT_INPUTS = 2
    FOUR_INPUTS = 3
    OUTPUTS = 4
    INT_OUTPUTS = 5
    FOUR_OUTPUTS = 6
    ONCE_OUTPUTS = 7
    ONCE_INT_OUTPUTS = 8
    DRAWS = 9


@dataclass(frozen=True)
class Column:
    """One element of an array in every event, or four adjacent ones; or two random numbers.

    Attributes
    ----------
    argument : int
        Number of the array among the program's inputs, or among its outputs; of random numbers, that of the pair.
    index : tuple of int
        Of the (first) element in an event.
    registers : tuple of int
        One or four; of random numbers two, -1 for one that is not wanted.
    """

    argument: int
    index: tuple[int, ...]
    registers: tuple[int, ...]


def columns(program: Program, output_shared: Sequence[bool], drawn: Sequence[int] = ()) -> list[list[Column]]:
    """Return the columns of a program by section.

    Parameters
    ----------
    program : Program
        The code.
    output_shared : sequence of bool
        Which of its outputs all events share.
    drawn : sequence of int, optional
        The inputs that are random numbers, not read but made.
    """
    sections: list[list[Column]] = [[] for _ in Section]
    sides = (
        (program.inputs, [(Section.INPUTS, Section.INT_INPUTS, Section.FOUR_INPUTS)] * len(program.inputs)),
        (
            program.outputs,
            [
                (Section.ONCE_OUTPUTS, Section.ONCE_INT_OUTPUTS, None)
                if shared
                else (Section.OUTPUTS, Section.INT_OUTPUTS, Section.FOUR_OUTPUTS)
                for shared in output_shared
            ],
        ),
    )
    for arguments, places in sides:
        for number, (argument, (floats, ints, fours)) in enumerate(zip(arguments, places, strict=True)):
            if arguments is program.inputs and number in drawn:
                continue
            registers, shape = argument.registers, argument.shape
            is_float = argument.dtype == np.float64
            k = 0
            while k < len(registers):
                index = tuple(int(i) for i in np.unravel_index(k, shape)) if shape else ()
                if (
                    fours is not None
                    and is_float
                    and shape[-1:] == (4,)
                    and k % 4 == 0
                    and min(registers[k : k + 4]) >= 0
                ):
                    sections[fours].append(Column(number, index, registers[k : k + 4]))
                    k += 4
                    continue
                if registers[k] >= 0:
                    sections[floats if is_float else ints].append(Column(number, index, registers[k : k + 1]))
                k += 1
    randoms = draws(program, drawn)
    for k in range(0, len(randoms), 2):
        pair = (*randoms[k : k + 2], -1)[:2]
        if max(pair) >= 0:
            sections[Section.DRAWS].append(Column(k // 2, (), pair))
    return sections


def draws(program: Program, drawn: Sequence[int]) -> tuple[int, ...]:
    """Return the registers of the random numbers of an event: those of the inputs that are drawn, one after another."""
    return tuple(register for number in drawn for register in program.inputs[number].registers)
