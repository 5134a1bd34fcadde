"""Write the sources of the fused kernels that come with the package: ``python tools/fuse_programs.py``.

Their images are built from these files, ``cuda_src/phasespace/fused_*.cu``, which are committed: printing them needs
the package, which the build does not have yet. A test compares them with what this tool prints. A program is found
again by its code: whatever compiles to the same one runs the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from madspace import Function, TPropagatorMapping
from madspace.cpu._programs import op_table
from madspace.phasespace.compile import compile_graph
from madspace.phasespace.fused import fused_defines, fused_source, fused_threads
from madspace.phasespace.gradients import MOST_DIRECTIONS, compile_vjp
from madspace.phasespace.program import Program

FOLDER = Path(__file__).resolve().parent.parent / "cuda_src" / "phasespace"
INCLUDE = '#include "fused_kernel.h"'
SPILLS_ELSEWHERE = "// spills-allowed: threads are chosen for sm_90a; other targets need some registers more\n"
SPILLS = "// spills-allowed: what the way back needs does not fit into the registers of 384 threads\n"
HEAD = f"""// Fused kernels of programs, printed by tools/fuse_programs.py: do not edit.
{INCLUDE}

using namespace madspace;
"""


def mapped(n: int) -> tuple[Function, tuple[int, ...]]:
    """Return the map of random numbers to n particles, and which of its arguments are random numbers."""
    mapping = TPropagatorMapping(list(range(n - 1)), 0.8)
    return mapping.forward_function(), tuple(range(len(mapping.input_types())))


# Threads on a multiprocessor by particles: the most whose registers suffice, as where kernels are compiled on demand.
THREADS = {2: 1024, 3: 1024, 4: 768, 5: 640}


def sources() -> Iterator[tuple[str, str]]:
    """Yield name and text of each file."""
    table = op_table()
    kernels = []
    for n, threads in THREADS.items():
        function, randoms = mapped(n)
        program = compile_graph(function, table)
        shared = [False] * len(program.outputs)
        kernels += [fused_source(program, shared, drawn, threads=threads) for drawn in ((), randoms)]
    yield "fused_chains.cu", "\n".join([SPILLS_ELSEWHERE + HEAD, *kernels])
    programs = list(_gradients())
    head = SPILLS + HEAD.replace(INCLUDE, fused_defines(programs[0]) + INCLUDE)
    kernels = [
        fused_source(program, [False] * len(program.outputs), threads=fused_threads(program)[0]) for program in programs
    ]
    yield "fused_gradients.cu", "\n".join([head, *kernels])


def _gradients() -> Iterator[Program]:
    """Yield the gradients of a map's random numbers: from all results, and from all but the beams."""
    function, randoms = mapped(3)
    wanted = [i in randoms for i in range(len(function.inputs))]
    for first in (0, 2):
        positions = range(first, len(function.outputs))
        yield compile_vjp(function, positions, wanted, op_table(), most_directions=MOST_DIRECTIONS)


if __name__ == "__main__":
    for name, text in sources():
        (FOLDER / name).write_text(text)
        print(FOLDER / name)
