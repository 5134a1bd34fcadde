"""One suite, two drivers: the fake one everywhere, the real one with ``--require-gpu``. All skips are decided here."""

from __future__ import annotations

import gc
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import distributions
import fake_driver
import ledger
import processes
import pytest

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent

MARKERS = (
    "gpu: needs a real GPU; runs with --require-gpu and counts for the GPU ledger",
    "multi_gpu: needs two devices (the fake driver has two)",
    "fake: needs the fake driver, for its log, faults and failures on demand; set by the use of the fake fixture",
    "needs(name, ...): needs an optional package or tool, see CAPABILITIES in conftest.py",
    "slow: takes more than ten seconds (leave out with -m 'not slow')",
)


def _installed(name):
    return lambda: importlib.util.find_spec(name) is not None


def _nvrtc():
    from madspace.core import _nvrtc
    from madspace.errors import CompileError

    try:
        _nvrtc.find()
    except CompileError:
        return False
    return True


def _isa(name):
    """Tell whether this processor has an instruction set of the host kernels."""

    def has():
        flags = Path("/proc/cpuinfo").read_text()
        wanted = {"v3": "avx2 fma bmi1 bmi2", "v4": "avx2 fma bmi1 bmi2 avx512f avx512dq avx512bw avx512vl avx512cd"}
        return all(f" {flag} " in flags.replace("\n", " ") for flag in wanted[name].split())

    return has


CAPABILITIES = {
    "isa_v3": _isa("v3"),
    "isa_v4": _isa("v4"),
    "nvrtc": _nvrtc,
    "torch": _installed("torch"),
    "cupy": _installed("cupy"),
    "jax": _installed("jax"),
    "ml_dtypes": _installed("ml_dtypes"),
    "matplotlib": _installed("matplotlib"),
    "mpmath": _installed("mpmath"),
    "hypothesis": _installed("hypothesis"),
    "cmake": lambda: shutil.which("cmake") is not None,
    "pkg_config": lambda: shutil.which("pkg-config") is not None,
    "x86_64": lambda: platform.machine() == "x86_64",
    "ptx_images": lambda: any((ROOT / "madspace" / "_cubins").glob("*.ptx")),
    "fork": lambda: hasattr(os, "fork"),
    "no_driver": lambda: not Path("/dev/nvidiactl").exists(),
}


def pytest_addoption(parser):
    """Add the options of this suite."""
    group = parser.getgroup("madspace")
    group.addoption(
        "--require-gpu",
        action="store_true",
        help="run on the real driver, treat a missing GPU as an error, and write the GPU ledger",
    )
    group.addoption("--gpu-tests-to", metavar="FILE", help="write the ids of the collected GPU tests to FILE")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Choose the number of processes, before xdist reads its options."""
    if config.pluginmanager.hasplugin("xdist") and not hasattr(config, "workerinput"):
        processes.choose(config.option, config.args)


def pytest_configure(config):
    """Choose the driver, before anything can start one."""
    for line in MARKERS:
        if line.split("(")[0].split(":")[0] not in {
            known.split("(")[0].split(":")[0] for known in config.getini("markers")
        }:
            config.addinivalue_line("markers", line)
    if not config.getoption("--require-gpu"):
        fake_driver.load()
    elif not config.option.collectonly:
        missing = _missing_gpu()
        if missing:
            raise pytest.UsageError(f"--require-gpu: {missing}")
    config.pluginmanager.register(ledger.Recorder(config), "gpu-ledger")
    config.pluginmanager.register(distributions, "distributions")


def _missing_gpu():
    """Tell what is missing for GPU tests, None where nothing is."""
    try:
        from madspace.core.device import Device

        Device(0)
    except Exception as error:
        return f"no usable GPU: {type(error).__name__}: {error}"
    return None


def pytest_collection_modifyitems(config, items):
    """Turn capabilities that are missing into skips, and list the GPU tests where that was asked for."""
    real = config.getoption("--require-gpu")
    absent = {name for name, present in CAPABILITIES.items() if not present()}
    n_devices = _device_count() if real and not config.option.collectonly else 2
    for item in items:
        if "fake" in item.fixturenames:
            item.add_marker(pytest.mark.fake)
        for reason in _reasons(item, real, absent, n_devices):
            item.add_marker(pytest.mark.skip(reason=reason))
    if hasattr(config, "workerinput"):
        processes.put_slow_files_first(items)
    if target := config.getoption("--gpu-tests-to"):
        Path(target).write_text("".join(f"{item.nodeid}\n" for item in items if ledger.is_gpu_test(item)))


def pytest_collection_finish():
    """Hide what was imported and collected from the garbage collector: it would go through all of it in every test."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Do so again after a file, for what its tests have imported; its garbage and its fixtures are gone by then."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return result


