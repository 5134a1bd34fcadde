"""compile and compile_image: CUDA C++ through NVRTC, with and without a device; what is wrong is told."""

import ast
import ctypes
import pickle
from pathlib import Path

import fake_driver
import numpy as np
import pytest

from madspace.core import _nvrtc
from madspace.core.compiler import compile, compile_image, get_include
from madspace.errors import CompileError

FILL = """
extern "C" __global__ void fill(unsigned* out, unsigned value, unsigned n) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = value;
}
"""
needs_nvrtc = pytest.mark.needs("nvrtc")


@pytest.fixture
def fake_fill(real_gpu):
    """Let the fake driver run the kernel that is compiled here."""
    if real_gpu:
        return

    def fill(params, grid, block):
        out, value, n = (
            kind.from_address(params[i]).value
            for i, kind in enumerate((ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32))
        )
        ctypes.memmove(out, np.full(n, value, np.uint32).tobytes(), 4 * n)

    fake_driver.load().register("fill", fill)


@needs_nvrtc
@pytest.mark.parametrize(("arch", "start"), [("sm_80", b"\x7fELF"), ("sm_90a", b"\x7fELF"), ("compute_80", b"//")])
def test_a_named_target_needs_no_device(run_python, arch, start):
    done = run_python(f"import madspace; print(madspace.compile_image({FILL!r}, arch={arch!r})[:4])", driver=None)
    assert done.returncode == 0, done.stderr
    assert ast.literal_eval(done.stdout).startswith(start)


@needs_nvrtc
def test_a_named_target_does_not_start_the_driver(fake):
    compile_image(FILL, arch="sm_90")
    assert fake.names() == []


@needs_nvrtc
def test_the_same_source_gives_the_same_image():
    assert compile_image(FILL, arch="sm_90") == compile_image(FILL.encode(), arch="sm_90")


@needs_nvrtc
@pytest.mark.usefixtures("fake_fill")
def test_a_compiled_kernel_runs(device, stream, words):
    module = compile(FILL, name="fill.cu")
    assert (module.name, module.kernel_names) == ("fill.cu", ("fill",))
    assert module["fill"].param_sizes == (8, 4, 4)
    module["fill"].launch(2, 128, words, 3, 1024, stream=stream)
    assert (np.frombuffer(words.copy_to_host(), np.uint32) == 3).all()


@needs_nvrtc
def test_the_default_target_is_the_device_s(device):
    major, minor = device.compute_capability
    binary = compile(FILL)["fill"].attributes(device).binary_version
    assert binary == 10 * major + minor
    assert compile_image(FILL, arch=device) == compile_image(FILL)


@needs_nvrtc
def test_a_device_newer_than_the_compiler_gets_ptx(fake, device):
    for attribute, value in ((75, 99), (76, 0)):
        fake.set_attribute(0, attribute, value)
    image = compile_image(FILL)
    assert f".target sm_{_nvrtc.supported()[-1]}".encode() in image


@needs_nvrtc
def test_the_device_headers_are_found():
    source = '#include <madspace/four_vector.h>\n#include <madspace/math.h>\nextern "C" __global__ void k() {}\n'
    assert compile_image(source, arch="sm_90").startswith(b"\x7fELF")


@needs_nvrtc
def test_headers_of_ones_own(tmp_path):
    (tmp_path / "there.h").write_text("#define THERE 1\n")
    source = '#include "here.h"\n#include <there.h>\nextern "C" __global__ void k(int* p) { *p = HERE + THERE; }\n'
    for here in ("#define HERE 2\n", b"#define HERE 2\n"):
        image = compile_image(source, arch="compute_80", headers={"here.h": here}, include_dirs=[tmp_path])
        assert b".entry k" in image
    with pytest.raises(CompileError, match=r"here\.h"):
        compile_image(source, arch="compute_80", include_dirs=[str(tmp_path)])


@needs_nvrtc
def test_options_reach_the_compiler():
    source = 'extern "C" __global__ void NAME() {}'
    assert b".entry chosen" in compile_image(source, arch="compute_80", options=["-DNAME=chosen"])
    with pytest.raises(CompileError, match=r"(?s)--nonsense.*unrecognized option"):
        compile_image(source, arch="compute_80", options=("--nonsense",))


@needs_nvrtc
def test_an_error_carries_the_log():
    with pytest.raises(CompileError, match=r"mine\.cu: NVRTC_ERROR_COMPILATION.*sm_90") as caught:
        compile_image("__global__ void k() { wrong; }", name="mine.cu", arch="sm_90")
    assert 'mine.cu(1): error: identifier "wrong" is undefined' in caught.value.log
    assert caught.value.log in str(caught.value)
    assert isinstance(caught.value, RuntimeError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.log) == (str(caught.value), caught.value.log)


@needs_nvrtc
def test_a_target_that_the_compiler_lacks():
    with pytest.raises(CompileError, match="gpu-architecture"):
        compile_image(FILL, arch="sm_10")


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"arch": "90"}, ValueError, "arch: expected a name like 'sm_90a'"),
        ({"arch": "sm_90 --x"}, ValueError, "arch: expected a name"),
        ({"arch": 90}, TypeError, "arch: expected a str or a Device, got int"),
        ({"source": None}, TypeError, "source: expected str or bytes, got NoneType"),
        ({"headers": {"a.h": 1}}, TypeError, r"headers\['a.h'\]: expected str or bytes, got int"),
        ({"options": "-lineinfo"}, TypeError, "options: expected an iterable of str"),
        ({"options": None}, TypeError, "options: expected an iterable of str, got None"),
        ({"options": [1]}, TypeError, "options: expected an iterable of str, got one with 1"),
        ({"include_dirs": 1}, TypeError, "include_dirs: expected an iterable of str or PathLike, got 1"),
        ({"include_dirs": ["a\0b"]}, ValueError, "include_dirs: expected printable text"),
        ({"headers": ["a.h"]}, TypeError, "headers: expected a mapping of str to str or bytes, got list"),
        ({"headers": {1: ""}}, TypeError, "headers: expected a str, got int"),
        ({"name": None}, TypeError, "name: expected a str, got NoneType"),
        ({"name": "a\0b"}, ValueError, "name: expected printable text"),
        ({"source": "\udcff"}, ValueError, "source: expected text that UTF-8 can hold"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_wrong_arguments_are_named(change, error, match):
    with pytest.raises(error, match=match):
        compile_image(**{"source": FILL, "arch": "sm_90"} | change)


def test_a_machine_without_the_compiler_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(_nvrtc, "roots", lambda: iter([tmp_path]))
    monkeypatch.setattr(_nvrtc, "SONAME", "libnvrtc-that-nobody-has.so.13")
    _nvrtc.find.cache_clear()
    try:
        with pytest.raises(CompileError, match=f"NVRTC: .* was not found in {tmp_path}/lib.*nvidia-cuda-nvrtc"):
            compile_image(FILL, arch="sm_90")
    finally:
        _nvrtc.find.cache_clear()


def test_the_toolkit_that_the_caller_names_is_looked_at(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    found = list(_nvrtc.roots())
    assert tmp_path in found
    assert all(root.name == "cu13" for root in found[: found.index(tmp_path)])


def test_the_headers_are_where_it_says():
    assert (Path(get_include()) / "madspace" / "four_vector.h").is_file()
