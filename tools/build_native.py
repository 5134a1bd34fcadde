"""The compiled half of the package: Cython extensions, and the CPU kernels once per instruction set.

``setup.py`` hands `BuildExt` to setuptools. It compiles what has changed, by the compiler's own list of the headers
that each file reads, on all cores, and keeps objects in ``build/native`` of the source tree, so that editable builds
(setuptools gives them a fresh temporary folder each time) are incremental as well.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import nvrtc
from Cython.Build import cythonize
from Cython.Compiler.Errors import CompileError as CythonError
from setuptools import Extension
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

__all__ = ["BuildExt", "extensions"]

ROOT = Path(__file__).resolve().parent.parent
LANES = "madspace.cpu._lanes"

DIRECTIVES = {"language_level": "3", "freethreading_compatible": True, "embedsignature": False}

# -g0 undoes the -g that distributions build Python with: debug information would be most of the wheel.
COMMON_FLAGS = ["-std=c++17", "-g0", "-fvisibility=hidden"]
CYTHON_FLAGS = [*COMMON_FLAGS, "-O2", "-w"]  # -w: warnings in generated code help nobody
# errno is control flow, and traps forbid speculation: with either, loops over sqrt and selections stay scalar. Partial
# redundancy elimination ties selections that share a condition into control flow that does not vectorise.
LANES_FLAGS = [
    *COMMON_FLAGS,
    *("-O3", "-Wall", "-fno-math-errno", "-fno-trapping-math", "-fno-tree-pre", "-fopenmp-simd"),
]

# Instruction sets of the CPU kernels. MS_ISA names the inline namespace of each build: without it the linker would keep
# one copy of a template for all, perhaps the one that this machine cannot run.
X86_ISAS = {
    "base": ["-march=x86-64"],
    "v3": ["-march=x86-64-v3"],
    "v4": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}
OTHER_ISAS: dict[str, list[str]] = {"base": []}


@dataclass(frozen=True)
class Unit:
    """One call of the compiler: source, object and flags."""

    source: Path
    object: Path
    flags: tuple[str, ...]


def isas() -> dict[str, list[str]]:
    """Return the instruction sets to build for on this machine, name to compiler flags."""
    return X86_ISAS if platform.machine() in ("x86_64", "AMD64") else OTHER_ISAS


def extensions() -> list[Extension]:
    """Return an extension for every ``.pyx`` of the package."""
    found = []
    for path in sorted(ROOT.glob("madspace/**/*.pyx")):
        source = path.relative_to(ROOT)
        name = ".".join(source.with_suffix("").parts)
        found.append(Extension(name, [source.as_posix()], language="c++"))
    return found


def jobs() -> int:
    """Return how many compilers run at once: the cores that this process may use."""
    return len(os.sched_getaffinity(0))


class BuildExt(build_ext):
    """Build the extensions incrementally and leave them in the source tree, too.

    The copy in the source tree is there for whoever starts Python in it: the folder ``madspace`` then hides the
    installed package, and without its extensions it could not be imported.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        self.work = ROOT / "build" / "native" / f"{sysconfig.get_platform()}-{sysconfig.get_config_var('SOABI')}"

    def build_extensions(self) -> None:
        os.chdir(ROOT)
        self.cuda_headers = nvrtc.header_dirs("cuda.h", "cudaProfiler.h")
        print(f"extensions: CUDA headers of {self.cuda_headers[0]}", flush=True)
        generated = self.translate()
        units = [self.units(extension) for extension in generated]
        with ThreadPoolExecutor(jobs()) as pool:
            # list() so that a failure is raised; what still waits is then not started.
            list(pool.map(self.compile, [unit for parts in units for unit in parts]))
            list(pool.map(self.link, generated, units))

    def translate(self) -> list[Extension]:
        """Return the extensions with C++ sources in place of Cython's."""
        try:
            return list(
                cythonize(
                    self.extensions,
                    include_path=["."],
                    build_dir=str(self.work / "cython"),
                    compiler_directives=DIRECTIVES,
                    nthreads=jobs(),
                    quiet=True,
                )
            )
        except CythonError as error:
            # The message is on the terminal already; what came with it is the trace of a worker process.
            raise CompileError(f"Cython: {error}") from None

    def copy_extensions_to_source(self) -> None:
        """Do nothing: `link` has put them there."""

    def units(self, extension: Extension) -> list[Unit]:
        """Return the compiler calls that `extension`, already translated to C++, consists of."""
        package = str(Path(*extension.name.split(".")[:-1]))
        own = [f"-I{path}" for path in ("cuda_src/include", "cuda_src", "madspace/include", package)]
        foreign = [f"-I{path}" for path in (sysconfig.get_path("include"), *self.cuda_headers)]
        target = self.work / "objects" / f"{extension.name}.o"
        units = [Unit(Path(extension.sources[0]), target, (*CYTHON_FLAGS, *own, *foreign))]
        if extension.name == LANES:
            for isa, march in isas().items():
                for source in sorted(Path("madspace/cpu").glob("lanes_*.cpp")):
                    target = self.work / isa / f"{source.stem}.o"
                    units.append(Unit(source, target, (*LANES_FLAGS, *march, f"-DMS_ISA={isa}", *own)))
        return units

    def compile(self, unit: Unit) -> None:
        """Compile `unit` unless its object was made by the same command from the same files."""
        unit.object.parent.mkdir(parents=True, exist_ok=True)
        depfile = unit.object.with_suffix(".d")
        compiler = getattr(self.compiler, "compiler_so_cxx", None) or self.compiler.compiler_so
        command = [*compiler, *unit.flags, "-MD", "-MF", str(depfile), "-c", str(unit.source), "-o", str(unit.object)]
        if not _is_current(unit.object, command, _read_depfile(depfile)):
            self.execute_command(command, unit.object)

    def link(self, extension: Extension, units: list[Unit]) -> None:
        """Link `extension` and put it where setuptools expects it, and into the source tree."""
        target = self.work / "linked" / Path(*extension.name.split(".")[:-1]) / self.filename(extension)
        target.parent.mkdir(parents=True, exist_ok=True)
        objects = [str(unit.object) for unit in units]
        linker = getattr(self.compiler, "linker_so_cxx", None) or self.compiler.linker_so
        command = [*linker, *objects, "-ldl", "-lpthread", "-o", str(target)]
        if not _is_current(target, command, objects):
            self.execute_command(command, target)
        package = Path(*extension.name.split(".")[:-1])
        for folder in {(ROOT / package).resolve(), (Path(self.build_lib) / package).resolve()}:
            folder.mkdir(parents=True, exist_ok=True)
            copy = folder / target.name
            # Replaced, never written over: a process may have the old one mapped.
            self.copy_file(str(target), f"{copy}.tmp", preserve_mode=True)
            Path(f"{copy}.tmp").replace(copy)

    def execute_command(self, command: list[str], product: Path) -> None:
        """Run a compiler or linker, and note beside what it made how it was made."""
        # One write: several threads report at once, and print() would write the line end separately.
        sys.stdout.write(f"  {product.relative_to(self.work)}\n")
        sys.stdout.flush()
        if subprocess.run(command).returncode:
            raise CompileError(shlex.join(command))
        product.with_suffix(product.suffix + ".cmd").write_text(shlex.join(command))

    @staticmethod
    def filename(extension: Extension) -> str:
        return f"{extension.name.rpartition('.')[2]}{sysconfig.get_config_var('EXT_SUFFIX')}"


def _read_depfile(path: Path) -> list[str] | None:
    """Return the files that a make rule names after the colon; None where there is no rule yet."""
    if not path.is_file():
        return None
    return shlex.split(path.read_text().partition(":")[2].replace("\\\n", " "))


def _is_current(product: Path, command: list[str], sources: list[str] | None) -> bool:
    stamp = product.with_suffix(product.suffix + ".cmd")
    if sources is None or not product.is_file() or not stamp.is_file() or stamp.read_text() != shlex.join(command):
        return False
    made = product.stat().st_mtime_ns
    return all(Path(source).is_file() and Path(source).stat().st_mtime_ns <= made for source in sources)
