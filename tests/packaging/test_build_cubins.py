"""The tool that compiles the kernels: what it makes again, what it refuses, what it writes."""

import json
import os
import subprocess
import sys

import fake_driver
import pytest

KERNEL = """
#include "value.h"
extern "C" __global__ void scale(double* x) { x[threadIdx.x] *= VALUE; }
"""

# Sixty-four values that are all alive at the end do not fit into the 24 registers that the option leaves.
SPILLING = """
// nvrtc-options: --maxrregcount=24
extern "C" __global__ void spill(double* x) {
    double v[64];
    #pragma unroll
    for (int i = 0; i < 64; ++i) v[i] = x[i * 32 + threadIdx.x];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 64; ++i) x[i * 32 + threadIdx.x] = v[i] * v[63 - i] + v[(i + 7) % 64];
}
"""


@pytest.fixture
def project(tmp_path):
    """Return a folder with one kernel and one header."""
    (tmp_path / "src" / "family").mkdir(parents=True)
    (tmp_path / "src" / "family" / "scale.cu").write_text(KERNEL)
    (tmp_path / "src" / "family" / "value.h").write_text("#define VALUE 2.0\n")
    return tmp_path


@pytest.fixture
def tool(root, project):
    """Return a function that runs the tool on the project and answers exit status and output."""

    def run(*arguments, **variables):
        command = [sys.executable, root / "tools" / "build_cubins.py", "--sources", project / "src"]
        command += ["--output", project / "out", *arguments]
        environment = os.environ | variables
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        return answer.returncode, answer.stdout + answer.stderr

    return run


def read_manifest(project):
    return json.loads((project / "out" / "manifest.json").read_text())


def test_manifest_describes_each_image(project, tool):
    code, output = tool("--archs", "80,90a,ptx")
    assert code == 0, output
    manifest = read_manifest(project)
    assert manifest["format"] == 1
    assert [module["file"] for module in manifest["modules"]] == [
        "scale.sm_80.cubin",
        "scale.sm_90a.cubin",
        "scale.compute_80.ptx",
    ]
    cubin, _, ptx = manifest["modules"]
    assert cubin["kernels"]["scale"]["spill_bytes"] == 0
    assert cubin["kernels"]["scale"]["registers"] > 0
    assert ptx["kernels"] == {"scale": None}
    assert (project / "out" / "scale.sm_80.cubin").read_bytes().startswith(b"\x7fELF")
    assert b".target sm_80" in (project / "out" / "scale.compute_80.ptx").read_bytes()


def test_what_has_not_changed_is_not_compiled_again(tool):
    assert "1 of 1 to compile" in tool("--archs", "80")[1]
    assert "0 of 1 to compile" in tool("--archs", "80")[1]


@pytest.mark.parametrize("change", ["source", "header", "image"])
def test_change_compiles_again(project, tool, change):
    tool("--archs", "80")
    if change == "source":
        (project / "src" / "family" / "scale.cu").write_text(KERNEL.replace("VALUE", "VALUE * 3.0"))
    elif change == "header":
        (project / "src" / "family" / "value.h").write_text("#define VALUE 5.0\n")
    else:
        (project / "out" / "scale.sm_80.cubin").write_bytes(b"damaged")
    assert "1 of 1 to compile" in tool("--archs", "80")[1]


def test_images_that_are_not_wanted_go(project, tool):
    tool("--archs", "80,90a")
    tool("--archs", "90a")
    assert sorted(path.name for path in (project / "out").iterdir()) == ["manifest.json", "scale.sm_90a.cubin"]


def test_spill_fails_the_build_and_names_the_kernel(project, tool):
    (project / "src" / "family" / "spill.cu").write_text(SPILLING)
    code, output = tool("--archs", "80")
    assert code != 0
    assert "family/spill.cu: spill spills" in output
    assert "spills-allowed" in output


def test_spill_with_a_reason_is_accepted_and_counted(project, tool):
    (project / "src" / "family" / "spill.cu").write_text("// spills-allowed: a test of this line\n" + SPILLING)
    code, output = tool("--archs", "80")
    assert code == 0, output
    module = next(module for module in read_manifest(project)["modules"] if module["stem"] == "spill")
    assert module["kernels"]["spill"]["spill_bytes"] > 0


def test_error_of_the_compiler_is_shown(project, tool):
    (project / "src" / "family" / "value.h").write_text("#define VALUE missing\n")
    code, output = tool("--archs", "80")
    assert code != 0
    assert 'family/scale.cu(3): error: identifier "missing" is undefined' in output


def test_fast_math_is_refused(project, tool):
    (project / "src" / "family" / "scale.cu").write_text("// nvrtc-options: --use_fast_math\n" + KERNEL)
    code, output = tool("--archs", "80")
    assert code != 0
    assert "fast math is not allowed" in output


def test_one_stem_in_two_folders_is_refused(project, tool):
    (project / "src" / "other").mkdir()
    (project / "src" / "other" / "scale.cu").write_text(KERNEL)
    code, output = tool("--archs", "80")
    assert code != 0
    assert "stem already taken" in output


@pytest.mark.parametrize("archs", ["", "hopper", "80;;90a", "9"])
def test_unknown_target_is_named(tool, archs):
    code, output = tool(f"--archs={archs}")
    assert code != 0
    assert f"got {archs!r}" in output


def test_a_package_without_kernels(project, tool):
    assert tool("--archs=80")[0] == 0
    code, output = tool("--archs=none")
    assert code == 0, output
    assert read_manifest(project)["modules"] == []
    assert [path.name for path in (project / "out").iterdir()] == ["manifest.json"]
    assert tool("--archs=none,80")[0] != 0


@pytest.mark.parametrize("command", [["build_ext"], ["egg_info"]])
def test_a_target_that_is_not_understood_ends_the_build_at_once(root, tmp_path, command):
    environment = os.environ | {"MADSPACE_CUDA_ARCHS": "hopper"}
    started = [sys.executable, root / "setup.py", "--dry-run", *command]
    answer = subprocess.run(started, env=environment, capture_output=True, text=True, timeout=60, cwd=root)
    assert answer.returncode != 0
    assert answer.stderr.startswith("error: MADSPACE_CUDA_ARCHS: expected capabilities like 90a,")
    assert "got 'hopper'" in answer.stderr
    assert answer.stdout == ""


def test_native_is_the_device_of_this_machine(root):
    # Only the question is asked here: the compiler uses a driver that is loaded, and the fake is too small for it.
    code = "import build_cubins; print(*build_cubins.parse_targets('native,ptx'))"
    environment = os.environ | {"LD_LIBRARY_PATH": str(fake_driver.build().parent), "PYTHONPATH": str(root / "tools")}
    command = [sys.executable, "-c", code]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.split() == ["sm_90a", "compute_80"]


def test_native_without_a_driver_says_so(project, tool):
    (project / "libcuda.so.1").write_bytes(b"no library")
    code, output = tool("--archs=native", LD_LIBRARY_PATH=str(project))
    assert code != 0
    assert "MADSPACE_CUDA_ARCHS=native: no driver here" in output


def test_variable_chooses_the_targets(project, tool):
    tool(MADSPACE_CUDA_ARCHS="90a;ptx")
    assert [module["target"] for module in read_manifest(project)["modules"]] == ["sm_90a", "compute_80"]
