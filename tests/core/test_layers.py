"""Imports go down only: errors < core < cpu < op families < the package < its benchmarks. Checked in the sources."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "madspace"
FAMILIES = {"phasespace", "kda"}
# The C API is above the families; the package itself is between it and the benchmarks, which only the command line may
# import.
RANKS = {"errors": 0, "include": 0, "core": 1, "cpu": 2, "capi": 4, "bench": 6, "__main__": 7} | dict.fromkeys(
    FAMILIES, 3
)
TOP = 5
FRAMEWORKS = {"torch", "cupy", "jax", "numba", "rmm", "tensorflow", "paddle"}
CUDA_SOURCES = [path for path in sorted((ROOT / "cuda_src").rglob("*")) if path.suffix in (".h", ".cu", ".cpp", ".inl")]

# Cython is not Python: its import lines are taken as they stand, which they do here one statement at a time.
_CYTHON = re.compile(
    r"^(?P<indent>[ \t]*)(?:from[ \t]+(?P<source>[\w.]+)[ \t]+c?import[ \t]*(?P<names>\([^)]*\)|[^\n#]*)"
    r"|c?import[ \t]+(?P<modules>[\w., \t]+))",
    re.MULTILINE,
)


def layer(module):
    """Return the name of a layer, None for the package itself, of a dotted module name."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in RANKS else None


def rank(module):
    return RANKS.get(layer(module), TOP)


def imports_of(text, cython):
    """Yield (imported module, whether inside a function) for a source text; `from a import b` gives a.b."""
    if not cython:
        tree = ast.parse(text)
        inside = {
            node
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(function)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, node in inside) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                source = "." * node.level + (node.module or "")
                yield from ((f"{source}.{alias.name}", node in inside) for alias in node.names)
        return
    text = re.sub(r'"""[\s\S]*?"""', "", text)
    for match in _CYTHON.finditer(text):
        names = match["names"] if match["source"] else match["modules"]
        for name in re.sub(r"#.*|[()\n]", " ", names).split(","):
            if words := name.split():
                yield (f"{match['source']}.{words[0]}" if match["source"] else words[0]), bool(match["indent"])


def violations(module, text, cython=False):
    """Say which imports of a module's source break the rules."""
    own, found = layer(module), []
    for name, lazy in imports_of(text, cython):
        head = name.split(".")[0]
        if name.startswith("."):
            found.append(f"{module}: relative import of {name}")
        elif head in FRAMEWORKS and (module != "madspace.torch" or not lazy):
            found.append(f"{module}: imports the framework {head}")
        elif name.startswith("cuda.") and own != "core":
            found.append(f"{module}: imports {name}, which is for madspace.core")
        elif head == "madspace":
            if rank(name) > rank(module):
                found.append(f"{module}: imports {name} from a layer above it")
            elif own in FAMILIES and layer(name) in FAMILIES - {own}:
                found.append(f"{module}: imports {name} of another family")
            elif own != "core" and name.startswith("madspace.core._driver"):
                found.append(f"{module}: imports {name}, which is for madspace.core")
            elif own not in ("core", "capi") and name.startswith("madspace.core._plain"):
                found.append(f"{module}: imports {name}, which is for madspace.core and madspace.capi")
    return found


def sources():
    for suffix in (".py", ".pyi", ".pyx", ".pxd"):
        for path in sorted(PACKAGE.rglob(f"*{suffix}")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            yield pytest.param(path, name, id=str(path.relative_to(ROOT)))


@pytest.mark.parametrize(("path", "module"), list(sources()))
def test_imports_go_down(path, module):
    assert violations(module, path.read_text(), path.suffix in (".pyx", ".pxd")) == []


@pytest.mark.parametrize("path", CUDA_SOURCES, ids=lambda path: path.name)
def test_device_code_knows_no_framework_and_no_runtime(path):
    included = re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)', path.read_text(), re.MULTILINE)
    bad = [name for name in included if re.match(r"Python\.h|torch/|ATen/|c10/|cuda_runtime|cuda\.h", name)]
    assert bad == []


@pytest.mark.parametrize(
    ("module", "text", "cython"),
    [
        ("madspace.core.device", "from madspace.cpu import pool", False),
        ("madspace.core.device", "import madspace", False),
        ("madspace.errors", "from madspace.core.device import Device", False),
        ("madspace.cpu.lanes", "def f():\n    from madspace.phasespace import x", False),
        ("madspace.phasespace.mapping", "from madspace.kda import fwd", False),
        ("madspace.phasespace.mapping", "from madspace.core import _driver", False),
        ("madspace.phasespace.mapping", "from cuda.bindings import driver", False),
        ("madspace.phasespace.mapping", "from . import program", False),
        ("madspace", "from madspace.bench import timing", False),
        ("madspace.info", "def f():\n    import madspace.bench.command", False),
        ("madspace.torch", "import torch", False),
        ("madspace.core.tensor", "def f():\n    import torch", False),
        ("madspace.core.memory", "from madspace.cpu._lanes cimport run", True),
        ("madspace.cpu._lanes", "from madspace.core cimport _driver as drv", True),
        ("madspace.cpu._lanes", "from madspace.core cimport (\n    device,\n    _driver,\n)", True),
        ("madspace.cpu._lanes", "cimport madspace.phasespace.x", True),
        ("madspace.kda._launch", "from madspace.core cimport _plain as plain", True),
        ("madspace.kda._launch", "from madspace.capi cimport ms_device", True),
        ("madspace.capi._kda", "from madspace.core cimport _driver as drv", True),
    ],
)
def test_the_check_finds(module, text, cython):
    assert len(violations(module, text, cython)) == 1


@pytest.mark.parametrize(
    ("module", "text", "cython"),
    [
        ("madspace", "from madspace.phasespace.mapping import Mapping", False),
        ("madspace.phasespace.mapping", "from madspace.core.device import Device\nimport numpy", False),
        ("madspace.phasespace.mapping", "from madspace.phasespace import program", False),
        ("madspace.__main__", "from madspace.bench import command", False),
        (
            "madspace.capi._kda",
            "from madspace.core cimport _plain as plain\nfrom madspace.kda._args cimport Args",
            True,
        ),
        ("madspace.torch", "def f():\n    import torch", False),
        (
            "madspace.core.stream",
            "from madspace.core cimport _driver as drv\nfrom cuda.bindings cimport cydriver",
            True,
        ),
        ("madspace.core.stream", "def f():\n    '''x'''\n    from madspace.errors import ClosedError", True),
    ],
)
def test_the_check_allows(module, text, cython):
    assert violations(module, text, cython) == []
