"""Fused kernels: those that come with the package, and those compiled on demand, which a disk cache keeps."""

import contextlib
import functools
import hashlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from madspace.core import _nvrtc
from madspace.core._environment import is_on
from madspace.core._images import shipped_images
from madspace.core.compiler import compile_image, get_include, target_of
from madspace.core.device import Device
from madspace.core.module import Module
from madspace.errors import KernelImageError
from madspace.phasespace.fused import fused_head, fused_name, fused_source, fused_threads
from madspace.phasespace.program import Program

__all__ = ["cache_folder", "fused_module", "is_wanted", "shipped_stem"]

_MAGIC = b"madspace kernel 2\n"
_HEAD = len(_MAGIC) + hashlib.sha256().digest_size
# Seconds after which a file that is still being written belongs to a process that was killed. If it does not, that
# process finds its file gone and keeps nothing.
_STALE = 60.0


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


def cache_folder() -> Path | None:
    """Return where compiled kernels are kept: ``MADSPACE_CACHE_DIR``, else a folder of the user's cache, if any."""
    if folder := os.environ.get("MADSPACE_CACHE_DIR"):
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "madspace" / "kernels"
    except RuntimeError:  # a user without a home, as in some containers
        return None


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
    for threads in fused_threads(program):
        text = fused_source(program, output_shared, drawn, threads=threads)
        module = Module(_image(fused_head(program) + text, f"{name}.cu", target_of(device)), name=name)
        if module[name].attributes(device).local_bytes == 0:
            break
    return module


def _image(source: str, name: str, target: str) -> bytes:
    folder, key = cache_folder(), _key(source, target)
    image = None if folder is None else _read(folder, key)
    if image is None:
        options = ["-default-device", "-std=c++17"]
        image = compile_image(source, name=name, arch=target, options=options, include_dirs=[_include_dir()])
        if folder is not None:
            _write(folder, key, image)
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


def _head(key: str, image: bytes) -> bytes:
    """Return what comes before an image in its file: it tells damaged files, and those under another one's name."""
    return _MAGIC + hashlib.sha256(key.encode() + image).digest()


def _read(folder: Path, key: str) -> bytes | None:
    """Return an image from the cache; None where there is none, or a damaged one."""
    try:
        content = (folder / f"{key}.image").read_bytes()
    except OSError:
        return None
    head, image = content[:_HEAD], content[_HEAD:]
    return image if head == _head(key, image) else None


def _write(folder: Path, key: str, image: bytes) -> None:
    """Keep an image; where that cannot be, nothing happens. A reader never sees half of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        handle, name = tempfile.mkstemp(dir=folder, prefix=key, suffix=".tmp")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_head(key, image) + image)
        Path(name).replace(folder / f"{key}.image")
    except BaseException as error:
        # What is there already would only take room, on a full disk above all.
        with contextlib.suppress(OSError):
            Path(name).unlink()
        if not isinstance(error, OSError):
            raise


def _sweep(folder: Path) -> None:
    """Remove what killed processes have left."""
    for path in folder.glob("*.tmp"):
        with contextlib.suppress(OSError):  # another process may have been faster
            if path.stat().st_mtime < time.time() - _STALE:
                path.unlink()
