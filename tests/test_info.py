"""`python -m madspace info`, and how the command line ends."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import madspace
from madspace import __main__ as command_line
from madspace import info

ROOT = Path(__file__).resolve().parent.parent
CALLS_WITH_A_CONTEXT = re.compile(r"cuCtx|cuDevicePrimaryCtx|cuMem|cuStream|cuLibrary")


@pytest.fixture
def no_images(monkeypatch):
    """Pretend that no kernel image was installed."""

    def missing():
        raise madspace.KernelImageError("no kernel images are installed")

    monkeypatch.setattr(info, "shipped_images", missing)


def run_info(*arguments):
    """Return the exit status of the command."""
    return command_line.main(["info", *arguments])


def test_text_and_json_tell_the_same(capsys):
    assert run_info("--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert run_info() == 0
    text = capsys.readouterr().out
    assert report["versions"]["madspace"] == madspace.__version__
    for version in report["versions"].values():
        assert version in text
    for file in report["images"]["files"]:
        assert re.search(rf"{re.escape(file['file'])} +sha256 {file['sha256']} +{len(file['kernels'])} kernels", text)
    assert report["cpu"]["threads"] == madspace.get_num_threads()
    assert set(report) == {"versions", "driver", "devices", "images", "cpu", "environment", "unknown_variables"}


def test_devices(device, capsys):
    described = info.collect()["devices"][device.id]
    assert described["name"] == device.name
    assert described["uuid"] == device.uuid
    assert described["compute_capability"] == device.compute_capability
    assert described["total_memory"] == device.total_memory
    assert described["multiprocessor_count"] == device.multiprocessor_count
    run_info()
    text = capsys.readouterr().out
    assert device.name in text
    assert f"GPU-{device.uuid}" in text


def test_the_pool_is_described_once_it_exists(device, capsys):
    buffer = device.pool.allocate(1 << 20)
    pool = info.collect()["devices"][device.id]["pool"]
    assert pool["used_bytes"] >= 1 << 20
    assert pool["reserved_bytes"] == device.pool.reserved_bytes
    assert pool["release_threshold"] == device.pool.release_threshold
    run_info()
    assert f"pool: used_bytes {pool['used_bytes']}," in capsys.readouterr().out
    buffer.close()


def test_the_image_is_the_one_that_the_device_would_use(fake, monkeypatch):
    images = [{"stem": stem, "target": target} for stem in ("a", "b") for target in ("sm_80", "sm_90a")]
    monkeypatch.setattr(info, "shipped_images", lambda: [*images, {"stem": "c", "target": "sm_120"}])
    monkeypatch.setattr(info, "_images", lambda: {"files": [], "problem": None})
    report = info.collect()
    assert report["devices"][0]["images"] == {"a": "sm_90a", "b": "sm_90a", "c": None}
    assert "c: NONE FITS" in info.as_text(report)


def test_without_kernel_images(device, no_images, capsys):
    report = info.collect()
    assert report["images"] == {"files": [], "problem": "no kernel images are installed"}
    assert report["devices"][device.id]["images"] == {}
    assert run_info() == 0
    assert "PROBLEM: no kernel images are installed" in capsys.readouterr().out


def test_a_damaged_image_is_named(monkeypatch):
    image = {"file": "x.cubin", "stem": "x", "target": "sm_80", "sha256": "0" * 64, "kernels": {"k": {}}}
    monkeypatch.setattr(info, "shipped_images", lambda: [image])
    images = info.collect()["images"]
    assert images["files"] == [
        {"file": "x.cubin", "stem": "x", "target": "sm_80", "sha256": "0" * 12, "kernels": ["k"]}
    ]
    assert "x.cubin" in images["problem"]


def test_nothing_needs_a_context(run_python):
    done = run_python("""
