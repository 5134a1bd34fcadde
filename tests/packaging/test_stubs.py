"""Every extension has a stub, and the stubs say what the compiled modules do."""

import re
import subprocess

import pytest

# What Cython puts into every module and class, and no user calls.
INTERNALS = ("__pyx_capi__", "__test__", "__reduce_cython__", "__setstate_cython__")


def module_of(root, path):
    """Return the dotted name of the module of a source file."""
    return ".".join(path.relative_to(root).with_suffix("").parts)


def is_excused(complaint, typing_only):
    """Tell whether a line of stubtest is about something that a stub of a Cython module need not say.

    Parameters
    ----------
    complaint : str
        Dotted name and text.
    typing_only : set of str
        Dotted names of aliases and protocols that live in stubs only.
    """
    name, _, text = complaint.partition(" ")
    if name.endswith(INTERNALS) or name in typing_only:
        return True
    if text == "is not present in stub" and "._" in name:
        return True  # a private module shows in its stub what the rest of the package uses
    # Cython's constructors and operators are slots: at run time they tell no parameter names.
    return re.search(r"\.__(init|new|eq|getitem)__$", name) is not None and "is inconsistent" in text


def test_every_extension_has_a_stub(root):
    sources = sorted(root.glob("madspace/**/*.pyx"))
    assert sources
    assert [str(path.relative_to(root)) for path in sources if not path.with_suffix(".pyi").exists()] == []


def test_no_stub_without_its_extension(root):
    stubs = sorted(root.glob("madspace/**/*.pyi"))
    assert [str(path.relative_to(root)) for path in stubs if not path.with_suffix(".pyx").exists()] == []


def test_stubs_agree_with_the_modules(root, stubtest):
    stubs = sorted(root.glob("madspace/**/*.pyi"))
    declared = re.compile(r"^(?:(\w+): TypeAlias|class (\w+)\(Protocol)", re.MULTILINE)
    typing_only = {
        f"{module_of(root, path)}.{alias or protocol}"
        for path in stubs
        for alias, protocol in declared.findall(path.read_text())
    }
    command = [*stubtest, *(module_of(root, path) for path in stubs), "--mypy-config-file", "pyproject.toml"]
    command += ["--concise", "--ignore-disjoint-bases"]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    assert "not checking stubs" not in answer.stdout, answer.stdout
    complaints = [line for line in answer.stdout.splitlines() if not is_excused(line, typing_only)]
    assert answer.stdout or answer.returncode == 0, answer.stderr
    assert complaints == []


@pytest.mark.parametrize(
    ("complaint", "excused"),
    [
        ("madspace.core.stream.__pyx_capi__ is not present in stub", True),
        ("madspace.core._driver.CODES is not present in stub", True),
        ("madspace.core.stream.Stream.wait is not present in stub", False),
        ("madspace.core.stream.Stream.__init__ is inconsistent, stub does not have *args parameter", True),
        ("madspace.core._driver.load is inconsistent, stub parameter", False),
        ("madspace.core.stream.StreamLike is not present at runtime", True),
        ("madspace.core.stream.Other is not present at runtime", False),
    ],
)
def test_complaints_that_are_excused(complaint, excused):
    assert is_excused(complaint, {"madspace.core.stream.StreamLike"}) is excused


def test_no_typed_memoryview_in_a_public_signature(root):
    found = []
    for path in root.glob("madspace/**/*.pyi"):
        found += [f"{path.name}: {line.strip()}" for line in path.read_text().splitlines() if "[:" in line]
    assert found == []
