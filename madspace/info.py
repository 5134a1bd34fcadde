"""What a bug report needs, as a command: versions, driver, devices, kernel images, CPU, environment."""

import argparse
import json
import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import madspace
from madspace.core._images import choose, read_image, shipped_images
from madspace.core._inventory import driver_version, list_devices
from madspace.core._library import driver_library
from madspace.cpu._lanes import isa

Report = dict[str, Any]

# Every variable of ours that anything reads, and what it is for; others of that prefix are most likely misspelt.
VARIABLES = {
    "MADSPACE_ALLOC_LOG": "file for a log of device allocations",
    "MADSPACE_CACHE_DIR": "folder of kernels that were compiled on demand",
    "MADSPACE_COMMIT": "commit that benchmark results name",
    "MADSPACE_CPU_ISA": "instruction set of the CPU kernels",
    "MADSPACE_CUDA_ARCHS": "targets of the CUDA kernels, when the package is built",
    "MADSPACE_DRIVER_LIBRARY": "driver library to load",
    "MADSPACE_FAKE_DEVICES": "devices of the tests' driver",
    "MADSPACE_FAKE_REPORT": "report of the tests' driver",
    "MADSPACE_JIT": "compiling kernels of functions on demand",
    "MADSPACE_LEAK_CHECK": "report of what is left at exit",
    "MADSPACE_NUM_THREADS": "threads of CPU calls",
    "MADSPACE_POISON": "NaN in fresh and returned workspaces",
}
FOREIGN_VARIABLES = ("CUDA_VISIBLE_DEVICES",)
KERNEL_MODULE = Path("/proc/driver/nvidia/version")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(options: argparse.Namespace) -> int:
    """Print the report; the exit status is 0, also without a driver."""
    report = collect()
    text = json.dumps(report, indent=2) if options.json else as_text(report)
    # Environment variables hold any bytes, terminals take their own characters only.
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))
    return 0


def collect() -> Report:
    """Collect what a bug report needs, as JSON takes it.

    Returns
    -------
    dict
        ``versions``, ``driver``, ``devices`` (with the image that each would use, by stem, and its pool's state),
        ``images``, ``cpu``, ``environment`` and ``unknown_variables``. What cannot be found out is None, with the
        reason in the ``problem`` of its section.

    Notes
    -----
    Starts the driver where there is one. Makes no context, so it takes no memory on a GPU. Pools are described where
    the calling process has made them.
    """
    images = _images()
    driver, devices = _driver()
    for device in devices:
        device["images"] = _images_for(device["compute_capability"])
    environment = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith("MADSPACE_") or name in FOREIGN_VARIABLES
    }
    return {
        "versions": _versions(),
        "driver": driver,
        "devices": devices,
        "images": images,
        "cpu": {"instruction_set": isa(), "threads": madspace.get_num_threads(), "cores": len(os.sched_getaffinity(0))},
        "environment": environment,
        "unknown_variables": [name for name in environment if name not in VARIABLES and name not in FOREIGN_VARIABLES],
    }


def _versions() -> Report:
    try:
        bindings = version("cuda-bindings")
    except PackageNotFoundError:
        bindings = None
    return {
        "madspace": madspace.__version__,
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "cuda_bindings": bindings,
        "platform": platform.platform(),
    }


def _driver() -> tuple[Report, list[Report]]:
    path, problem = driver_library()
    found: Report = {"library": path, "cuda": None, "kernel_module": _kernel_module(), "problem": problem}
    devices: list[Report] = []
    if problem is None:
        # A report is made when something is wrong already: what the driver refuses is part of it.
        try:
            number = driver_version()
            found["cuda"] = f"{number // 1000}.{number % 1000 // 10}"
            devices = list_devices()
        except madspace.MadspaceError as error:
            found["problem"] = str(error)
    return found, devices


def _kernel_module() -> str | None:
    """Version of the driver's part in the kernel, such as 580.65.06."""
    try:
        match = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", KERNEL_MODULE.read_text())
    except OSError:
        return None
    return match[0] if match else None


def _images() -> Report:
    try:
        images = shipped_images()
    except madspace.KernelImageError as error:
        return {"files": [], "problem": str(error)}
    files, problems = [], []
    for image in images:
        try:
            read_image(image)
        except madspace.KernelImageError as error:
            problems.append(str(error))
        files.append(
            {
                "file": image["file"],
                "stem": image["stem"],
                "target": image["target"],
                "sha256": image["sha256"][:12],
                "kernels": sorted(image["kernels"]),
            }
        )
    return {"files": files, "problem": "; ".join(problems) or None}


def _images_for(capability: tuple[int, int]) -> dict[str, str | None]:
    """Target of the image that a device uses, by stem; None where none fits."""
    try:
        images = shipped_images()
    except madspace.KernelImageError:
        return {}
    chosen: dict[str, str | None] = {}
    for stem in sorted({image["stem"] for image in images}):
        image = choose([image for image in images if image["stem"] == stem], capability)
        chosen[stem] = None if image is None else image["target"]
    return chosen


def as_text(report: Report) -> str:
    """Write a report for people, one section after the other."""
    sections = {
        "versions": _lines(report["versions"]),
        "driver": _lines(report["driver"]),
        "devices": [line for device in report["devices"] for line in _device_lines(device)] or ["none"],
        "kernel images": _image_lines(report["images"]),
        "cpu": _lines(report["cpu"]),
        "environment": [
            f"{name}={value}" + ("    unknown to madspace: misspelt?" if name in report["unknown_variables"] else "")
            for name, value in report["environment"].items()
        ]
        or ["none of MADSPACE_*, CUDA_VISIBLE_DEVICES"],
    }
    return "\n".join(
        f"{title}\n" + "".join(f"  {line}\n" for line in lines) for title, lines in sections.items()
    ).rstrip()


def _lines(section: Report) -> list[str]:
    width = max(map(len, section))
    lines = []
    for name, value in section.items():
        if name != "problem":
            lines.append(f"{name:{width}}  {'-' if value is None else value}")
        elif value is not None:
            lines.append(f"PROBLEM: {value}")
    return lines


def _device_lines(device: Report) -> list[str]:
    major, minor = device["compute_capability"]
    images = ", ".join(f"{stem}: {target or 'NONE FITS'}" for stem, target in device["images"].items())
    lines = [
        f"{device['id']}: {device['name']}, compute capability {major}.{minor}, {device['multiprocessor_count']} "
        f"multiprocessors, {device['total_memory'] / 2**30:.1f} GiB",
        f"   GPU-{device['uuid']} at {device['pci_bus_id']}",
        f"   kernel images: {images or 'none'}",
    ]
    pool = device["pool"]
    if pool is None:
        lines.append("   pool: not made")
    else:
        lines.append("   pool: " + ", ".join(f"{name} {value}" for name, value in pool.items()))
    return lines


def _image_lines(images: Report) -> list[str]:
    lines = [f"{x['file']}  sha256 {x['sha256']}  {len(x['kernels'])} kernels" for x in images["files"]]
    return lines if images["problem"] is None else [*lines, f"PROBLEM: {images['problem']}"]