import os
import fake_driver
fake = fake_driver.Fake(os.environ["MADSPACE_DRIVER_LIBRARY"])
from madspace import info
report = info.collect()
print(len(report["devices"]), report["devices"][0]["pool"], report["driver"]["cuda"])
print(*fake.names(), sep="\\n")
""")
    first, *calls = done.stdout.splitlines()
    assert first == "2 None 13.0", done.stderr
    assert "cuDeviceGetAttribute" in calls
    assert not [call for call in calls if CALLS_WITH_A_CONTEXT.match(call)]


def test_the_library_is_named(fake):
    assert info.collect()["driver"]["library"] == os.environ["MADSPACE_DRIVER_LIBRARY"]


@pytest.mark.fake
@pytest.mark.needs("no_driver")
def test_without_a_driver_it_says_what_is_missing(run_python):
    done = run_python("import sys\nfrom madspace import __main__\nsys.exit(__main__.main(['info']))", driver=None)
    assert (done.returncode, done.stderr) == (0, "")
    assert "PROBLEM: no CUDA device node" in done.stdout
    assert "devices\n  none" in done.stdout


@pytest.mark.parametrize("call", ["cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGetUuid", "cuDeviceTotalMem"])
def test_what_the_driver_refuses_is_reported(fake, call):
    with fake.failing(call):
        driver = info.collect()["driver"]
    assert call in driver["problem"]
    assert driver["library"]


def test_each_failure_is_reported(fake):
    for name, error in fake.each_failure(info.collect):
        assert error is None, f"the failure of {name} came out"


@pytest.mark.fake
@pytest.mark.needs("fork")
def test_in_a_forked_child(run_python):
    done = run_python("""
import os
import madspace
from madspace import info
madspace.Device(0)
child = os.fork()
if child == 0:
    print(info.collect()["driver"]["problem"], flush=True)
    os._exit(0)
os.waitpid(child, 0)
""")
    assert "forked" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (user@host)\n",
            "580.65.06",
        ),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  595.12  Mon\nGCC version: gcc 12.2.0\n", "595.12"),
        ("", None),
    ],
)
def test_the_version_of_the_kernel_module(tmp_path, monkeypatch, text, expected):
    path = tmp_path / "version"
    path.write_text(text)
    monkeypatch.setattr(info, "KERNEL_MODULE", path)
    assert info.collect()["driver"]["kernel_module"] == expected


def test_the_environment(monkeypatch, capsys):
    monkeypatch.setenv("MADSPACE_NUM_THREADS", "3")
    monkeypatch.setenv("MADSPACE_NUMTHREADS", "4")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("SOMETHING_ELSE", "secret")
    report = info.collect()
    assert report["unknown_variables"] == ["MADSPACE_NUMTHREADS"]
    assert report["environment"]["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert "SOMETHING_ELSE" not in report["environment"]
    run_info()
    text = capsys.readouterr().out
    assert "MADSPACE_NUMTHREADS=4    unknown to madspace" in text
    assert "MADSPACE_NUM_THREADS=3\n" in text


def test_every_variable_that_is_read_is_known():
    read = set()
    for folder in ("madspace", "benchmarks", "tools", "tests/fake_driver"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".pyx", ".cpp", ".h"} and path.name != "info.py":
                read |= set(re.findall(r"""["'](MADSPACE_[A-Z_]+)["']""", path.read_text()))
    assert "MADSPACE_DRIVER_LIBRARY" in read
    assert read <= set(info.VARIABLES)


# How the command line ends.


def test_a_reader_that_goes_away_is_no_message():
    command = [sys.executable, "-m", "madspace", "info"]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_without_any_output():
    command = f"'{sys.executable}' -m madspace info >&-"
    done = subprocess.run(command, cwd=ROOT, shell=True, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_environment_may_hold_any_bytes(encoding, options):
    environment = {**os.environ, "MADSPACE_COMMIT": "\udcff\u00e9", "PYTHONIOENCODING": encoding}
    command = [sys.executable, "-m", "madspace", "info", *options]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"MADSPACE_COMMIT" in done.stdout


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["info", "--nonsense"]])
def test_wrong_arguments(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        command_line.main(arguments)
    assert ended.value.code == 2
    assert "usage: python -m madspace" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (KeyboardInterrupt(), 130, ""),
        (madspace.ShapeError("s: expected one"), 1, "madspace info: s: expected one\n"),
    ],
)
def test_what_a_command_raises(monkeypatch, capsys, error, status, message):
    def fail(options):
        raise error

    monkeypatch.setattr(info, "run", fail)
    assert run_info() == status
    assert capsys.readouterr().err == message


def test_the_status_of_a_command_is_passed_on(capsys):
    assert command_line.main(["demo", "--points", "1"]) == 2
    assert "expected at least 1000, got 1" in capsys.readouterr().err


def test_the_demo_falls_back_to_the_cpu_where_the_device_fails(monkeypatch, capsys):
    def broken(number):
        raise madspace.DriverError("cuInit: broken", 999, "CUDA_ERROR_UNKNOWN", "cuInit")

    monkeypatch.setattr(madspace, "is_available", lambda: True)
    monkeypatch.setattr(madspace, "Device", broken)
    assert command_line.main(["demo", "--points", "1000"]) == 0
    shown = capsys.readouterr().out
    assert "the CPU is used: cuInit: broken\n" in shown
    assert "device                 CPU" in shown
