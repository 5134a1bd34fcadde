"""Fused kernels: those that come with the package, and those compiled on demand, which a disk cache keeps."""

import functools
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from madspace.core import _nvrtc
from madspace.core._environment import is_on
from madspace.core._images import shipped_images
from madspace.core.compiler import compile_image, get_include, target_of
from madspace.core.device import Device
from madspace.core.module import Module
from madspace.errors import KernelImageError
from madspace.phasespace.fused import fused_head, fused_name, fused_source, has_derivatives
from madspace.phasespace.program import Program

__all__ = ["cache_folder", "fused_module", "is_wanted", "shipped_stem"]

_MAGIC = b"madspace kernel 1\n"
# Threads on a multiprocessor: the most whose registers suffice. Derivatives need all registers that a thread can have.
_THREADS, _THREADS_OF_DERIVATIVES = (1024, 768, 640, 512), (256,)


def is_wanted(jit: bool | None) -> bool:
    """Tell whether kernels are compiled: what was asked for, else ``MADSPACE_JIT``."""
    return is_on("MADSPACE_JIT") if jit is None else jit


@functools.cache
def _shipped() -> dict[str, str]:
    try:
        images = shipped_images()
    except KernelImageError:
        return {}
    return {name: image["stem"] for image in images for name in image["kernels"] if name.startswith("fused_")}


def shipped_stem(name: str) -> str | None:
    """Return the shipped module that has a fused kernel; None where there is none."""
    return _shipped().get(name)


def cache_folder() -> Path:
    """Return where compiled kernels are kept: ``MADSPACE_CACHE_DIR``, else a folder of the user's cache."""
    if folder := os.environ.get("MADSPACE_CACHE_DIR"):
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "madspace" / "kernels"


def fused_module(program: Program, output_shared: Sequence[bool], drawn: Sequence[int], device: Device) -> Module:
    """Return a module with the fused kernel of a program, compiled for a device or found in the cache.

    Raises
    ------
    CompileError
        NVRTC is not installed, or refuses the source.
    DriverError
        The driver refuses the image.
    """
    name = fused_name(program, output_shared, drawn)
    for threads in _THREADS_OF_DERIVATIVES if has_derivatives(program) else _THREADS:
        text = fused_source(program, output_shared, drawn, threads=threads)
        module = Module(_image(fused_head(program) + text, f"{name}.cu", target_of(device)), name=name)
        if module[name].attributes(device).local_bytes == 0:
            break
    return module


def _image(source: str, name: str, target: str) -> bytes:
    path = cache_folder() / f"{_key(source, target)}.image"
    image = _read(path)
    if image is None:
        options = ["-default-device", "-std=c++17"]
        image = compile_image(source, name=name, arch=target, options=options, include_dirs=[_include_dir()])
        _write(path, image)
    return image


def _key(source: str, target: str) -> str:
    digest = hashlib.sha256()
    for part in (source.encode(), target.encode(), _headers(), str(_nvrtc.version()).encode()):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _include_dir() -> Path:
    """Return the folder with the folder of the steps' headers."""
    package = Path(get_include())
    # A source tree that was never built has them where they are kept.
    return package if (package / "phasespace").is_dir() else Path(__file__).resolve().parents[2] / "cuda_src"


@functools.cache
def _headers() -> bytes:
    """Return a digest of all that a source may include: another version of the package has other kernels."""
    digest = hashlib.sha256()
    for folder in (Path(get_include()) / "madspace", _include_dir() / "phasespace"):
        for path in sorted(path for path in folder.iterdir() if path.suffix in (".h", ".def")):
            digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.digest()


def _read(path: Path) -> bytes | None:
    """Return an image from the cache; None where there is none, or a damaged one."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    head, image = content[: len(_MAGIC) + 32], content[len(_MAGIC) + 32 :]
    return image if head == _MAGIC + hashlib.sha256(image).digest() else None


def _write(path: Path, image: bytes) -> None:
    """Keep an image; where that cannot be, nothing happens. A reader never sees half of it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(image).digest() + image)
        Path(name).replace(path)
    except OSError:
        # A full disk: what is there already would only take room.
        try:
            Path(name).unlink()
        except OSError:
            return