def _device_count():
    from madspace.core.device import device_count

    return device_count()


def _reasons(item, real, absent, n_devices):
    if real and item.get_closest_marker("fake"):
        yield "needs the fake driver"
    if not real and item.get_closest_marker("gpu"):
        yield "needs a GPU (--require-gpu)"
    if item.get_closest_marker("multi_gpu") and n_devices < 2:
        yield "needs two devices"
    for marker in item.iter_markers("needs"):
        if unknown := set(marker.args) - set(CAPABILITIES):
            raise pytest.UsageError(f"{item.nodeid}: needs: unknown capability {sorted(unknown)}")
        if missing := sorted(absent & set(marker.args)):
            yield f"needs {', '.join(missing)}"


@pytest.fixture(scope="session")
def real_gpu(request):
    """Return True with --require-gpu, False on the fake driver."""
    return request.config.getoption("--require-gpu")


@pytest.fixture(autouse=True)
def _driver_hygiene(request):
    """Fail a test that used the fake driver wrongly, or that left the thread's context stack changed."""
    if request.config.getoption("--require-gpu"):
        yield
        return
    fake = fake_driver.load()
    calls, depth = fake.n_calls(), fake.context_depth()
    yield
    if fake.n_calls() == calls:
        return
    gc.collect()
    faults, left = fake.faults(), fake.context_depth()
    fake.reset()
    assert not faults, "driver faults:\n" + "\n".join(faults)
    assert left == depth, f"the context stack has depth {left}, before the test {depth}"


@pytest.fixture
def fake():
    """Return the fake driver, reset."""
    driver = fake_driver.load()
    gc.collect()
    driver.reset()
    return driver


@pytest.fixture
def device():
    """Return device 0: a GPU with --require-gpu, else the fake one."""
    from madspace.core.device import Device

    return Device(0)


@pytest.fixture
def other_device(request):
    """Return device 1; the test must be marked multi_gpu."""
    assert request.node.get_closest_marker("multi_gpu"), "mark the test multi_gpu"
    from madspace.core.device import Device

    return Device(1)


@pytest.fixture
def stream(device):
    """Return a new non-blocking stream of device 0."""
    from madspace.core.stream import Stream

    return Stream(device)


@pytest.fixture
def block(device):
    """Return 1024 zeros (uint32) on device 0, which madspace knows nothing of."""
    from raw_driver import Block

    block = Block()
    yield block
    block.free()


@pytest.fixture(scope="session")
def kernels_ptx():
    """Return the image of the kernels that are described at its top."""
    return (TESTS / "kernels.ptx").read_bytes()


@pytest.fixture
def module(device, kernels_ptx):
    """Return the module of these kernels."""
    from madspace.core.module import Module

    return Module(kernels_ptx)


@pytest.fixture
def words(device, stream):
    """Return a buffer of 1024 uint32, zero, on its stream."""
    buffer = device.pool.allocate(4096, stream=stream)
    buffer.fill(0)
    return buffer


@pytest.fixture
def delay(device, kernels_ptx, real_gpu):
    """Return ``delay(stream, ms=30)``: what is queued on the stream afterwards runs late.

    On a GPU a kernel spins first. On the fake driver the stream's work waits until something synchronises with it,
    which is worse than any delay: work that fails to wait for this stream always comes first.
    """
    if not real_gpu:
        return lambda stream, ms=30: fake_driver.load().defer(stream)
    from raw_driver import spin

    return lambda stream, ms=30: spin(kernels_ptx, stream.handle, ms)


@pytest.fixture
def run_python(tmp_path):
    """Return a function that runs a script in a new interpreter and tells what happened (`run_python(code, ...)`).

    ``driver``: "fake" (the default), "real" for the GPU's own, or None for a machine without any.
    ``report`` of the result lists what the
    fake driver noted: ``fault ...`` lines, and ``live ...`` at the end of the process.
    """

    def run(code, *, driver="fake", timeout=60, env=None, args=()):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MADSPACE_")}
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(TESTS), str(ROOT), environment.get("PYTHONPATH")])
        )
        report = tmp_path / "driver-report"
        report.unlink(missing_ok=True)
        environment["MADSPACE_FAKE_REPORT"] = str(report)
        if driver == "fake":
            environment["MADSPACE_DRIVER_LIBRARY"] = str(fake_driver.build())
        environment |= env or {}
        command = [sys.executable, "-W", "error", *args, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
        lines = report.read_text().splitlines() if report.exists() else []
        return SimpleNamespace(
            returncode=done.returncode,
            stdout=done.stdout,
            stderr=done.stderr,
            report=lines,
            faults=[line for line in lines if line.startswith("fault ")],
        )

    return run
