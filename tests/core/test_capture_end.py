"""Ends of captures that nobody planned: by the wrong object, twice, in another thread, of what was closed meanwhile."""

import threading

import pytest

from madspace.core.capture import capture
from madspace.core.graph import Graph
from madspace.core.stream import Stream
from madspace.errors import CaptureError

N = 1024


@pytest.fixture
def words(fake, device):
    """Return a buffer of N bytes on the device's own stream."""
    return device.pool.allocate(N)


def end(capture, error=None):
    """Leave the block of a capture, by an exception or not."""
    return capture.__exit__(error, None, None)


def in_another_thread(action):
    """Run an action, and return what it raised."""
    raised = []

    def body():
        try:
            action()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return raised


@pytest.mark.parametrize("begun", [False, True], ids=["never begun", "ended before"])
def test_an_end_without_a_capture_is_refused(fake, stream, begun):
    before = fake.counts()["graph"]
    made = capture(stream)
    if begun:
        made.__enter__()
        end(made)
    with pytest.raises(CaptureError, match="capture: expected one that goes on"):
        end(made)
    assert end(made, ValueError) is None
    del made
    assert fake.counts()["graph"] == before


@pytest.mark.parametrize("error", [None, ValueError], ids=repr)
def test_one_that_could_not_begin_ends_no_other(fake, stream, words, error):
    with capture(stream) as graph:
        other = capture(stream)
        with pytest.raises(CaptureError, match="not being captured"):
            other.__enter__()
        if error is None:
            with pytest.raises(CaptureError, match="that goes on"):
                end(other)
        else:
            end(other, error)
        assert stream.is_capturing
        words.fill(1, stream=stream)
    assert graph.n_nodes == 1


def test_a_stream_closed_in_the_block_ends_with_it(fake, device, words):
    before = fake.counts()["stream"]
    stream = Stream(device)
    with capture(stream) as graph:
        words.fill(1, stream=stream)
        stream.close()
    assert fake.counts()["stream"] == before
    graph.instantiate().launch()
    assert set(words.copy_to_host()) == {1}


@pytest.mark.parametrize("into", ["new", "graph", "body"])
def test_a_graph_cannot_be_closed_in_the_block(fake, device, stream, words, into):
    whole = Graph(device)
    (body,) = whole.add_if(whole.add_condition(1)).bodies
    with capture(stream, into={"new": None, "graph": whole, "body": body}[into]) as graph:
        words.fill(1, stream=stream)
        with pytest.raises(CaptureError, match="graph: expected one whose capture has ended"):
            (graph if into == "new" else whole).close()
    assert graph.n_nodes == (2 if into == "graph" else 1)
    for each in (whole, graph):
        if each is not body:
            each.close()


@pytest.mark.parametrize("error", [None, ValueError], ids=repr)
def test_one_of_another_thread_goes_on(fake, stream, words, error):
    made = capture(stream, mode="global")
    graph = made.__enter__()
    raised = in_another_thread(lambda: end(made, error))
    assert [type(each) for each in raised] == ([CaptureError] if error is None else [])
    assert stream.is_capturing
    words.fill(1, stream=stream)
    end(made)
    assert graph.n_nodes == 1


DROPPED = """
import threading
from madspace import Stream, capture
made = [capture(Stream(), mode="global")]
made[0].__enter__()
thread = threading.Thread(target=made.clear)
thread.start()
thread.join()
with capture(Stream(), mode="relaxed") as graph:    # what the lost one noted is forgotten
    pass
print(graph.n_nodes)
"""


def test_one_dropped_in_another_thread_is_told(run_python):
    # In a process of its own, where the stream stays captured for good.
    done = run_python(DROPPED, args=("-W", "default"))
    assert (done.returncode, done.stdout, done.faults) == (0, "0\n", [])
    assert "MadspaceWarning: while an object was destroyed: cuStreamEndCapture" in done.stderr
    assert "STREAM_CAPTURE_WRONG_THREAD" in done.stderr
