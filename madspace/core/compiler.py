"""CUDA C++ to modules at run time, where NVRTC is installed."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from madspace.core import _nvrtc
from madspace.core.device import Device
from madspace.core.module import Module

Arch: TypeAlias = str | Device | None

_TARGET = re.compile(r"(sm|compute)_\d{2,3}[af]?")
# From here on each capability has instructions of its own, which code for exactly this device may use.
_FIRST_SPECIAL = 90


def get_include() -> str:
    """Return the folder of madspace's headers, for ``-I``.

    ``<madspace/madspace.h>`` in it is the C API, the others are headers for device code.

    Returns
    -------
    str

    Examples
    --------
    >>> import madspace
    >>> madspace.get_include().endswith("include")
    True
    """
    package = Path(__file__).resolve().parents[1]
    built = package / "include"
    # A source tree that was never built has the device headers where they are kept.
    return str(built if (built / "madspace" / "portable.h").exists() else package.parent / "cuda_src" / "include")


def compile_image(
    source: str | bytes,
    *,
    name: str = "kernel.cu",
    arch: Arch = None,
    options: Iterable[str] = (),
    headers: Mapping[str, str | bytes] | None = None,
    include_dirs: Iterable[str | os.PathLike[str]] = (),
) -> bytes:
    """Compile CUDA C++ to a kernel image.

    Parameters
    ----------
    source : str or bytes
        One translation unit. Kernels that are ``extern "C"`` keep their names.
    name : str, optional
        What the compiler's messages call it.
    arch : str or Device, optional
        ``"sm_90a"`` and the like give a cubin, ``"compute_80"`` and the like PTX, which the driver compiles for its
        device. A Device: what suits it best. Device 0 if left out; a name needs neither a device nor a driver.
    options : iterable of str, optional
        Further options of NVRTC, such as ``"--use_fast_math"``.
    headers : mapping of str to str or bytes, optional
        Texts that the source may include, by name.
    include_dirs : iterable of str or path, optional
        Folders to look for headers in; `get_include()` and CUDA's own headers, where there are any, come after them.

    Returns
    -------
    bytes
        A cubin (ELF) or PTX (text and a terminating zero).

    Raises
    ------
    CompileError
        When the source does not compile, with the compiler's ``log``; when NVRTC is not installed.
    ValueError
        For an `arch` of another form.
    TypeError
        For a source, name, header, option or folder that is no text.
    DriverNotFoundError, DriverError, ForkError
        As from ``Device``, where `arch` is left out.

    Notes
    -----
    NVRTC 13 comes from the wheel nvidia-cuda-nvrtc, a toolkit at ``CUDA_HOME``, ``CUDA_PATH`` or ``/usr/local/cuda``,
    or the loader's path, in this order. Nothing is cached, and the compiler does not start the driver.
    """
    text = _as_bytes("source", source)
    _check_text("name", name)
    if headers is not None and not isinstance(headers, Mapping):
        raise TypeError(f"headers: expected a mapping of str to str or bytes, got {type(headers).__name__}")
    texts = {}
    for header, content in (headers or {}).items():
        _check_text("headers", header)
        texts[header] = _as_bytes(f"headers[{header!r}]", content)
    options = _as_tuple("options", options, (str,))
    folders = [os.fspath(folder) for folder in _as_tuple("include_dirs", include_dirs, (str, os.PathLike))]
    target = target_of(arch)
    folders += [get_include(), *_nvrtc.find().include]
    # NVRTC's cache is the driver's, which it would start behind our back, also where forks are still to come.
    paths = [f"--include-path={folder}" for folder in folders]
    given = [f"--gpu-architecture={target}", "--no-cache", *options, *paths]
    return _nvrtc.compile_unit(text, name, texts, given, "CUBIN" if target.startswith("sm_") else "PTX")


def compile(
    source: str | bytes,
    *,
    name: str = "kernel.cu",
    arch: Arch = None,
    options: Iterable[str] = (),
    headers: Mapping[str, str | bytes] | None = None,
    include_dirs: Iterable[str | os.PathLike[str]] = (),
) -> Module:
    """Compile CUDA C++ and load it.

    Parameters
    ----------
    source, name, arch, options, headers, include_dirs
        As of compile_image(). The module goes by `name` as well.

    Returns
    -------
    Module

    Raises
    ------
    CompileError, ValueError, TypeError, DriverNotFoundError, ForkError
        As from compile_image().
    DriverError
        When the driver refuses the image.
    """
    image = compile_image(source, name=name, arch=arch, options=options, headers=headers, include_dirs=include_dirs)
    return Module(image, name=name)


def _check_text(what: str, text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{what}: expected a str, got {type(text).__name__}")
    if "\0" in text or not text.isprintable():
        raise ValueError(f"{what}: expected printable text, got {text!r}")


def _as_tuple(what: str, items: object, kinds: tuple[type, ...]) -> tuple[Any, ...]:
    names = " or ".join(kind.__name__ for kind in kinds)
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise TypeError(f"{what}: expected an iterable of {names}, got {items!r}")
    found: tuple[Any, ...] = tuple(items)
    for item in found:
        if not isinstance(item, kinds):
            raise TypeError(f"{what}: expected an iterable of {names}, got one with {item!r}")
        path: Any = item
        _check_text(what, os.fspath(path))
    return found


def _as_bytes(what: str, text: str | bytes) -> bytes:
    if isinstance(text, str):
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            rest = text[error.start : error.end]
            raise ValueError(f"{what}: expected text that UTF-8 can hold, got {rest!r}") from None
    if not isinstance(text, bytes):
        raise TypeError(f"{what}: expected str or bytes, got {type(text).__name__}")
    return text


def target_of(arch: Arch) -> str:
    """Return the target that `compile_image` compiles for."""
    if isinstance(arch, str):
        if _TARGET.fullmatch(arch) is None:
            raise ValueError(f"arch: expected a name like 'sm_90a' or 'compute_80', or a Device, got {arch!r}")
        return arch
    if arch is not None and not isinstance(arch, Device):
        raise TypeError(f"arch: expected a str or a Device, got {type(arch).__name__}")
    major, minor = (Device(0) if arch is None else arch).compute_capability
    number, known = 10 * major + minor, _nvrtc.supported()
    if number not in known:
        # A device that is newer than the compiler: its driver can finish what the compiler leaves open.
        return f"compute_{max((each for each in known if each < number), default=known[0])}"
    return f"sm_{number}{'a' if number >= _FIRST_SPECIAL else ''}"
