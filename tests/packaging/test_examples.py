"""The examples of the C API are built against an installed wheel, all at once, and run: in C, in Cython, embedded."""

import json
import os
import re
import shutil
import subprocess
import sysconfig
import venv

import pytest
from capi_table import HEADER, version
from distributions import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("package_index")]
MAJOR, MINOR = version(HEADER.read_text())

USE_C = """
import numpy as np, madspace, madspace_example_c
from madspace import FunctionBuilder, FunctionRuntime, NamedTypes, batch_float
builder = FunctionBuilder(NamedTypes([("x", batch_float)]), NamedTypes([("y", batch_float)]))
builder.output(0, builder.sqrt(builder.input(0)))
program = FunctionRuntime(builder.function()).programs[0]
x = np.random.default_rng(1).random(10_001)
y = madspace_example_c.evaluate(program, x[::3])
assert isinstance(y, madspace.Tensor)
np.testing.assert_array_equal(y.numpy(), np.sqrt(x[::3]))
try:
    madspace_example_c.evaluate(3, x)
except RuntimeError as error:
    print(error)
print(madspace_example_c.version())
"""
USE_CYTHON = """
import ml_dtypes, numpy as np
import madspace_example_cython as example
from madspace import kda
rng = np.random.default_rng(2)
def bf16(*shape):
    return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)
q, k, v, g, beta = *(bf16(1, 100, 2, 64) for _ in range(4)), bf16(1, 100, 2)
a_log, dt_bias = np.zeros(2, np.float32), np.zeros((2, 64), np.float32)
wanted, got = (np.full((1, 2, 64, 64), np.nan, np.float32) for _ in range(2))
o = kda.fwd(q, k, v, g, beta, 0.125, A_log=a_log, dt_bias=dt_bias, lower_bound=-5.0, final_state=wanted)
out = np.zeros(o.shape, np.uint16)
example.attend(*(x.view(np.uint16) for x in (q, k, v, g, beta)), a_log, dt_bias, out, got, 0.125)
np.testing.assert_array_equal(out, o.view(np.uint16))
np.testing.assert_array_equal(got, wanted)
assert example.workspace_size(100, 2) == kda.get_workspace_size(100, 2)
try:
    example.attend(*(x.view(np.uint16) for x in (q, k, v, g, beta)), a_log, dt_bias, out, got, float("nan"))
except RuntimeError as error:
    print(error)
print(example.version)
"""
WRITE_PROGRAM = """
import sys
from madspace import FunctionBuilder, FunctionRuntime, NamedTypes, batch_float
builder = FunctionBuilder(NamedTypes([("x", batch_float)]), NamedTypes([("y", batch_float)]))
builder.output(0, builder.square(builder.input(0)))
open(sys.argv[1], "wb").write(FunctionRuntime(builder.function()).programs[0].to_bytes())
"""
TELL = """
import json, madspace, madspace.capi as capi
print(json.dumps([madspace.get_include(), capi.get_cmake_dir(), capi.get_pkgconfig_dir()]))
"""


def embedding_flags():
    """Return the options that link a program with this interpreter's library."""
    get = sysconfig.get_config_var
    folder = get("LIBDIR") if get("Py_ENABLE_SHARED") else get("LIBPL")
    words = [f"-L{folder}", f"-Wl,-rpath,{folder}", f"-lpython{get('LDVERSION')}", *get("LIBS").split()]
    return [*words, *get("SYSLIBS").split(), "-lpthread"]


class Place:
    """A fresh environment with the wheel, and the examples in it."""

    def __init__(self, folder, environment):
        self.folder, self.environment = folder, environment
        self.python = folder / "environment" / "bin" / "python"

    def run(self, *command):
        """Return the output of a command that must succeed."""
        return run(command, self.folder, self.environment)

    def told(self):
        """Return the folders of headers, of the CMake package and of the pkg-config file."""
        return json.loads(self.run(self.python, "-c", TELL))

    def program(self):
        """Return the path of a program's bytes: the square of a number."""
        path = self.folder / "square.program"
        self.run(self.python, "-c", WRITE_PROGRAM, path)
        return path


