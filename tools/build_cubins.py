"""Compile every ``cuda_src/*/*.cu`` for every wanted architecture into ``madspace/_cubins`` and write the manifest.

    python tools/build_cubins.py [--sources cuda_src] [--output madspace/_cubins] [--archs 80,90a,ptx] [--jobs N]

Targets, comma separated, from ``--archs`` or ``MADSPACE_CUDA_ARCHS`` (default ``80,90a,100,120,ptx``): a compute
capability (``90a``), ``ptx`` (PTX of compute_80, which newer drivers compile for newer devices) or ``native`` (the
devices of this machine); or ``none`` alone, for a package without kernels, which needs no compiler. A source may hold
comment lines that speak to this tool::

    // nvrtc-options: --maxrregcount=64
    // spills-allowed: the reason

A kernel that spills registers fails the build unless its source says why it may. What has not changed, by the hash of
sources, headers, options and compiler, is not compiled again.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import multiprocessing
import os
import re
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent))
import nvrtc

__all__ = ["DEFAULT_ARCHS", "build", "parse_targets", "wanted_archs"]

DEFAULT_ARCHS = "80,90a,100,120,ptx"
FORMAT = 1  # of the manifest
ROOT = Path(__file__).resolve().parent.parent

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
_OPTIONS = re.compile(r"^//\s*nvrtc-options:\s*(.+)$", re.MULTILINE)
_SPILLS_ALLOWED = re.compile(r"^//\s*spills-allowed:\s*\S", re.MULTILINE)


@dataclass(frozen=True)
class Job:
    """One image to make: a source, a target and what decides whether the one that is there will do."""

    root: str  # folder of all sources; the compiler runs in it, so that no absolute path enters the image
    source: str  # relative to root
    target: str  # sm_90a, or compute_80 for PTX
    options: tuple[str, ...]
    system_include: tuple[str, ...]
    source_hash: str
    toolchain: nvrtc.Toolchain
    spills_allowed: bool

    @property
    def stem(self) -> str:
        return Path(self.source).stem

    @property
    def file(self) -> str:
        return f"{self.stem}.{self.target}.{'cubin' if self.target.startswith('sm_') else 'ptx'}"


def parse_targets(archs: str) -> list[str]:
    """Turn ``80,90a,ptx`` into ``["sm_80", "sm_90a", "compute_80"]``; ValueError names what is not understood."""
    targets: list[str] = []
    if archs.strip().lower() == "none":
        return targets
    for word in archs.replace(";", ",").split(","):
        word = word.strip().lower()
        if word == "native":
            targets += native_archs()
        elif word == "ptx":
            targets.append("compute_80")
        elif re.fullmatch(r"(sm_)?\d{2,3}[af]?", word):
            targets.append(f"sm_{word.removeprefix('sm_')}")
        else:
            raise ValueError(
                "MADSPACE_CUDA_ARCHS: expected capabilities like 90a, 'ptx' or 'native', or 'none' alone, "
                f"got {archs!r}"
            )
    return list(dict.fromkeys(targets))


def wanted_archs() -> str:
    """Return what ``MADSPACE_CUDA_ARCHS`` asks for, or the default."""
    return os.environ.get("MADSPACE_CUDA_ARCHS") or DEFAULT_ARCHS


def native_archs() -> list[str]:
    """Return the targets of the devices of this machine; RuntimeError where there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise RuntimeError(f"MADSPACE_CUDA_ARCHS=native: no driver here ({error})") from None
    count, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if code := driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        raise RuntimeError(f"MADSPACE_CUDA_ARCHS=native: the driver answers {code}")
    targets = []
    for device in range(count.value):
        driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
        driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
        # Hopper's own instructions (wgmma) exist under the "a" target only.
        suffix = "a" if major.value == 9 else ""
        targets.append(f"sm_{major.value}{minor.value}{suffix}")
    return targets


