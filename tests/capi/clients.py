"""Compiles tests/capi/client.c with one header or another."""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLIENT = HERE / "client.c"
INCLUDE = HERE.parent.parent / "madspace" / "include"
OLDER = HERE / "headers" / "1.0"  # what clients of version 1.0 were compiled with; never changed again


def compile_client(name, folder, include):
    """Return the path of a module of this name, compiled with the headers in a folder."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    target = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = [
        *shlex.split(compiler),
        "-std=gnu99",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        f"-DNAME={name}",
        f"-I{include}",
        f"-I{sysconfig.get_path('include')}",
        str(CLIENT),
        "-o",
        str(target),
        "-lpthread",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def check_syntax(file, *options):
    """Compile a file with the present header and all warnings, for nothing else."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    folders = [f"-I{INCLUDE}", f"-I{sysconfig.get_path('include')}"]
    command = [*shlex.split(compiler), *options, "-Wall", "-Wextra", "-Werror", *folders, "-fsyntax-only", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def import_from(name, folder):
    """Import a module from a folder, anew."""
    sys.path.insert(0, str(folder))
    try:
        sys.modules.pop(name, None)
        return __import__(name)
    finally:
        sys.path.remove(str(folder))
