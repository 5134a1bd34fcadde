"""Where the interpreter of GPUs keeps values: rows of a file, which are free again as soon as nothing reads them."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from madspace.phasespace.columns import Column, Section
from madspace.phasespace.program import Program, ProgramStep

__all__ = ["Rows", "Store", "assign_rows"]

_RESULTS = list(Section)[Section.OUTPUTS : Section.DRAWS]


@dataclass(frozen=True)
class Store:
    """A step that stores a column of results."""

    section: int
    column: int


@dataclass(frozen=True)
class Rows:
    """A program over rows.

    Attributes
    ----------
    count : int
        Rows in all.
    code : list of (ProgramStep or Store)
        The steps, over rows; results are stored as soon as they are there.
    sections : list of list of Column
        The columns by section, with rows in the place of registers.
    """

    count: int
    code: list[ProgramStep | Store]
    sections: list[list[Column]]


def assign_rows(
    program: Program, sections: Sequence[Sequence[Column]], available: Mapping[str, tuple[int, int, int]]
) -> Rows:
    """Give rows to the values of a program: to its constants the first ones, and then to what is loaded.

    A program's own registers hold its results until the end; here they are stored on the way.

    Parameters
    ----------
    program : Program
        The code.
    sections : sequence of sequence of Column
        Its columns, see `columns`.
    available : mapping
        Ops of the interpreter, with their numbers, inputs and outputs; -1 for lists of any length. Those of a fixed
        number of values read all of them before they write, so they may write where they have read.
    """
    # Every write of a register makes a value; values are numbered in that order.
    value_of = {register: register for register in range(len(program.constants))}
    made_by = dict.fromkeys(value_of, -1)

    def make(register: int, step: int) -> int:
        value_of[register] = value = len(made_by)
        made_by[value] = step
        return value

    loads: list[list[tuple[int, ...]]] = [
        [tuple(make(r, -1) if r >= 0 else -1 for r in column.registers) for column in found]
        if section not in _RESULTS
        else []
        for section, found in zip(Section, sections, strict=True)
    ]
    steps = []
    for number, step in enumerate(program.steps):
        inputs = tuple(value_of[register] for register in step.inputs)
        steps.append((step.op, inputs, tuple(make(register, number) for register in step.outputs)))
    stores: dict[int, list[tuple[Store, tuple[int, ...]]]] = {}
    for section in _RESULTS:
        for k, column in enumerate(sections[section]):
            values = tuple(value_of[register] for register in column.registers)
            ready = max(made_by[value] for value in values)
            stores.setdefault(ready, []).append((Store(int(section), k), values))

    last_use = dict.fromkeys(made_by, -1)
    for number, (_, inputs, _) in enumerate(steps):
        last_use.update(dict.fromkeys(inputs, number))
    for ready, found in stores.items():
        for _, values in found:
            last_use.update({value: max(last_use[value], ready) for value in values})

    row_of = {value: value for value, step in made_by.items() if step < 0}
    count = len(row_of)
    free: list[int] = []

    def release(values: Iterable[int], step: int) -> None:
        for value in values:
            if last_use[value] <= step:
                heapq.heappush(free, row_of[value])

    new_sections = [
        [replace(column, registers=tuple(-1 if x < 0 else row_of[x] for x in values)) for column, values in pairs]
        for pairs in (list(zip(found, known, strict=False)) for found, known in zip(sections, loads, strict=True))
    ]
    for section in _RESULTS:
        new_sections[section] = list(sections[section])
    code: list[ProgramStep | Store] = []

    def store(ready: int) -> None:
        for step, values in stores.get(ready, []):
            code.append(step)
            column = sections[step.section][step.column]
            new_sections[step.section][step.column] = replace(column, registers=tuple(row_of[x] for x in values))

    store(-1)
    release(row_of, -1)
    for number, (op, inputs, outputs) in enumerate(steps):
        stored = {value for _, values in stores.get(number, []) for value in values}
        ended = {*inputs} - stored
        if available[op][1] >= 0:
            release(ended, number)
            ended = set()
        in_rows = tuple(row_of[x] for x in inputs)
        for value in outputs:
            if free:
                row_of[value] = heapq.heappop(free)
            else:
                row_of[value] = count
                count += 1
        code.append(ProgramStep(op, in_rows, tuple(row_of[x] for x in outputs)))
        store(number)
        release(ended | {*outputs} | stored, number)
    return Rows(count, code, new_sections)