def _dependencies(source: Path, include: list[Path]) -> list[Path]:
    """Return `source` and the project's headers that it can reach, whatever the conditions around the includes."""
    seen: list[Path] = []
    queue = [source]
    while queue:
        path = queue.pop()
        if path in seen:
            continue
        seen.append(path)
        for name in _INCLUDE.findall(path.read_text()):
            candidates = [folder / name for folder in [path.parent, *include]]
            queue += [found.resolve() for found in candidates if found.is_file()][:1]
    return sorted(seen)


def plan(sources: Path, targets: list[str], toolchain: nvrtc.Toolchain) -> list[Job]:
    """Return one job per source and target."""
    root = sources.resolve()
    release = nvrtc.version(toolchain)
    jobs = []
    stems: dict[str, Path] = {}
    for source in sorted(root.glob("*/*.cu")):
        if source.stem in stems:
            raise ValueError(f"{source}: stem already taken by {stems[source.stem]}")
        stems[source.stem] = source
        text = source.read_text()
        own = tuple(option for line in _OPTIONS.findall(text) for option in line.split())
        if any("fast" in option for option in own):
            raise ValueError(f"{source}: nvrtc-options: fast math is not allowed, got {' '.join(own)}")
        include = ["include", ".", source.parent.relative_to(root).as_posix()]
        base = ("-std=c++17", "-default-device", *(f"-I{path}" for path in include), *own)
        digest = hashlib.sha256()
        for path in _dependencies(source, [root / path for path in include]):
            digest.update(f"{os.path.relpath(path, root)}\0".encode() + path.read_bytes() + b"\0")
        for target in targets:
            options = (*base, f"--gpu-architecture={target}")
            key = digest.copy()
            key.update("\0".join((*options, release)).encode())
            jobs.append(
                Job(
                    root=str(root),
                    source=source.relative_to(root).as_posix(),
                    target=target,
                    options=options,
                    system_include=tuple(f"-I{path}" for path in toolchain.include),
                    source_hash=key.hexdigest(),
                    toolchain=toolchain,
                    spills_allowed=_SPILLS_ALLOWED.search(text) is not None,
                )
            )
    return jobs


def resources(log: str) -> dict[str, dict[str, int]]:
    """Read registers, spilled bytes and static shared memory per kernel from the log of ``--ptxas-options=-v``."""
    kernels: dict[str, dict[str, int]] = {}
    kernel = function = ""
    shared_spills = 0  # of functions that were not inlined: the log does not say who calls them
    for line in log.splitlines():
        if found := re.search(r"Compiling entry function '([^']+)'", line):
            kernel = found[1]
            kernels[kernel] = {"registers": 0, "spill_bytes": 0, "shared_bytes": 0}
        elif found := re.search(r"Function properties for (\S+)", line):
            function = found[1]
        elif found := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = int(found[1]) + int(found[2])
            if function in kernels:
                kernels[function]["spill_bytes"] += spilled
            else:
                shared_spills += spilled
        elif found := re.search(r"Used (\d+) registers", line):
            kernels[kernel]["registers"] = int(found[1])
            if smem := re.search(r"(\d+) bytes smem", line):
                kernels[kernel]["shared_bytes"] = int(smem[1])
    for entry in kernels.values():
        entry["spill_bytes"] += shared_spills
    return kernels


def compile_job(job: Job) -> tuple[bytes, dict[str, dict[str, int] | None]]:
    """Compile one image; returns it with the kernels in it. Runs in a process of its own."""
    os.chdir(job.root)
    options = [*job.options, *job.system_include]
    text = Path(job.source).read_bytes()
    if job.target.startswith("compute_"):
        image, _ = nvrtc.compile_text(job.toolchain, text, job.source, options, "PTX")
        names = re.findall(rb"^(?:\.visible )?\.entry (\w+)", image, re.MULTILINE)
        return image, dict.fromkeys(name.decode() for name in sorted(names))
    image, _ = nvrtc.compile_text(job.toolchain, text, job.source, options, "CUBIN")
    # The verbose option changes bytes of the image, so the shipped one is made without it.
    _, log = nvrtc.compile_text(job.toolchain, text, job.source, [*options, "--ptxas-options=-v"], "CUBIN")
    return image, dict(sorted(resources(log).items()))


