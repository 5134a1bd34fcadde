"""What the prose promises: examples in docstrings run, and CI runs the commands that the README names."""

import doctest
import importlib
import pkgutil

import pytest

import madspace

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def module_names():
    names = [found.name for found in pkgutil.walk_packages(madspace.__path__, "madspace.")]
    return ["madspace", *(name for name in names if name not in ("madspace.__main__", "madspace.torch"))]


@pytest.mark.parametrize("name", module_names())
def test_docstring_examples(name):
    # Compiled modules work as well: Cython lists their examples in __test__, where doctest looks.
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
    assert failed == 0


def test_some_docstring_has_an_example():
    attempted = [doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)[1] for name in module_names()]
    assert sum(attempted) > 0


def test_ci_runs_the_test_command_of_the_readme(root):
    command = "python3 -m pip install --editable '.[test]' && python3 -m pytest"
    assert command in (root / "README.md").read_text()
    assert command in (root / ".ci" / "run").read_text()
