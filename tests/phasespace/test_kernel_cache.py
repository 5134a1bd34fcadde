"""The disk cache of compiled kernels, with many processes at it: each gets the right kernel, whatever the others do."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from madspace.phasespace import jit

ROOT = Path(__file__).resolve().parents[2]
TARGET = "sm_90a"

# What each process runs: `ask(i)` is the digest of image i, `images(...)` replaces the compiler.
PRELUDE = """
import hashlib, os, resource, signal, sys, time
from pathlib import Path
from madspace.phasespace import jit

def source(i):
    return f'extern "C" __global__ void k{i}(double* x) {{ x[threadIdx.x] = {i}; }}'

def fake_image(i):
    return hashlib.sha256(str(i).encode()).digest() * 30000

def images():
    jit.compile_image = lambda text, **options: fake_image(text.split("void k")[1].split("(")[0])

def ask(i):
    return hashlib.sha256(jit._image(source(i), "k.cu", "sm_90a")).hexdigest()
"""


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a process with a script, its cache in a folder that was empty."""
    started = []

    def run(script, folder=None):
        environment = os.environ | {"PYTHONPATH": str(ROOT), "MADSPACE_CACHE_DIR": str(folder or tmp_path / "cache")}
        command = [sys.executable, "-c", PRELUDE + script]
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def answers(processes):
    """Return what each process has printed; all must have ended well."""
    found = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert err == ""
        found.append(out.split())
    return found


def go(processes):
    """Let processes continue that wait for a line, all at once."""
    for process in processes:
        process.stdout.read(1)
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()


WAIT = "print(end='.', flush=True); sys.stdin.readline()\n"


def fake_digest(i):
    return hashlib.sha256(hashlib.sha256(str(i).encode()).digest() * 30000).hexdigest()


def check_entries(folder, count):
    """Assert that a folder has so many entries, all of them whole, and nothing else."""
    paths = sorted(folder.iterdir())
    assert [path.suffix for path in paths] == [".image"] * count
    assert all(jit._read(folder, path.stem) is not None for path in paths)


@pytest.mark.needs("nvrtc")
def test_the_same_and_different_programs_at_once(start, tmp_path):
    images = [
        jit.compile_image(
            f'extern "C" __global__ void k{i}(double* x) {{ x[threadIdx.x] = {i}; }}',
            name="k.cu",
            arch=TARGET,
            options=["-default-device", "-std=c++17"],
            include_dirs=[jit._include_dir()],
        )
        for i in range(3)
    ]
    expected = [hashlib.sha256(image).hexdigest() for image in images]
    orders = [(0, 1, 2), (0, 2, 1), (2, 1, 0), (1, 0, 2), (0, 1, 2), (2, 0, 1)]
    processes = [start(WAIT + f"print(*map(ask, {order}))") for order in orders]
    go(processes)
    assert answers(processes) == [[expected[i] for i in order] for order in orders]
    check_entries(tmp_path / "cache", 3)
    # Others find them: they need no compiler.
    processes = [start("jit.compile_image = None; print(*map(ask, range(3)))") for _ in range(2)]
    assert answers(processes) == [expected] * 2


def test_entries_damaged_while_they_are_read_and_written(start, tmp_path):
    """One process spoils entries in place, as bad disks and people do; the others never take one."""
    rounds = "images()\n" + WAIT + "for k in range(150): print(ask(k % 3))"
    processes = [start(rounds) for _ in range(3)]
    spoiler = start(
        WAIT
        + """
end = time.monotonic() + 60
while not Path(os.environ["MADSPACE_CACHE_DIR"], "stop").exists() and time.monotonic() < end:
    for n, path in enumerate(Path(os.environ["MADSPACE_CACHE_DIR"]).glob("*.image")):
        size = path.stat().st_size
        if n == 0:
            os.truncate(path, size // 2)
        elif n == 1:
            path.write_bytes(b"")
        else:
            with path.open("r+b") as file:
                file.seek(size // 3)
                file.write(b"spoiled")
    time.sleep(0.001)
"""
    )
    go([*processes, spoiler])
    assert answers(processes) == [[fake_digest(k % 3) for k in range(150)]] * 3
    (tmp_path / "cache" / "stop").touch()
    answers([spoiler])
    assert not list((tmp_path / "cache").glob("*.tmp"))