@pytest.fixture(scope="module")
def place(built, root, clean_environment, tmp_path_factory):
    """Return where the examples were built."""
    folder = tmp_path_factory.mktemp("examples")
    shutil.copytree(root / "examples", folder / "examples")
    venv.create(folder / "environment", with_pip=True)
    place = Place(folder, clean_environment)
    place.run(place.python, "-m", "pip", "install", "--quiet", built[0], "setuptools==81.0.0", "Cython==3.3.1")
    include = place.told()[0]
    install = [place.python, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps"]
    examples = folder / "examples"
    commands = [[*install, examples / name] for name in ("c_extension", "cython_extension")]
    source, headers = examples / "embedding" / "main.cpp", [f"-I{include}", f"-I{sysconfig.get_path('include')}"]
    commands.append(["g++", "-std=c++17", "-Wall", "-Wextra", *headers, source, "-o", folder / "embedding"])
    commands[-1] += embedding_flags()
    started = [
        subprocess.Popen(
            [str(word) for word in command],
            env=clean_environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command in commands
    ]
    for command, process in zip(commands, started, strict=True):
        output = process.communicate(timeout=600)[0]
        assert process.returncode == 0, f"{command}\n{output}"
    return place


def test_c_extension(place):
    printed = place.run(place.python, "-W", "error", "-c", USE_C)
    assert "MS_ERROR_ARGUMENT: object: expected a madspace.Program, got int" in printed
    assert f"({MAJOR}, {MINOR})" in printed


def test_cython_extension(place):
    printed = place.run(place.python, "-W", "error", "-c", USE_CYTHON)
    assert "MS_ERROR_ARGUMENT: scale: expected a finite number" in printed
    assert f"({MAJOR}, {MINOR})" in printed


def expected_sums():
    """Return what the threads of the embedding program compute."""
    n = 2000
    return [sum(((i + 0.5) / n + number) ** 2 for i in range(n)) for number in range(4)]


def check_embedding(place, program):
    *sums, last = place.run(program, place.python, place.program()).split()
    assert last == "done"
    assert [float(x) for x in sums] == pytest.approx(expected_sums(), rel=1e-11)


def test_program_that_embeds_python(place):
    check_embedding(place, place.folder / "embedding")


@pytest.mark.needs("cmake")
def test_cmake_package(place):
    _, cmake_dir, _ = place.told()
    source, build = place.folder / "examples" / "embedding", place.folder / "build"
    base = sysconfig.get_config_var("prefix")
    configure = ["cmake", "-S", source, "-B", build, f"-Dmadspace_DIR={cmake_dir}", f"-DPython3_ROOT_DIR={base}"]
    configure += [f"-DPython3_EXECUTABLE={base}/bin/python3", "-DPython3_FIND_STRATEGY=LOCATION"]
    place.run(*configure)
    place.run("cmake", "--build", build)
    check_embedding(place, build / "embedding")
    newer = f"{MAJOR}.{MINOR + 1}"
    text = (source / "CMakeLists.txt").read_text()
    text, n = re.subn(r"madspace [\d.]+ CONFIG", f"madspace {newer} CONFIG", text)
    assert n == 1
    (place.folder / "newer").mkdir()
    (place.folder / "newer" / "CMakeLists.txt").write_text(text)
    configure[2], configure[4] = place.folder / "newer", place.folder / "newer-build"
    with pytest.raises(AssertionError, match=re.escape(f'version "{newer}"')):
        place.run(*configure)


@pytest.mark.needs("pkg_config")
def test_pkgconfig_file(place):
    include, _, folder = place.told()
    place.environment = place.environment | {"PKG_CONFIG_PATH": folder}
    flags = place.run("pkg-config", "--cflags", f"madspace >= {MAJOR}.{MINOR}").split()
    assert [os.path.realpath(flag[2:]) for flag in flags] == [os.path.realpath(include)]
    with pytest.raises(AssertionError):
        place.run("pkg-config", "--exists", f"madspace >= {MAJOR}.{MINOR + 1}")
