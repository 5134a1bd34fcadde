"""Stream: life, foreign handles, ordering on the device, and captures that are left alone."""

import gc
import threading
import weakref

import pytest
from raw_driver import ForeignStream, capturing, current, current_context

from madspace.core.event import Event
from madspace.core.stream import Stream, to_stream
from madspace.errors import CaptureError, ClosedError, DeviceMismatchError, DriverError


@pytest.fixture
def foreign(device):
    stream = ForeignStream()
    yield stream
    stream.destroy()


def test_a_new_stream(device):
    stream = Stream(device)
    assert stream.handle > 2
    assert stream.device is device
    assert not stream.closed
    assert stream.__cuda_stream__() == (0, stream.handle)
    assert stream.priority == 0
    assert stream.query()
    assert f"{stream.handle:#x}" in repr(stream)
    assert Stream().device is device
    assert Stream("cuda:0").device is device


def test_it_does_not_synchronise_with_the_legacy_stream(fake, device):
    Stream(device)
    (call,) = fake.log("cuStreamCreateWithPriority")
    assert call.args["flags"] == 1


def test_priority(device):
    assert Stream(device, priority=-1).priority == -1


@pytest.mark.parametrize("priority", [1, -100])
def test_priority_out_of_range(device, priority):
    with pytest.raises(ValueError, match=rf"priority: expected .* got {priority}"):
        Stream(device, priority=priority)


def test_close_ends_it_once(fake, device):
    before = fake.counts()["stream"]
    stream = Stream(device)
    handle = stream.handle
    assert fake.counts()["stream"] == before + 1
    stream.close()
    stream.close()
    assert stream.closed
    assert [call.args["stream"] for call in fake.log("cuStreamDestroy")] == [handle]
    assert fake.counts()["stream"] == before


def test_dropping_it_destroys_it(fake, device):
    before = fake.counts()["stream"]
    stream = Stream(device)
    del stream
    gc.collect()
    assert fake.counts()["stream"] == before


def test_dropping_it_in_a_cycle_and_another_thread(fake, device):
    before = fake.counts()["stream"]
    box = [[Stream(device)]]
    box[0].append(box[0])
    thread = threading.Thread(target=lambda: (box.clear(), gc.collect()))
    thread.start()
    thread.join()
    assert fake.counts()["stream"] == before


@pytest.mark.parametrize("use", ["synchronize", "query", "record", "__cuda_stream__", "__enter__"])
def test_a_closed_stream_says_so(device, use):
    stream = Stream(device)
    stream.close()
    with pytest.raises(ClosedError, match="stream: expected an open stream, got <Stream"):
        getattr(stream, use)()


def test_closed_streams_are_refused_as_arguments(device, stream):
    closed = Stream(device)
    closed.close()
    with pytest.raises(ClosedError):
        stream.wait(closed)
    with pytest.raises(ClosedError):
        to_stream(closed)


def test_context_manager_closes(device):
    with Stream(device) as stream:
        assert not stream.closed
    assert stream.closed


def test_without_init_it_is_closed_and_harmless(device):
    stream = Stream.__new__(Stream)
    assert stream.closed
    assert "closed" in repr(stream)
    with pytest.raises(ClosedError):
        stream.synchronize()


def test_the_devices_own_stream_cannot_be_closed(device):
    with pytest.raises(ValueError, match="own stream of device 0 is shared"):
        device.default_stream.close()
    device.default_stream.synchronize()


def test_work_that_is_queued_at_close_still_runs(device, stream, delay, block):
    late = Stream(device)
    delay(late)
    block.fill(3, late)
    event = late.record()
    late.close()
    stream.wait(event)
    assert (block.read(stream) == 3).all()


def test_a_foreign_handle_is_wrapped_not_owned(fake, device, foreign):
    stream = Stream.from_handle(foreign.handle)
    assert stream.handle == foreign.handle
    fake.clear_log()
    stream.close()
    assert "cuStreamDestroy" not in fake.names()


def test_the_owner_of_a_foreign_handle_is_kept_and_let_go(device, foreign):
    class Owner:
        pass

    owner = Owner()
    alive = weakref.ref(owner)
    stream = Stream.from_handle(foreign.handle, owner=owner)
    del owner
    gc.collect()
    assert alive() is not None
    stream.close()
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(("handle", "seen"), [(0, 1), (1, 1), (2, 2)])
def test_default_streams(device, handle, seen):
    stream = Stream.from_handle(handle)
    assert stream.handle == seen
    stream.synchronize()


@pytest.mark.multi_gpu
def test_a_handle_of_another_device_is_refused(device, other_device):
    other = ForeignStream(1)
    with pytest.raises(DeviceMismatchError, match="handle: expected a stream of device 0, got one of device 1"):
        Stream.from_handle(other.handle, device=0)
    assert Stream.from_handle(other.handle, device=1).device is other_device
    other.destroy()


