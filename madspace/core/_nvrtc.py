"""NVRTC by its C API, where it is installed: found without ``cuda.pathfinder`` and never linked."""

import ctypes
import functools
import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from madspace.errors import CompileError

SONAME = "libnvrtc.so.13"
BUILTINS = "libnvrtc-builtins.so.13*"


class Nvrtc(NamedTuple):
    """One NVRTC: its library, and the folders with CUDA's own headers that belong to it."""

    library: Any
    include: tuple[str, ...]


def roots() -> Iterator[Path]:
    """Yield the folders that may hold NVRTC: those of the wheels, then the toolkits, the caller's choice first."""
    package = importlib.util.find_spec("nvidia")
    for entry in package.submodule_search_locations or () if package else ():
        yield Path(entry) / "cu13"
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if root := os.environ.get(name):
            yield Path(root)
    yield Path("/usr/local/cuda")


@functools.cache
def find() -> Nvrtc:
    """Load NVRTC; CompileError says where it was looked for."""
    searched = []
    for root in roots():
        for folder in (root / "lib", root / "lib64"):
            path = folder / SONAME
            searched.append(str(folder))
            if path.exists():
                return Nvrtc(_load(str(path), sorted(folder.glob(BUILTINS))), _headers(root, *roots()))
    try:
        return Nvrtc(_load(SONAME, []), _headers(*roots()))
    except OSError:
        raise CompileError(
            f"NVRTC: {SONAME} was not found in {', '.join(searched)} nor by the loader; install the wheel "
            "nvidia-cuda-nvrtc (13.*), or set CUDA_HOME to a CUDA 13 toolkit"
        ) from None


def _load(path: str, builtins: Sequence[Path]) -> Any:
    # NVRTC opens the built-ins by bare name: loaded by full path first, those beside it are the ones that it finds.
    for other in builtins:
        ctypes.CDLL(str(other))
    library = ctypes.CDLL(path)
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def _headers(*folders: Path) -> tuple[str, ...]:
    # The wheel of NVRTC has none of them; kernels that include nothing of CUDA need none.
    for root in folders:
        if (root / "include" / "cuda_fp16.h").is_file():
            return tuple(str(path) for path in (root / "include", root / "include" / "cccl") if path.is_dir())
    return ()


def version() -> tuple[int, int]:
    """Return the compiler's version."""
    library = find().library
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(library, library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
    return major.value, minor.value


def supported() -> list[int]:
    """Return the compute capabilities that the compiler knows, times ten, in rising order."""
    library = find().library
    count = ctypes.c_int()
    _check(library, library.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "nvrtcGetNumSupportedArchs")
    archs = (ctypes.c_int * count.value)()
    _check(library, library.nvrtcGetSupportedArchs(archs), "nvrtcGetSupportedArchs")
    return sorted(archs)


def compile_unit(source: bytes, name: str, headers: dict[str, bytes], options: Sequence[str], what: str) -> bytes:
    """Compile one translation unit to ``what``, "CUBIN" or "PTX"; CompileError has the compiler's log."""
    library = find().library
    program = ctypes.c_void_p()
    names = (ctypes.c_char_p * len(headers))(*[header.encode() for header in headers])
    texts = (ctypes.c_char_p * len(headers))(*headers.values())
    code = library.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), len(headers), texts, names)
    _check(library, code, "nvrtcCreateProgram")
    try:
        given = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        code = library.nvrtcCompileProgram(program, len(options), given)
        if code:
            log = _fetch(library, program, "ProgramLog").rstrip(b"\0").decode(errors="replace").strip()
            reason = library.nvrtcGetErrorString(code).decode()
            raise CompileError(f"{name}: {reason} ({' '.join(options)})\n{log}", log)
        return _fetch(library, program, what)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _fetch(library: Any, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(library, getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), f"nvrtcGet{what}Size")
    buffer = ctypes.create_string_buffer(size.value)
    _check(library, getattr(library, f"nvrtcGet{what}")(program, buffer), f"nvrtcGet{what}")
    return buffer.raw


def _check(library: Any, code: int, call: str) -> None:
    if code:
        raise CompileError(f"{call}: {library.nvrtcGetErrorString(code).decode()}")
