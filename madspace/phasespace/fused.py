"""Programs as CUDA source: one kernel for one program, its values in registers."""

import hashlib
import re
import struct
from collections.abc import Mapping, Sequence

from madspace.phasespace.columns import Column, Section, columns
from madspace.phasespace.fused_steps import ONE_PASS, Call, step_lines
from madspace.phasespace.program import Program

__all__ = ["fused_defines", "fused_head", "fused_name", "fused_source", "fused_threads"]

_WORDS = {Section.CONSTANTS: 1, Section.FOUR_INPUTS: 4, Section.FOUR_OUTPUTS: 4, Section.DRAWS: 1}
_COLUMN_WORDS = 3
_DERIVATIVES = ("_vjp", "_jvp")
_TYPES = {
    Section.INPUTS: "double",
    Section.INT_INPUTS: "int",
    Section.OUTPUTS: "double",
    Section.INT_OUTPUTS: "int",
    Section.ONCE_OUTPUTS: "double",
    Section.ONCE_INT_OUTPUTS: "int",
}


def fused_name(program: Program, output_shared: Sequence[bool], drawn: Sequence[int] = ()) -> str:
    """Return the name of the kernel of a program: equal for equal code, whatever its arguments are called.

    Parameters
    ----------
    program : Program
        The code.
    output_shared : sequence of bool
        Which of its outputs all events share.
    drawn : sequence of int, optional
        The inputs that are random numbers.
    """
    told = (
        tuple(drawn),
        [number.hex() for number in program.constants.tolist()],
        [(x.dtype.str, x.shape, x.registers) for x in program.inputs],
        [(x.dtype.str, x.shape, x.registers, flag) for x, flag in zip(program.outputs, output_shared, strict=True)],
        [(step.op, step.inputs, step.outputs) for step in program.steps],
    )
    return f"fused_{hashlib.sha256(repr(told).encode()).hexdigest()[:16]}"


def has_derivatives(program: Program) -> bool:
    """Tell whether a program computes derivatives of its ops."""
    return any(step.op.endswith(_DERIVATIVES) for step in program.steps)


def fused_threads(program: Program) -> Sequence[int]:
    """Return how many threads a multiprocessor may hold, to be tried in turn until the registers suffice.

    Few registers keep many threads at work. Those of derivatives never suffice; where steps go both ways, what lies
    outside of them is little enough for 384 threads to keep it in the cache.
    """
    if not has_derivatives(program):
        return 1024, 768, 640, 512
    return (384,) if _is_one_pass(program) else (256,)


def fused_head(program: Program) -> str:
    """Return what stands before the kernel of a program."""
    return f'{fused_defines(program)}#include "phasespace/fused_kernel.h"\nusing namespace madspace;\n'


def fused_defines(program: Program) -> str:
    """Return the macros for the kernel of a program: with derivatives all steps are read with dual numbers."""
    if not has_derivatives(program):
        return ""
    return "#define MS_WITH_ADJOINTS\n" + "#define MS_TWO_WAY\n" * _is_one_pass(program)


def _is_one_pass(program: Program) -> bool:
    adjoints = [step.op for step in program.steps if step.op.endswith(_DERIVATIVES)]
    return all(op.removesuffix("_vjp") in ONE_PASS for op in adjoints)


