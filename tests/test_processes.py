"""Whole folders run in several processes; GPU sessions, single files and what is watched in one."""

import os
from pathlib import Path
from types import SimpleNamespace

import processes
import pytest

FOLDER, FILE = str(Path(__file__).parent), __file__


def chosen(*names, **options):
    """Return number of processes and distribution for a command line."""
    option = SimpleNamespace(
        **{"require_gpu": False, "numprocesses": None, "dist": "no", "collectonly": False, "usepdb": False}
        | {"trace": False, "capture": "fd", "loadscopereorder": True}
        | options
    )
    processes.choose(option, names)
    return option.numprocesses, option.dist


@pytest.mark.parametrize(
    ("cores", "expected"), [(1, (None, "no")), (2, (2, "loadfile")), (64, (processes.MOST, "loadfile"))]
)
def test_folders_run_in_a_process_per_core(monkeypatch, cores, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    assert chosen(FOLDER) == chosen(FOLDER, FOLDER) == expected


@pytest.mark.parametrize("names", [(FILE,), (FOLDER, FILE), (f"{FILE}::test_one",)])
def test_single_files_and_tests_run_in_one_process(names):
    assert chosen(*names) == (None, "no")


@pytest.mark.parametrize(
    "options",
    [{"require_gpu": True}, {"collectonly": True}, {"usepdb": True}, {"trace": True}, {"capture": "no"}],
    ids=lambda options: "".join(options),
)
def test_what_is_watched_and_gpu_sessions_run_in_one_process(options):
    assert chosen(FOLDER, **options) == (None, "no")


def test_the_command_line_has_the_last_word():
    assert chosen(FOLDER, numprocesses=0) == (0, "no")
    assert chosen(FILE, numprocesses=3) == (3, "loadfile")
    assert chosen(FOLDER, numprocesses="auto", dist="worksteal") == ("auto", "worksteal")


def test_a_gpu_session_refuses_processes():
    with pytest.raises(pytest.UsageError, match="--require-gpu: expected one process, got -n 2"):
        chosen(FOLDER, require_gpu=True, numprocesses=2)


def test_files_of_slow_tests_alone_come_first():
    def item(path, slow):
        return SimpleNamespace(path=path, slow=slow, get_closest_marker=lambda name: slow if name == "slow" else None)

    items = [item("a", False), item("b", True), item("b", False), item("c", True), item("c", True)]
    processes.put_slow_files_first(items)
    assert [each.path for each in items] == ["c", "c", "a", "b", "b"]
    assert [each.slow for each in items[2:]] == [False, True, False]
