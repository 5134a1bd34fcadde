"""In how many processes a session runs, where pytest-xdist is installed."""

import os
from pathlib import Path

import pytest

MOST = 8


def choose(option, names):
    """Let whole folders run in one process per core, by files, unless the command line says otherwise.

    A GPU session stays in one process: it writes the ledger, and its memory and timing need the device alone.

    Parameters
    ----------
    option : namespace
        The options of pytest and of xdist; those of xdist are set.
    names : list of str
        The files, folders and tests that were asked for.
    """
    if option.require_gpu:
        if option.numprocesses:
            raise pytest.UsageError(f"--require-gpu: expected one process, got -n {option.numprocesses}")
        return
    watched = option.collectonly or option.usepdb or option.trace or option.capture == "no"
    cores = len(os.sched_getaffinity(0))
    unsaid = option.numprocesses is None and option.dist == "no"
    if cores > 1 and unsaid and not watched and all(Path(name).is_dir() for name in names):
        option.numprocesses = min(cores, MOST)
    if option.numprocesses and option.dist == "no":
        option.dist = "loadfile"  # fixtures of a file are made once, and its tests run in their order
        option.loadscopereorder = False


def put_slow_files_first(items):
    """Begin with files of slow tests alone: as the last ones they would keep one process busy and the others idle."""
    quick = {item.path for item in items if not item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path in quick)