def fused_source(
    program: Program, output_shared: Sequence[bool], drawn: Sequence[int] = (), *, threads: int = 768
) -> str:
    """Return the kernel of a program, ``extern "C"``, to stand behind ``#include "phasespace/fused_kernel.h"``.

    Parameters
    ----------
    program : Program
        The code.
    output_shared : sequence of bool
        Which of its outputs all events share.
    drawn : sequence of int, optional
        The inputs that are random numbers, which the kernel makes itself.
    threads : int, optional
        How many threads a multiprocessor must hold, a multiple of 128: 1024 leave 64 registers to each, 768 leave 80,
        640 leave 96, 512 leave 128, 384 leave 168, 256 leave 255.
    """
    sections = columns(program, output_shared, drawn)
    places = _places(sections)
    values = {i: _literal(number) for i, number in enumerate(program.constants.tolist())}
    loads, body = {}, []
    for section in (Section.INPUTS, Section.INT_INPUTS, Section.FOUR_INPUTS):
        for column, at in zip(sections[section], places[section], strict=True):
            name = f"in{at}"
            if section is Section.FOUR_INPUTS:
                loads[name] = f"const auto {name} = event.load_four(args.body + {at});"
                values.update((register, f"{name}[{c}]") for c, register in enumerate(column.registers))
            else:
                loads[name] = f"const double {name} = event.load<{_TYPES[section]}>(args.body + {at});"
                values[column.registers[0]] = name
    for column in sections[Section.DRAWS]:
        body.append(f"const auto random{column.argument} = event.draw({column.argument});")
        values.update((register, f"random{column.argument}[{i}]") for i, register in enumerate(column.registers))
    # A result is stored as soon as its values are there: until then they take registers.
    stores = _stores(program, sections, places)
    body += [store.format(*(values[register] for register in registers)) for registers, store in stores.get(-1, [])]
    calls, behind = [], []
    for number, step in enumerate(program.steps):
        calls.append(Call(step.op, tuple(values[register] for register in step.inputs), len(step.outputs)))
        values.update((register, f"s{number}[{i}]") for i, register in enumerate(step.outputs))
        ready = stores.get(number, [])
        behind.append([store.format(*(values[register] for register in registers)) for registers, store in ready])
    for lines, more in zip(step_lines(calls), behind, strict=True):
        body += lines + more
    body = _with_loads(loads, body, late=has_derivatives(program))
    words = sum(len(sections[s]) * _WORDS.get(s, _COLUMN_WORDS) for s in Section)
    name = fused_name(program, output_shared, drawn)
    block = 256 if threads % 256 == 0 else 128
    lines = [
        f'extern "C" __global__ void __launch_bounds__({block}, {threads // block})',
        f"    {name}(const __grid_constant__ ProgramArgs<sizeof(ProgramHead) + {8 * words}> args) {{",
        "    __shared__ program::Stage stage;",
        "    const program::FusedEvent event(args.head, stage);",
        *(f"    {line}" for line in body),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _with_loads(loads: Mapping[str, str], body: Sequence[str], *, late: bool) -> list[str]:
    """Return the lines with the loads in front, or each where its number is first used: until then it takes registers.

    The earlier the better otherwise: with few registers there are other threads to wait with.
    """
    if not late:
        return [*loads.values(), *body]
    waiting, lines = dict(loads), []
    for line in body:
        lines += [waiting.pop(name) for name in re.findall(r"\bin\d+\b", line) if name in waiting]
        lines.append(line)
    return lines


def _places(sections: list[list[Column]]) -> dict[Section, list[int]]:
    """Return the first word of each column in the body of the parameters."""
    places: dict[Section, list[int]] = {}
    at = 0
    for section in Section:
        words = _WORDS.get(section, _COLUMN_WORDS)
        places[section] = [at + words * i for i in range(len(sections[section]))]
        at += words * len(sections[section])
    return places


def _stores(
    program: Program, sections: list[list[Column]], places: dict[Section, list[int]]
) -> dict[int, list[tuple[tuple[int, ...], str]]]:
    """Return the stores that can be done after each step (-1: before the first): registers, and a line with gaps."""
    written = {register: number for number, step in enumerate(program.steps) for register in step.outputs}
    stores: dict[int, list[tuple[tuple[int, ...], str]]] = {}
    for section in list(Section)[Section.OUTPUTS : Section.DRAWS]:
        for column, at in zip(sections[section], places[section], strict=True):
            if section is Section.FOUR_OUTPUTS:
                line = f"event.store_four(args.body + {at}, {{}}, {{}}, {{}}, {{}});"
            else:
                once = "_once" if section in (Section.ONCE_OUTPUTS, Section.ONCE_INT_OUTPUTS) else ""
                line = f"event.store{once}<{_TYPES[section]}>(args.body + {at}, {{}});"
            ready = max(written.get(register, -1) for register in column.registers)
            stores.setdefault(ready, []).append((column.registers, line))
    return stores


def _literal(number: float) -> str:
    """Return a float64 as C++ has it."""
    if number != number or number in (float("inf"), -float("inf")):
        (bits,) = struct.unpack("Q", struct.pack("d", number))
        return f"from_bits({bits:#x}ULL)"
    return number.hex()