def test_an_entry_under_the_name_of_another(start, tmp_path):
    script = """
images()
ask(1)
(path,) = Path(os.environ["MADSPACE_CACHE_DIR"]).iterdir()
path.rename(path.with_name(jit._key(source(2), "sm_90a") + ".image"))
print(ask(2))
"""
    assert answers([start(script)]) == [[fake_digest(2)]]
    check_entries(tmp_path / "cache", 1)


def test_a_full_disk(start, tmp_path):
    """A file that may not grow: the first bytes are written, the rest is refused."""
    script = "images(); resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n" + WAIT + "print(ask(1), ask(2))"
    processes = [start(script) for _ in range(3)]
    go(processes)
    assert answers(processes) == [[fake_digest(1), fake_digest(2)]] * 3
    check_entries(tmp_path / "cache", 0)


def test_a_read_only_folder(start):
    """Entries that are there are used, others are compiled by each process."""
    # Not a folder of tmp_path, which other users may not enter.
    with tempfile.TemporaryDirectory() as outside:
        folder = Path(outside) / "cache"
        answers([start("images(); ask(1)", folder)])
        (entry,) = folder.iterdir()
        entry.chmod(0o644)
        Path(outside).chmod(0o755)
        folder.chmod(0o555)
        # The superuser may write anywhere.
        script = """
images()
jit._key(source(1), "sm_90a")
if os.getuid() == 0:
    os.setuid(65534)
print(ask(1), ask(2))
"""
        try:
            assert answers([start(script, folder) for _ in range(3)]) == [[fake_digest(1), fake_digest(2)]] * 3
            assert [path.name for path in folder.iterdir()] == [entry.name]
        finally:
            folder.chmod(0o755)
            shutil.rmtree(folder)


@pytest.mark.parametrize("folder", ["/proc/madspace-kernels", "/dev/null/kernels"])
def test_a_folder_that_cannot_be_made(start, folder):
    assert answers([start("images(); print(ask(1))", folder)]) == [[fake_digest(1)]]


def test_a_user_without_a_home(monkeypatch):
    def refuse():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("MADSPACE_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(jit.Path, "home", refuse)
    monkeypatch.setattr(jit, "_key", lambda source, target: "key")
    monkeypatch.setattr(jit, "compile_image", lambda source, **options: b"image")
    assert jit._image("source", "k.cu", TARGET) == b"image"


def test_processes_killed_while_writing(start, tmp_path):
    """What they leave is never read, and goes with the next entry once it is old enough to be nobody's."""
    folder = tmp_path / "cache"
    # At the last moment, then at any.
    last = "images(); jit.Path.replace = lambda *a: os.kill(os.getpid(), signal.SIGKILL); ask(-2)"
    killed = [start(last) for _ in range(2)]
    killed += [start("images()\n" + WAIT + "for k in range(10**6): ask(k)") for _ in range(3)]
    go(killed[2:])
    for k, process in enumerate(killed):
        if k >= 2:
            time.sleep(0.02 * k)
            process.kill()
        process.wait(timeout=60)
        assert process.returncode == -signal.SIGKILL
    left = list(folder.glob("*.tmp"))
    assert 2 <= len(left) <= len(killed)
    assert answers([start("images(); print(ask(1))")]) == [[fake_digest(1)]]
    entries = list(folder.glob("*.image"))
    assert all(jit._read(folder, path.stem) is not None for path in entries)
    for path in left:
        assert path.exists()  # of a process that may still be writing, for all that others know
        os.utime(path, (time.time() - 2 * jit._STALE,) * 2)
    assert answers([start("images(); print(ask(-1))")]) == [[fake_digest(-1)]]
    check_entries(folder, len(entries) + 1)


def test_a_file_that_is_swept_while_it_is_written(start, tmp_path):
    """A process that was stopped for long has its file taken away: it goes on without an entry."""
    script = """
images()
def replace(path, target, replace=Path.replace):
    path.unlink()
    return replace(path, target)
jit.Path.replace = replace
print(ask(1))
"""
    assert answers([start(script)]) == [[fake_digest(1)]]
    check_entries(tmp_path / "cache", 0)


def test_an_interrupt_while_writing_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(jit.Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        jit._write(tmp_path, "key", b"image")
    assert not list(tmp_path.iterdir())
