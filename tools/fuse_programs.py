"""Write the sources of the fused kernels that come with the package: ``python tools/fuse_programs.py``.

Their images are built from these files, ``cuda_src/phasespace/fused_*.cu``, which are committed: printing them needs
the package, which the build does not have yet. A test compares them with what this tool prints. A program is found
again by its code: whatever compiles to the same one runs the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import madspace
from madspace import Function, FunctionBuilder, NamedTypes
from madspace.cpu._programs import op_table
from madspace.phasespace.compile import compile_graph
from madspace.phasespace.fused import fused_source
from madspace.phasespace.types import BatchSize

FOLDER = Path(__file__).resolve().parent.parent / "cuda_src" / "phasespace"
HEAD = """// Fused kernels of programs, printed by tools/fuse_programs.py: do not edit.
#include "fused_kernel.h"

using namespace madspace;
"""


def chain(n: int, power: float = 0.8) -> Function:
    """Return a t-channel chain into n particles as MadSpace 0.2.1 builds it with the order 0, 1, ..."""
    names = [*(f"random{i}" for i in range(3 * n - 4)), "com_energy", *(f"mass{i}" for i in range(n))]
    outputs = [*(f"momentum{i}" for i in range(n + 2)), "det"]
    types = [madspace.batch_four_vec] * (n + 2) + [madspace.batch_float]
    b = FunctionBuilder(NamedTypes(names, [madspace.batch_float] * len(names)), NamedTypes(outputs, types))
    randoms = iter(b.input_range(0, 3 * n - 4))
    energy, *masses = b.input_range(3 * n - 4, len(names))
    recoils, dets = [energy], []
    for i in range(n - 2):
        low, high = b.square(b.sum(masses[i + 1 :])), b.square(b.sub(recoils[i], masses[i]))
        s, det = b.uniform_invariant(next(randoms), low, high)
        recoils.append(b.sqrt(s))
        dets.append(det)
    recoils.append(masses[-1])
    beams = b.com_p_in(energy)
    momenta, leg = [], beams[0]
    for i in range(n - 1):
        r_phi, r_t, pair = next(randoms), next(randoms), (masses[i], recoils[i + 1])
        limits = b.t_inv_min_max(leg, beams[1], *pair)
        t, det_t = b.stable_invariant_nu(r_t, 0.0, power, *limits)
        scatter = b.two_to_two_particle_scattering if i else b.two_to_two_particle_scattering_com
        first, rest, det = scatter(r_phi, leg, beams[1], t, *pair)
        momenta.append(first)
        leg = b.sub(leg, first)
        dets += [det_t, det]
    b.output_range(0, [*beams, *momenta, rest, b.product(dets)])
    return b.function()


# Per file: functions, blocks on a multiprocessor (few registers keep many threads at work, until they do not suffice).
SHIPPED = {"fused_chains": [(chain(2), 3), (chain(3), 3), (chain(4), 2), (chain(5), 2)]}


def sources() -> Iterator[tuple[str, str]]:
    """Yield name and text of each file."""
    table = op_table()
    for stem, functions in SHIPPED.items():
        kernels = []
        for function, blocks in functions:
            shared = [value.type.batch_size == BatchSize.one for value in function.outputs]
            program = compile_graph(function, table)
            kernels.append(fused_source(program, shared, blocks=blocks))
        yield f"{stem}.cu", "\n".join([HEAD, *kernels])


if __name__ == "__main__":
    for name, text in sources():
        (FOLDER / name).write_text(text)
        print(FOLDER / name)