def _is_current(entry: dict[str, object], job: Job, output: Path) -> bool:
    path = output / job.file
    if entry.get("source_hash") != job.source_hash or not path.is_file():
        return False
    return hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"]


def _read_manifest(path: Path) -> dict[str, dict[str, object]]:
    try:
        manifest = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return {entry["file"]: entry for entry in manifest["modules"]} if manifest.get("format") == FORMAT else {}


def _run(jobs: list[Job], workers: int) -> Iterable[tuple[bytes, dict[str, dict[str, int] | None]]]:
    # Processes: NVRTC takes a lock around a compilation, and a job changes the current folder. Spawned: a fork would
    # copy the locks that other threads hold.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(compile_job, jobs)


def build(sources: Path, output: Path, archs: str, workers: int, say: Callable[[str], None]) -> dict[str, object]:
    """Bring `output` up to date with `sources` and return the manifest.

    Raises
    ------
    FileNotFoundError
        No NVRTC.
    ValueError
        `archs` is not understood, or two sources share a stem.
    RuntimeError
        The compiler refuses a source, or a kernel spills.
    """
    targets = parse_targets(archs)
    output.mkdir(parents=True, exist_ok=True)
    if not targets:
        say("cubins: none wanted")
        return _finish(output, None, [])
    toolchain = nvrtc.find_toolchain()
    jobs = plan(sources, targets, toolchain)
    known = _read_manifest(output / "manifest.json")
    entries = {job.file: known[job.file] for job in jobs if _is_current(known.get(job.file, {}), job, output)}
    pending = [job for job in jobs if job.file not in entries]
    say(f"cubins: NVRTC {nvrtc.version(toolchain)} ({toolchain.library}), {len(pending)} of {len(jobs)} to compile")
    spills: list[str] = []
    for job, (image, kernels) in zip(pending, _run(pending, workers), strict=True):
        registers = sorted(used["registers"] for used in kernels.values() if used)
        span = f", {registers[0]} to {registers[-1]} registers" if registers else ""
        say(f"  {job.file}: {len(image)} bytes, {len(kernels)} kernels{span}")
        spills += _forbidden_spills(job, kernels)
        _replace(output / job.file, image)
        entries[job.file] = {
            "stem": job.stem,
            "target": job.target,
            "file": job.file,
            "sha256": hashlib.sha256(image).hexdigest(),
            "source_hash": job.source_hash,
            "kernels": kernels,
        }
    if spills:
        # All at once, and before the manifest: without an entry there, the next build compiles these images again.
        advice = "use fewer registers, or say why it may in a line '// spills-allowed: reason'"
        raise RuntimeError("\n".join([*spills, advice]))
    return _finish(output, nvrtc.version(toolchain), [entries[job.file] for job in jobs])


def _finish(output: Path, version: str | None, modules: list[dict[str, object]]) -> dict[str, object]:
    """Write the manifest and remove the images that are not in it."""
    manifest: dict[str, object] = {"format": FORMAT, "nvrtc": version, "modules": modules}
    _replace(output / "manifest.json", (json.dumps(manifest, indent=1) + "\n").encode())
    files = {module["file"] for module in modules}
    for path in output.iterdir():
        if path.suffix in (".cubin", ".ptx") and path.name not in files:
            path.unlink()
    return manifest


def _forbidden_spills(job: Job, kernels: dict[str, dict[str, int] | None]) -> list[str]:
    return [
        f"{job.source}: {name} spills {used['spill_bytes']} bytes on {job.target} with {used['registers']} registers"
        for name, used in kernels.items()
        if used and used["spill_bytes"] and not job.spills_allowed
    ]


def _replace(path: Path, content: bytes) -> None:
    # A reader never sees half a file, and a killed build leaves the old one.
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sources", type=Path, default=ROOT / "cuda_src")
    parser.add_argument("--output", type=Path, default=ROOT / "madspace" / "_cubins")
    parser.add_argument("--archs", default=wanted_archs())
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    try:
        build(arguments.sources, arguments.output, arguments.archs, arguments.jobs, print)
    except (FileNotFoundError, RuntimeError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
