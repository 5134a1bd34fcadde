"""Leaving a process that used a real GPU."""

import pytest
from exit_scripts import FORK, OBJECTS, PLAIN_START, PLAIN_STATES

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("state", PLAIN_STATES)
def test_exit_is_silent(run_python, state):
    done = run_python(PLAIN_START + PLAIN_STATES[state], driver="real", timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.needs("fork")
def test_a_forked_child_gets_fork_errors_and_exits_silently(run_python):
    script = (
        PLAIN_START
        + OBJECTS
        + FORK
        + """
def child():
    for use in (stream.synchronize, lambda: pool.allocate(8), Stream, lambda: buffers[0].copy_to_host()):
        try:
            use()
        except ForkError as error:
            print("refused", end=" ")
    buffers.clear()
print(in_child(child))
stream.synchronize()
"""
    )
    done = run_python(script, driver="real", timeout=60)
    assert (done.stdout, done.stderr) == ("refused refused refused refused 0\n", "")
