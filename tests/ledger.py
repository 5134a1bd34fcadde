"""The GPU ledger: which GPU tests passed where, with which kernel images (benchmarks/results/gpu_ledger.json).

A session with ``--require-gpu`` merges its outcomes into the ledger; `problems` finds what no passing run covers. Gaps
that are known stand in PENDING.md beside the ledger, one line each: ``- `name`: reason``. A name is a test id, the part
of one before ``::`` or ``[``, a folder of tests ending in ``/``, or an image as ``stem.target``.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEDGER = ROOT / "benchmarks" / "results" / "gpu_ledger.json"
PENDING = LEDGER.with_name("PENDING.md")
MANIFEST = ROOT / "madspace" / "_cubins" / "manifest.json"

# Parameters by which a test body runs on the CPU as well.
PLACES = ("place", "where", "device")
_PENDING_LINE = re.compile(r"^-\s+`(?P<name>[^`]+)`\s*:\s*(?P<reason>.*\S)\s*$")


def is_gpu_test(item) -> bool:
    """Tell whether a collected test exercises the device: by its marker or by the device fixture."""
    if "fake" in item.fixturenames or item.get_closest_marker("fake"):
        return False
    callspec = getattr(item, "callspec", None)
    if callspec and any(callspec.params.get(name) == "cpu" for name in PLACES):
        return False
    return item.get_closest_marker("gpu") is not None or "device" in item.fixturenames


def read(path: Path = LEDGER) -> dict:
    """Return the ledger, an empty one where there is none."""
    if not path.exists():
        return {"tests": {}, "cubins": {}}
    return json.loads(path.read_text())


def write(ledger: dict, path: Path = LEDGER) -> None:
    """Replace the ledger; a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
        json.dump(ledger, file, indent=1, sort_keys=True)
        file.write("\n")
    os.replace(file.name, path)


def merge(ledger: dict, outcomes: dict[str, str], images: dict[str, str], device: str, date: str) -> dict:
    """Return the ledger with a session's results added.

    Parameters
    ----------
    ledger : dict
        As from `read`; it is not changed.
    outcomes : dict
        Test id to "passed", "failed" or "skipped".
    images : dict
        Image file name to its sha256, for the images that the session's tests used. They are entered only where
        something passed and nothing failed: which image a failure comes from is not known.
    device, date : str
        Where and when.
    """
    tests = dict(ledger["tests"])
    for test, outcome in outcomes.items():
        if outcome == "skipped" and test in tests:
            continue  # here something is missing, a second device say; where it was not, the test ran
        tests[test] = {"outcome": outcome, "device": device, "date": date}
    cubins = dict(ledger["cubins"])
    if "passed" in outcomes.values() and "failed" not in outcomes.values():
        for file, sha256 in images.items():
            cubins[file] = {"sha256": sha256, "device": device, "date": date}
    return {"tests": tests, "cubins": cubins}


def read_pending(text: str) -> dict[str, str]:
    """Return names and reasons from the text of PENDING.md.

    Raises
    ------
    ValueError
        For a list line of another form.
    """
    pending = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("-"):
            continue
        match = _PENDING_LINE.match(line)
        if not match:
            raise ValueError(f"PENDING.md, line {number}: expected '- `name`: reason', got {line!r}")
        pending[match["name"]] = match["reason"]
    return pending


def covers(name: str, subject: str) -> bool:
    """Tell whether a name in PENDING.md speaks of a test or an image."""
    return (
        subject == name
        or subject.startswith((name + "::", name + "["))
        or (name.endswith("/") and subject.startswith(name))
    )


def image_name(file: str) -> str:
    """Return ``stem.target`` for an image file."""
    return file.removesuffix(".cubin").removesuffix(".ptx")


def problems(tests, images: dict[str, str], ledger: dict, pending: dict[str, str]) -> list[str]:
    """Say what neither a passing run nor PENDING.md covers, and which lines of PENDING.md have nothing to say.

    Parameters
    ----------
    tests : iterable of str
        Ids of the GPU tests that exist.
    images : dict
        Shipped image files and their sha256.
    ledger, pending : dict
        As from `read` and `read_pending`.
    """
    tests, gaps = list(tests), {}
    for test in tests:
        outcome = ledger["tests"].get(test, {}).get("outcome", "missing")
        if outcome != "passed":
            gaps[test] = f"{test}: {outcome} in the GPU ledger"
    for file, sha256 in images.items():
        if ledger["cubins"].get(file, {}).get("sha256") != sha256:
            gaps[image_name(file)] = f"{file}: no passing GPU run with the present content ({sha256[:12]})"
    found = [text for subject, text in gaps.items() if not any(covers(name, subject) for name in pending)]
    subjects = [*tests, *map(image_name, images)]
    for name in pending:
        named = [subject for subject in subjects if covers(name, subject)]
        if not named and "/" not in name:
            continue  # an image that this build does not make
        if not any(subject in gaps for subject in named):
            found.append(f"PENDING.md: `{name}`: nothing of this name is missing, remove the line")
    return found


def shipped_images(manifest: Path = MANIFEST) -> dict[str, str]:
    """Return the files in the manifest of kernel images and their sha256."""
    if not manifest.exists():
        return {}
    return {entry["file"]: entry["sha256"] for entry in json.loads(manifest.read_text())["modules"]}


class Recorder:
    """The pytest plugin that collects outcomes of GPU tests and writes the ledger at the end of a session."""

    def __init__(self, config):
        self.active = config.getoption("--require-gpu") and not config.option.collectonly
        self.gpu_tests: set[str] = set()
        self.outcomes: dict[str, str] = {}

    def pytest_collection_finish(self, session):
        """Note which tests count."""
        self.gpu_tests = {item.nodeid for item in session.items if is_gpu_test(item)}

    def pytest_runtest_logreport(self, report):
        """Keep the worst outcome of a test's phases."""
        if report.nodeid not in self.gpu_tests:
            return
        if report.failed:
            self.outcomes[report.nodeid] = "failed"
        elif report.skipped:
            self.outcomes.setdefault(report.nodeid, "skipped")
        elif report.when == "call":
            self.outcomes.setdefault(report.nodeid, "passed")

    def pytest_sessionfinish(self):
        """Merge into the ledger on disk."""
        if not self.active or not self.outcomes:
            return
        from madspace.core.device import Device
        from madspace.core.module import loaded_images

        date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%MZ")
        write(merge(read(), self.outcomes, dict(loaded_images()), Device(0).name, date))
