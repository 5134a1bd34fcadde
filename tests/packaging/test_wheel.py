"""The sdist makes a wheel without a toolkit; the wheel is complete and imports with all supported cuda-bindings."""

import email
import json
import re
import sysconfig
import tarfile
import venv
import zipfile

import pytest
from distributions import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("package_index")]

MAX_BYTES = 40_000_000

IMPORT_ALL = """
import importlib, pkgutil, sys
import madspace
assert "site-packages" in madspace.__file__, madspace.__file__
names = [found.name for found in pkgutil.walk_packages(madspace.__path__, "madspace.")]
for name in names:
    if name not in ("madspace.__main__", "madspace.torch"):
        importlib.import_module(name)
assert isinstance(madspace.is_available(), bool)
print(len(names))
"""


@pytest.fixture(scope="module")
def names(built):
    with zipfile.ZipFile(built[0]) as archive:
        return set(archive.namelist())


def test_sdist_holds_the_sources_and_nothing_built(sdist):
    with tarfile.open(sdist) as archive:
        files = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    expected = {"setup.py", "pyproject.toml", "LICENSE", "README.md", "tools/build_cubins.py", "madspace/py.typed"}
    assert expected <= files
    built_files = [name for name in files if re.search(r"\.(so|o|cubin|pyc)$|^build/|_cubins/", name)]
    assert built_files == []


def test_compilers_come_from_the_build_requirements(built):
    log = built[1]
    nvrtc = re.search(r"cubins: NVRTC (\S+) \((\S+)\)", log)
    headers = re.search(r"extensions: CUDA headers of (\S+)", log)
    assert nvrtc[1].startswith("13.0.")
    assert "pip-build-env" in nvrtc[2]
    assert "pip-build-env" in headers[1]
    assert "/usr/local/cuda" not in log


def test_wheel_is_small(built):
    assert built[0].stat().st_size <= MAX_BYTES


def test_wheel_holds_every_module_with_its_stub_and_declarations(root, names):
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    sources = [path.relative_to(root) for path in root.glob("madspace/**/*.pyx")]
    assert len(sources) > 5
    expected = {str(path.with_suffix("")) + end for path in sources for end in (suffix, ".pyi")}
    for pattern in ("*.py", "*.pyi", "*.pxd"):
        expected |= {str(path.relative_to(root)) for path in root.glob(f"madspace/**/{pattern}")}
    assert expected - names == set()
    assert {"madspace/py.typed", "madspace/bench/c_twin.c", "madspace/bench/c_api.c"} <= names
    assert [name for name in names if name.endswith((".pyx", ".cpp"))] == []


def test_wheel_holds_the_device_headers_once(root, names):
    headers = {path.name for path in root.glob("cuda_src/include/madspace/*.h")}
    assert {name for name in headers if f"madspace/include/madspace/{name}" not in names} == set()


def test_wheel_holds_what_extensions_are_built_with(root, names):
    shared = {str(path.relative_to(root)) for path in root.glob("madspace/share/**/*") if path.is_file()}
    assert len(shared) == 3
    assert shared | {"madspace/include/madspace/madspace.h", "madspace/capi/__init__.pxd"} <= names


def test_wheel_holds_what_its_manifest_lists(built, names):
    with zipfile.ZipFile(built[0]) as archive:
        manifest = json.loads(archive.read("madspace/_cubins/manifest.json"))
    listed = {f"madspace/_cubins/{module['file']}" for module in manifest["modules"]}
    assert {name for name in names if name.endswith((".cubin", ".ptx"))} == listed
    assert {module["target"] for module in manifest["modules"]} == {"sm_80", "sm_90a", "sm_100", "sm_120", "compute_80"}


def test_metadata_asks_for_what_is_needed_at_run_time(built, names):
    (path,) = [name for name in names if name.endswith(".dist-info/METADATA")]
    with zipfile.ZipFile(built[0]) as archive:
        metadata = email.message_from_bytes(archive.read(path))
    required = {line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line}
    assert {re.match(r"[\w-]+", line)[0] for line in required} == {"numpy", "cuda-bindings", "ml_dtypes"}
    assert metadata["Name"] == "madspace-driver"
    assert metadata["Requires-Python"] == ">=3.11"


@pytest.fixture(scope="module")
def installed(built, clean_environment, tmp_path_factory):
    """Return the interpreter of a fresh environment that holds the wheel and what it requires."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run([python, "-m", "pip", "install", "--quiet", built[0]], folder, clean_environment)
    return python


@pytest.mark.parametrize("minor", ["13.0", "13.3", "13.5"])
def test_wheel_imports_with_bindings(installed, clean_environment, tmp_path, minor):
    command = [installed, "-m", "pip", "install", "--quiet", f"cuda-bindings=={minor}.*"]
    run(command, tmp_path, clean_environment)
    printed = run([installed, "-W", "error", "-c", IMPORT_ALL], tmp_path, clean_environment)
    assert int(printed) > 5


def test_benchmarks_run_from_the_wheel(installed, clean_environment, tmp_path):
    command = [
        installed,
        "-m",
        "madspace",
        "bench",
        "--device",
        "cpu",
        "--quick",
        "--cases",
        "cpu*n=1000,*-t256-h1,*numpy",
    ]
    printed = run([*command, "--json", "result.json"], tmp_path, clean_environment)
    assert "| cpu order=[0, 1] n=1000" in printed
    assert set(json.loads((tmp_path / "result.json").read_text())["benchmarks"]) >= {"phasespace", "kda", "latency"}


def test_demo_runs_from_the_wheel(installed, clean_environment, tmp_path):
    printed = run([installed, "-m", "madspace", "demo"], tmp_path, clean_environment)
    assert "volume" in printed
