"""Which of the shipped kernel images fits a device."""

import functools
import hashlib
import json
import re
import struct
from pathlib import Path
from typing import Any, TypeAlias

from madspace.errors import KernelImageError

Image: TypeAlias = dict[str, Any]
Capability: TypeAlias = tuple[int, int]

FOLDER = Path(__file__).parent.parent / "_cubins"
FORMAT = 1

# The ELF64 header: offsets of the program and section headers; size and number of each.
_ELF = struct.Struct("<32x2Q6x4H2x")
# The header of a fat binary: magic number, version, size of the header, size of what follows.
_FATBIN_MAGIC = b"\x50\xed\x55\xba"
_FATBIN = struct.Struct("<8xQ")
_TARGET = re.compile(r"(sm|compute)_(\d+)(\d)(a?)")


@functools.cache
def shipped_images() -> list[Image]:
    """Read the manifest of the shipped images, at first use; a list of dicts.

    Raises
    ------
    KernelImageError
        When there is no manifest, or one of another format.
    """
    path = FOLDER / "manifest.json"
    try:
        manifest = json.loads(path.read_text())
    except FileNotFoundError:
        raise KernelImageError(
            f"no kernel images are installed ({path} is missing): build the package with a wheel of "
            "nvidia-cuda-nvrtc, or a CUDA 13 toolkit, at hand"
        ) from None
    if manifest.get("format") != FORMAT:
        raise KernelImageError(
            f"{path}: expected format {FORMAT}, got {manifest.get('format')!r}; reinstall the package"
        )
    modules: list[Image] = manifest["modules"]
    return modules


def preference(target: str, capability: Capability) -> tuple[int, int, int] | None:
    """How well code for `target` suits a device, the larger the better; None where it does not run there.

    Code for exactly this device with its special instructions (``sm_90a``) comes first, then code for the same major
    and the nearest minor not above it, then PTX for the nearest capability not above it, compiled by the driver.
    """
    match = _TARGET.fullmatch(target)
    if match is None:
        return None
    kind, major, minor, special = match[1], int(match[2]), int(match[3]), bool(match[4])
    if special:
        return (3 if kind == "sm" else 1, major, minor) if (major, minor) == capability else None
    if kind == "sm":
        return (2, major, minor) if major == capability[0] and minor <= capability[1] else None
    return (1, major, minor) if (major, minor) <= capability else None


def compiled_for(image: Image) -> tuple[int, bool]:
    """Return what an image's code relies on: a compute capability times ten, and whether with special instructions."""
    match = _TARGET.fullmatch(image["target"])
    if match is None:
        raise KernelImageError(f"{image['file']}: expected a target like 'sm_90a', got {image['target']!r}")
    return 10 * int(match[2]) + int(match[3]), bool(match[4])


def choose(images: list[Image], capability: Capability) -> Image | None:
    """Return the image that suits the device best, None where none runs there."""
    suited = [
        (rank, i) for i, image in enumerate(images) if (rank := preference(image["target"], capability)) is not None
    ]
    return images[max(suited)[1]] if suited else None


def find_image(stem: str, capability: Capability) -> Image:
    """Return the manifest's entry for a stem and a device's compute capability, ``(major, minor)``.

    Raises
    ------
    KernelImageError
        When nothing fits; lists what there is.
    """
    images = [image for image in shipped_images() if image["stem"] == stem]
    if not shipped_images():
        raise KernelImageError(
            f"{stem}: the package was built without kernel images (MADSPACE_CUDA_ARCHS=none): build it with others"
        )
    if not images:
        stems = ", ".join(sorted({image["stem"] for image in shipped_images()}))
        raise KernelImageError(f"no kernel images named {stem!r} are installed; there are: {stems}")
    image = choose(images, capability)
    if image is None:
        targets = ", ".join(image["target"] for image in images)
        raise KernelImageError(
            f"{stem}: no kernel image for a device of compute capability {capability[0]}.{capability[1]}; there are: "
            f"{targets}; rebuild the package with MADSPACE_CUDA_ARCHS naming this device"
        )
    return image


def read_image(image: Image) -> bytes:
    """Return the bytes of a manifest's entry, after their hash was compared.

    Raises
    ------
    KernelImageError
        When the file is missing or is not the one that the manifest speaks of.
    """
    path = FOLDER / str(image["file"])
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise KernelImageError(f"{path} is in the manifest but missing; reinstall the package") from None
    found = hashlib.sha256(data).hexdigest()
    if found != image["sha256"]:
        raise KernelImageError(f"{path}: expected sha256 {image['sha256']}, got {found}; reinstall the package")
    return data


def check_complete(data: bytes, name: str) -> None:
    """Refuse a cubin or fat binary whose end is missing: the driver believes its header and reads on.

    Raises
    ------
    KernelImageError
        When the header speaks of more bytes than there are.
    """
    needed = len(data)
    if data.startswith(b"\x7fELF"):
        needed = _ELF.size
        if len(data) >= needed:
            segments, sections, segment_size, n_segments, section_size, n_sections = _ELF.unpack_from(data)
            needed = max(needed, segments + segment_size * n_segments, sections + section_size * n_sections)
    elif data.startswith(_FATBIN_MAGIC):
        needed = _FATBIN.size
        if len(data) >= needed:
            needed += _FATBIN.unpack_from(data)[0]
    if needed > len(data):
        raise KernelImageError(f"image: expected {needed} bytes by its header, got {len(data)} ({name})")
