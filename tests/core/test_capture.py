"""madspace.capture: what becomes a graph, what the graph keeps, and how a capture ends when something goes wrong."""

import gc

import pytest
from contents import content
from cuda.bindings import driver
from raw_driver import ForeignStream, capturing, current, current_context

from madspace.core.capture import Capture, capture
from madspace.core.graph import Graph
from madspace.core.module import Module
from madspace.core.stream import Stream
from madspace.errors import CaptureError, ClosedError, DeviceMismatchError

N = 1024


@pytest.fixture
def fill(device, kernels_ptx):
    """Return the kernel ms_test_fill, loaded."""
    kernel = Module(kernels_ptx)["ms_test_fill"]
    kernel.load()
    return kernel


def break_capture(stream):
    """Do what a capture does not survive."""
    with current(0):
        (code,) = driver.cuStreamSynchronize(stream.handle)
    assert code == driver.CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED


@pytest.mark.parametrize("mode", ["relaxed", "thread_local", "global"])
def test_captured_work_runs_at_each_launch(stream, words, fill, mode):
    with capture(stream, mode=mode) as graph:
        assert stream.is_capturing
        fill.launch(4, 256, words, 7, N, stream=stream)
    assert not stream.is_capturing
    assert content(words) == 0
    executable = graph.instantiate()
    for _ in range(2):
        words.fill(0)
        executable.launch(stream)
        assert content(words) == 7


def test_the_default_mode_is_relaxed(fake, stream):
    with capture(stream):
        pass
    assert [call.args["mode"] for call in fake.log("cuStreamBeginCapture")] == [2]


def test_streams_of_others_are_captured(device, words, fill):
    foreign = ForeignStream()
    with capture(foreign) as graph:
        fill.launch(1, 256, words, 7, N, stream=foreign)
    graph.instantiate().launch()
    assert content(words) == 7
    foreign.destroy()


@pytest.mark.parametrize("mode", ["", "RELAXED", None, 2], ids=repr)
def test_another_mode_is_refused(stream, mode):
    with pytest.raises(ValueError, match="mode: expected one of"):
        capture(stream, mode=mode)
    assert not stream.is_capturing


def test_the_legacy_default_stream_is_refused_untouched(fake, device):
    legacy = Stream.from_handle(1)
    fake.clear_log()
    with pytest.raises(CaptureError, match="legacy default stream"), capture(legacy):
        pass
    assert not {"cuStreamBeginCapture", "cuStreamIsCapturing"} & set(fake.names())


def test_a_stream_that_is_captured_already(stream):
    with capturing(stream), pytest.raises(CaptureError, match="not being captured"), capture(stream):
        pass
    with capture(stream) as graph, pytest.raises(CaptureError, match="not being captured"), capture(stream):
        pass
    assert graph.n_nodes == 0


def test_a_closed_stream_is_refused(device):
    stream = Stream(device)
    stream.close()
    with pytest.raises(ClosedError, match="stream"), capture(stream):
        pass


def test_a_capture_is_used_once(stream):
    made = capture(stream)
    with made:
        pass
    with pytest.raises(CaptureError, match="was not used"), made:
        pass
    with pytest.raises(TypeError, match=r"madspace\.capture"):
        Capture()


def test_the_graph_is_no_graph_before_the_end(stream):
    with capture(stream) as graph:
        assert "being captured" in repr(graph)
        for use in (graph.instantiate, graph.nodes, graph.clone):
            with pytest.raises(CaptureError, match="whose capture has ended"):
                use()
    assert graph.n_nodes == 0


def test_an_exception_passes_and_the_stream_is_as_before(fake, stream, words):
    before = fake.counts()
    with pytest.raises(KeyError, match="mine"), capture(stream) as graph:
        words.fill(1)
        raise KeyError("mine")
    assert graph.closed
    assert fake.counts() == before
    with capture(stream) as graph:
        words.fill(2)
    graph.instantiate().launch(stream)
    assert content(words) == 0x02020202


def test_unjoined_work_names_the_rule(device, stream, words):
    side = Stream(device)
    with pytest.raises(CaptureError, match="forked off inside the capture") as caught, capture(stream) as graph:
        side.wait(stream)
        words.fill(1, stream=side)
    assert caught.value.code == 904
    assert graph.closed
    with capture(stream) as graph:
        words.fill(2)
    assert graph.node_counts() == {"memset": 1}


def test_joined_work_of_another_stream_is_captured(device, stream, words):
    side = Stream(device)
    with capture(stream) as graph:
        side.wait(stream)
        words.fill(1, stream=side)
        stream.wait(side)
    assert graph.node_counts() == {"memset": 1}
    graph.instantiate().launch(stream)
    assert content(words) == 0x01010101


def test_a_broken_capture_tells_so_and_ends(device, stream, words):
    with pytest.raises(CaptureError, match="901") as caught, capture(stream) as graph:
        words.fill(1)
        break_capture(stream)
    assert caught.value.code == 901
    assert graph.closed
    assert not stream.is_capturing


def test_an_exception_in_a_broken_capture_passes(stream):
    with pytest.raises(KeyError, match="mine"), capture(stream):
        break_capture(stream)
        raise KeyError("mine")
    assert not stream.is_capturing


def test_what_is_refused_in_a_capture_leaves_it_alive(device, stream, words):
    with capture(stream, mode="global") as graph:
        words.fill(3)
        for use in (stream.synchronize, stream.query, words.copy_to_host):
            with pytest.raises(CaptureError):
                use()
    graph.instantiate().launch(stream)
    assert content(words) == 0x03030303


def test_a_dropped_capture_ends(stream):
    made = capture(stream)
    made.__enter__()
    assert stream.is_capturing
    del made
    gc.collect()
    assert not stream.is_capturing


@pytest.mark.multi_gpu
def test_the_current_context_stays(device, other_device, stream, words):
    with current(1) as context:
        with capture(stream) as graph:
            words.fill(1)
        graph.instantiate().launch(stream)
        assert current_context() == int(context)
    assert content(words) == 0x01010101


@pytest.mark.multi_gpu
def test_into_a_graph_of_another_device_is_refused(other_device, stream):
    with pytest.raises(DeviceMismatchError, match="stream: expected one of device 1"):
        capture(stream, into=Graph(other_device))
