"""Runs CUDA kernels on the host, lane by lane (see machine.h), as kernels of the fake driver."""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
from pathlib import Path

from compiled import compiled

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent.parent / "cuda_src"
# Of each family: its kernels, and what the machine puts in the place of which header.
KERNELS = {
    "kda": [f"kda_{stem}_{d}" for stem in ("forward", "prepare", "scan", "decode") for d in (64, 128)]
    + ["kda_forward_wide_128"],
    "phasespace": ["program_small", "program_large", "program_chain", "random_uniform"],
}
FUSED_HEAD = """
#include "machine.h"
#undef __shared__
#define __shared__ static
#include "phasespace/fused_kernel.h"
using namespace madspace;
alignas(1024) char memory[machine::kSharedBytes];
char* machine::shared = memory;
template <class Args>
void launch(void (*kernel)(Args), void** params, const unsigned* grid, const unsigned* block) {
    const Args& args = *static_cast<const Args*>(params[0]);
    machine::run([&] { kernel(args); }, grid, block);
}
"""
FUSED_TWIN = """
extern "C" __attribute__((visibility("default"))) void twin_NAME(void** params, const unsigned* grid,
                                                                 const unsigned* block) {
    launch(NAME, params, grid, block);
}
"""
DOUBLES = {"kda": ("ptx.h", "kda/ptx.h"), "phasespace": ("seeds.h", "include/madspace/seeds.h")}


def build(family: str, kernels: str = "") -> Path:
    """Compile the kernels of a family for the host where that has not been done yet; the path of the library.

    `kernels`: their source, if it is not part of the family.
    """
    double, place = DOUBLES[family]
    own = [HERE / name for name in ("machine.cpp", "machine.h", double)]
    first = kernels or (HERE / f"kernels_{family}.cpp").read_text()
    parts = sorted([*SOURCES.glob(f"{family}/*"), *SOURCES.glob("include/madspace/*")])

    def arguments(tree: Path) -> list[str | Path]:
        """Put the kernels where they find the machine's instructions beside them instead of the GPU's."""
        for folder in ("include", family):
            shutil.copytree(SOURCES / folder, tree / folder)
        shutil.copy(HERE / double, tree / place)
        (tree / "kernels.cpp").write_text(first)
        flags = ["-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wno-attributes", "-x", "c++"]
        paths = [f"-I{folder}" for folder in (tree, tree / "include", tree / "include/madspace", tree / family, HERE)]
        return [*flags, *paths, HERE / "machine.cpp", tree / "kernels.cpp"]

    return compiled(f"{family}.so", own + parts, arguments, first)


@functools.cache
def load(family: str, kernels: str = "") -> ctypes.CDLL:
    """Return the library of a family."""
    library = ctypes.CDLL(str(build(family, kernels)))
    library.machine_problem.restype = ctypes.c_char_p
    _loaded.append(library)
    return library


_loaded: list[ctypes.CDLL] = []


def problem() -> str:
    """Return what a kernel did wrong first, and forget it; empty if nothing.

    An address outside, a wait without end, lanes that use memory without being in order.
    """
    return "".join(library.machine_problem().decode() for library in _loaded)


def register(fake, family: str) -> None:
    """Let the fake driver's launches of a family's kernels run here."""
    for name in KERNELS[family]:
        fake.register(name, ctypes.cast(load(family)[f"twin_{name}"], ctypes.c_void_p).value)


def register_fused(fake, source: str) -> None:
    """Let the fake driver's launches of fused kernels run here.

    `source`: of all of them, without includes.
    """
    names = re.findall(r"\bfused_[0-9a-f]{16}\b", source)
    twins = "".join(FUSED_TWIN.replace("NAME", name) for name in names)
    define = "#define MS_WITH_ADJOINTS\n" if re.search(r"_(jvp|vjp)\b|\bBoth\b", source) else ""
    library = load("phasespace", define + FUSED_HEAD + source + twins)
    for name in names:
        fake.register(name, ctypes.cast(library[f"twin_{name}"], ctypes.c_void_p).value)