@pytest.mark.parametrize("bad", [True, None, "1", 1.0], ids=repr)
def test_a_handle_must_be_an_int(device, bad):
    with pytest.raises(TypeError, match="handle: expected an int"):
        Stream.from_handle(bad)


@pytest.mark.parametrize("bad", [-1, 2**64], ids=repr)
def test_a_handle_must_be_an_address(device, bad):
    with pytest.raises(ValueError, match="handle: expected a stream handle"):
        Stream.from_handle(bad)


def test_equality_is_that_of_the_handle(device, foreign, stream):
    assert Stream.from_handle(foreign.handle) == Stream.from_handle(foreign.handle)
    assert hash(Stream.from_handle(foreign.handle)) == hash(Stream.from_handle(foreign.handle))
    assert stream != Stream.from_handle(foreign.handle)
    assert stream != stream.handle


def test_wait_for_a_stream_orders_on_the_device(device, stream, delay, block):
    late = Stream(device)
    delay(late)
    block.fill(7, late)
    stream.wait(late)
    assert not stream.query()  # ordered, and the host has not waited
    assert (block.read(stream) == 7).all()


def test_without_a_wait_nothing_is_ordered(device, stream, delay, block):
    late = Stream(device)
    delay(late)
    block.fill(7, late)
    assert (block.read(stream) == 0).all()
    late.synchronize()


def test_wait_for_itself_queues_nothing(fake, stream):
    fake.clear_log()
    stream.wait(stream)
    assert "cuStreamWaitEvent" not in fake.names()


def test_wait_takes_events_and_streams_only(stream):
    with pytest.raises(TypeError, match="earlier: expected an Event or a Stream, got int"):
        stream.wait(stream.handle)


@pytest.mark.multi_gpu
def test_wait_across_devices(device, other_device, stream, delay, block):
    delay(stream)
    block.fill(7, stream)
    other = Stream(other_device)
    other.wait(stream)
    back = Stream(device)
    back.wait(other)
    assert (block.read(back) == 7).all()


def test_synchronize_waits_and_query_does_not(stream, delay, block):
    delay(stream)
    block.fill(7, stream)
    assert not stream.query()
    stream.synchronize()
    assert stream.query()


@pytest.mark.multi_gpu
def test_the_current_context_stays(device, other_device):
    with current(1) as context:
        stream = Stream(device)
        stream.synchronize()
        stream.wait(Stream(device))
        assert stream.priority == 0
        stream.close()
        assert current_context() == int(context)


@pytest.mark.parametrize("use", ["synchronize", "query"])
def test_a_capture_survives_what_it_forbids(stream, use):
    with capturing(stream):
        assert stream.is_capturing
        with pytest.raises(CaptureError, match="is being captured"):
            getattr(stream, use)()
    assert not stream.is_capturing


def test_a_capture_survives_a_wait_for_work_outside(device, stream):
    outside = Stream(device)
    with capturing(stream), pytest.raises(CaptureError):
        stream.wait(outside)


def test_a_wait_joins_a_stream_to_the_capture(device, stream):
    side = Stream(device)
    with capturing(stream):
        side.wait(stream)
        assert side.is_capturing
        stream.wait(side)


def test_each_failure_of_a_creation_leaves_nothing(fake, device):
    before = fake.counts()
    for name, error in fake.each_failure(lambda: Stream(device, priority=-1).close()):
        if name not in ("cuStreamDestroy", "cuCtxPopCurrent", "cuCtxGetCurrent", "cuCtxPushCurrent"):
            assert isinstance(error, DriverError), name
            assert fake.counts() == before, name
        fake.reset()


@pytest.mark.parametrize("kind", [Stream, Event], ids=lambda kind: kind.__name__)
def test_a_context_that_cannot_be_put_back_takes_no_handle_with_it(fake, device, kind):
    before, depth = fake.counts(), fake.context_depth()
    with fake.failing("cuCtxPopCurrent"), pytest.raises(DriverError):
        kind(device)
    fake.lib.fake_trim_contexts(depth)
    gc.collect()
    assert fake.counts() == before


def test_a_with_block_leaves_the_own_stream_open(device):
    with device.default_stream as stream:
        stream.synchronize()
    assert not stream.closed


def test_a_priority_out_of_any_range_names_the_argument(device):
    with pytest.raises(ValueError, match=r"priority: expected .* got 1099511627776"):
        Stream(device, priority=2**40)


@pytest.mark.fake
@pytest.mark.parametrize("bad", [1, "event", Stream], ids=["int", "str", "Stream"])
def test_only_events_are_recorded(device, stream, bad):
    event = Stream(device) if bad is Stream else bad
    with pytest.raises(TypeError, match="event: expected an Event, got"):
        stream.record(event)
