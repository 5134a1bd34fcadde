"""The shipped kernel images: which one a device gets, what is said where none fits, and loading them ahead."""

import json

import pytest

from madspace.core import _images
from madspace.core.module import loaded_images, preload
from madspace.errors import KernelImageError

TARGETS = ["sm_80", "sm_86", "sm_90a", "sm_100", "sm_120", "compute_80", "compute_90"]


def image(target, stem="op"):
    return {"stem": stem, "target": target, "file": f"{stem}.{target}", "sha256": "0" * 64, "kernels": {}}


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Return a function that puts images (and their content) in the place of the shipped ones."""
    monkeypatch.setattr(_images, "FOLDER", tmp_path)

    def install(images, **more):
        (tmp_path / "manifest.json").write_text(json.dumps({"format": 1, "modules": images, **more}))
        _images.shipped_images.cache_clear()

    _images.shipped_images.cache_clear()
    yield install
    _images.shipped_images.cache_clear()


@pytest.mark.parametrize(
    ("capability", "target"),
    [
        ((9, 0), "sm_90a"),
        ((8, 0), "sm_80"),
        ((8, 6), "sm_86"),
        ((8, 9), "sm_86"),
        ((10, 3), "sm_100"),
        ((12, 1), "sm_120"),
        ((11, 0), "compute_90"),
        ((13, 0), "compute_90"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value[0]}.{value[1]}",
)
def test_the_nearest_image_is_chosen(installed, capability, target):
    for images in (TARGETS, TARGETS[::-1]):
        installed([image(one) for one in images])
        assert _images.find_image("op", capability)["target"] == target


def test_special_targets_run_on_one_capability_only(installed):
    installed([image("sm_90a"), image("compute_90a")])
    assert _images.find_image("op", (9, 0))["target"] == "sm_90a"
    with pytest.raises(KernelImageError, match=r"capability 10\.0; there are: sm_90a, compute_90a"):
        _images.find_image("op", (10, 0))


def test_a_target_of_an_unknown_kind_is_never_chosen(installed):
    installed([image("sm_100f"), image("gfx942")])
    with pytest.raises(KernelImageError, match="there are: sm_100f, gfx942"):
        _images.find_image("op", (10, 0))


def test_a_package_without_kernels_says_so(installed):
    installed([])
    with pytest.raises(KernelImageError, match=r"^op: the package was built without kernel images \(MADSPACE_CUDA_AR"):
        _images.find_image("op", (8, 0))


def test_an_unknown_stem_lists_the_known_ones(installed):
    installed([image("sm_80", "one"), image("sm_80", "two"), image("sm_90a", "two")])
    with pytest.raises(KernelImageError, match=r"named 'op' are installed; there are: one, two$"):
        _images.find_image("op", (8, 0))


def test_no_manifest_says_how_to_get_one(installed):
    with pytest.raises(KernelImageError, match=r"no kernel images are installed .* build the package"):
        _images.shipped_images()


def test_a_manifest_of_another_format_is_refused(installed):
    installed([], format=2)
    with pytest.raises(KernelImageError, match="expected format 1, got 2"):
        _images.shipped_images()


def test_a_file_is_compared_with_the_manifest(installed, tmp_path):
    with pytest.raises(KernelImageError, match="in the manifest but missing"):
        _images.read_image(image("sm_80"))
    (tmp_path / "op.sm_80").write_bytes(b"something else")
    with pytest.raises(KernelImageError, match="expected sha256 000"):
        _images.read_image(image("sm_80"))


def test_preload_loads_every_shipped_kernel_that_fits(device):
    images = {}
    for stem in {one["stem"] for one in _images.shipped_images()}:
        one = _images.find_image(stem, device.compute_capability)
        images[one["file"]] = one
    assert preload(device) == sum(len(one["kernels"]) for one in images.values())
    assert loaded_images() == {file: one["sha256"] for file, one in images.items()}


def test_preload_leaves_nothing_to_load_later(fake, device):
    preload(device)
    fake.clear_log()
    preload(device)
    assert not {"cuLibraryLoadData", "cuStreamCreateWithPriority", "cuMemPoolCreate"} & set(fake.names())
    assert {"cuKernelGetFunction", "cuFuncLoad"} <= set(fake.names())
