"""The shipped kernels: complete, free of spills, reproducible."""

import json
import re
import subprocess
import sys
import zipfile
from importlib import resources
from pathlib import Path

import pytest
from distributions import without_index


@pytest.fixture(scope="module")
def manifest():
    return json.loads((resources.files("madspace") / "_cubins" / "manifest.json").read_text())


def test_every_source_has_an_image_for_every_target(manifest, root):
    stems = {path.stem for path in root.glob("cuda_src/*/*.cu")}
    targets = {module["target"] for module in manifest["modules"]}
    assert stems
    expected = sorted((stem, target) for stem in stems for target in targets)
    assert sorted((module["stem"], module["target"]) for module in manifest["modules"]) == expected


def test_every_module_has_the_same_kernels_for_every_target(manifest):
    by_stem = {}
    for module in manifest["modules"]:
        by_stem.setdefault(module["stem"], []).append(sorted(module["kernels"]))
    for stem, kernels in by_stem.items():
        assert kernels[0], stem
        assert all(names == kernels[0] for names in kernels), stem


def test_no_kernel_spills(manifest, root):
    excused = {
        path.stem
        for path in root.glob("cuda_src/*/*.cu")
        if re.search(r"^// spills-allowed: \S", path.read_text(), re.MULTILINE)
    }
    spilling = [
        (module["file"], name)
        for module in manifest["modules"]
        for name, used in module["kernels"].items()
        if used and used["spill_bytes"] and module["stem"] not in excused
    ]
    assert spilling == []


def test_registers_are_known_for_every_cubin(manifest):
    cubins = [module for module in manifest["modules"] if module["target"].startswith("sm_")]
    registers = [used["registers"] for module in cubins for used in module["kernels"].values()]
    assert registers
    assert min(registers) > 0


@pytest.fixture
def manifest_elsewhere(manifest, root, tmp_path, request):
    """Return the manifest of the same images, made in another folder: by the build of the wheel, or here."""
    if not without_index():
        with zipfile.ZipFile(request.getfixturevalue("built")[0]) as wheel:
            other = json.loads(wheel.read("madspace/_cubins/manifest.json"))
        if what_made(other) == what_made(manifest):
            return other
    archs = ",".join(module["target"] for module in manifest["modules"]).replace("compute_80", "ptx")
    tool = [sys.executable, root / "tools" / "build_cubins.py", "--sources", tmp_path / "elsewhere", "--archs", archs]
    copy_tree(root / "cuda_src", tmp_path / "elsewhere")
    subprocess.run([*tool, "--output", tmp_path / "out"], check=True, timeout=600)
    return json.loads((tmp_path / "out" / "manifest.json").read_text())


def what_made(manifest):
    """Return compiler and targets of a manifest."""
    return manifest["nvrtc"], [module["target"] for module in manifest["modules"]]


@pytest.mark.slow
def test_second_build_elsewhere_is_byte_identical(manifest, manifest_elsewhere):
    assert manifest_elsewhere == manifest


def copy_tree(source: Path, target: Path):
    """Copy a folder without the times of its files."""
    for path in source.rglob("*"):
        if path.is_file():
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
