"""NVRTC through its C API, from the wheel that pip installed for the build, else from a CUDA toolkit.

Nothing here goes through ``cuda.pathfinder``: inside pip's isolated build it looks past the isolated packages and finds
whatever the machine has. Libraries and headers come from ``nvidia.__path__`` (the wheels of the build requirements) and
only then from ``CUDA_HOME``, ``CUDA_PATH`` or ``/usr/local/cuda``.
"""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Toolchain", "compile_text", "find_toolchain", "header_dirs", "version"]


@dataclass(frozen=True)
class Toolchain:
    """Where one NVRTC lies: its library, the built-ins library that it opens by name, and the headers for kernels."""

    library: Path
    builtins: Path
    include: tuple[Path, ...]


def toolkit_roots() -> list[Path]:
    """Return the folders that may hold a CUDA toolkit, the caller's choice first."""
    named = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    return [Path(root) for root in [*named, "/usr/local/cuda"] if root and Path(root).is_dir()]


def wheel_roots() -> list[Path]:
    """Return the ``nvidia/cu13`` folders of the Python environment, nearest first."""
    try:
        import nvidia
    except ImportError:
        return []
    return [root for root in (Path(entry) / "cu13" for entry in nvidia.__path__) if root.is_dir()]


def _include_dirs(root: Path) -> list[Path]:
    # Toolkits keep CUB, Thrust and libcu++ one folder deeper since 13.0; the wheels copied that layout.
    return [path for path in (root / "include", root / "include" / "cccl") if path.is_dir()]


def header_dirs(*names: str) -> list[Path]:
    """Return include folders that together hold the headers `names`: one root that has all, else the fewest needed.

    One root is preferred, since mixing headers of two CUDA versions gives errors that nobody can read.
    """
    roots = [*wheel_roots(), *toolkit_roots()]
    for root in roots:
        if all((root / "include" / name).is_file() for name in names):
            return _include_dirs(root)
    chosen: list[Path] = []
    for name in names:
        having = [root for root in roots if (root / "include" / name).is_file()]
        if not having:
            raise FileNotFoundError(
                f"{name}: not found in {[str(root) for root in roots]}; install the wheels nvidia-cuda-runtime and "
                "nvidia-cuda-profiler-api (13.0.*), or set CUDA_HOME to a CUDA 13 toolkit"
            )
        chosen += [path for path in _include_dirs(having[0]) if path not in chosen]
    return chosen


def _libraries(root: Path, name: str) -> list[Path]:
    found = [path for folder in ("lib", "lib64") for path in sorted((root / folder).glob(f"{name}.so.13*"))]
    return [path for path in found if ".alt." not in path.name]


def find_toolchain() -> Toolchain:
    """Return the NVRTC 13 to use; FileNotFoundError says where was looked."""
    roots = [*wheel_roots(), *toolkit_roots()]
    for root in roots:
        libraries, builtins = _libraries(root, "libnvrtc"), _libraries(root, "libnvrtc-builtins")
        if libraries and builtins:
            # The NVRTC wheel alone has no headers that kernels use; kernels that use none need none.
            having = [other for other in [root, *roots] if (other / "include" / "cuda_fp16.h").is_file()]
            return Toolchain(libraries[0], builtins[0], tuple(_include_dirs(having[0])) if having else ())
    raise FileNotFoundError(
        f"libnvrtc.so.13: not found in {[str(root) for root in roots]}; install the wheel nvidia-cuda-nvrtc (13.0.*), "
        "or set CUDA_HOME to a CUDA 13 toolkit"
    )


@cache
def load(toolchain: Toolchain) -> ctypes.CDLL:
    """Open the library of `toolchain`."""
    # NVRTC opens the built-ins by bare name: with them loaded by full path first, the loader finds these and no others.
    ctypes.CDLL(str(toolchain.builtins))
    library = ctypes.CDLL(str(toolchain.library))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def _check(library: ctypes.CDLL, code: int, call: str) -> None:
    if code:
        raise RuntimeError(f"{call}: {library.nvrtcGetErrorString(code).decode()}")


def _fetch(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(library, getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), f"nvrtcGet{what}Size")
    buffer = ctypes.create_string_buffer(size.value)
    _check(library, getattr(library, f"nvrtcGet{what}")(program, buffer), f"nvrtcGet{what}")
    return buffer.raw


def compile_text(toolchain: Toolchain, text: bytes, name: str, options: list[str], kind: str) -> tuple[bytes, str]:
    """Compile one translation unit.

    Parameters
    ----------
    toolchain : Toolchain
    text : bytes
        The source.
    name : str
        How the source calls itself in messages and in the output: relative, so that the output is the same everywhere.
    options : list of str
    kind : {"CUBIN", "PTX"}

    Returns
    -------
    (bytes, str)
        The image and the compiler's log.

    Raises
    ------
    RuntimeError
        With the compiler's log, where it refuses the source.
    """
    library = load(toolchain)
    program = ctypes.c_void_p()
    code = library.nvrtcCreateProgram(ctypes.byref(program), text, name.encode(), 0, None, None)
    _check(library, code, "nvrtcCreateProgram")
    try:
        array = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        code = library.nvrtcCompileProgram(program, len(options), array)
        log = _fetch(library, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if code:
            raise RuntimeError(f"{name}: {library.nvrtcGetErrorString(code).decode()}\n{' '.join(options)}\n{log}")
        return _fetch(library, program, kind), log
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def version(toolchain: Toolchain) -> str:
    """Return the full release, ``13.0.88``, from the head of some PTX: ``nvrtcVersion`` only tells ``13.0``."""
    options = ["--gpu-architecture=compute_80"]
    ptx, _ = compile_text(toolchain, b"__global__ void probe() {}", "version.cu", options, "PTX")
    found = re.search(rb"release [\d.]+, V([\d.]+)", ptx)
    if found is None:
        raise RuntimeError(f"{toolchain.library}: its PTX names no release")
    return found[1].decode()
