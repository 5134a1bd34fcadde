"""Event: life, waiting, asking, timing and its distinct errors."""

import gc

import pytest
from raw_driver import capturing, current, current_context

from madspace.core.event import Event
from madspace.core.stream import Stream
from madspace.errors import CaptureError, ClosedError, DeviceMismatchError, DriverError


def test_a_new_event(device):
    event = Event()
    assert event.device is device
    assert event.timing is False
    assert event.handle
    assert event.query()
    event.synchronize()
    assert "not recorded" in repr(event)


def test_close_ends_it_once(fake, device):
    before = fake.counts()["event"]
    event = Event(device)
    event.close()
    event.close()
    assert event.closed
    assert len(fake.log("cuEventDestroy")) == 1
    assert fake.counts()["event"] == before


def test_dropping_it_destroys_it(fake, device):
    before = fake.counts()["event"]
    event = Event(device)
    del event
    gc.collect()
    assert fake.counts()["event"] == before


def test_a_closed_event_says_so(stream):
    event = Event()
    event.close()
    for use in (event.query, event.synchronize, lambda: event.record(stream), lambda: stream.wait(event)):
        with pytest.raises(ClosedError, match="event: expected an open event"):
            use()


def test_without_init_it_is_closed_and_harmless():
    event = Event.__new__(Event)
    assert event.closed
    assert "closed" in repr(event)
    with pytest.raises(ClosedError):
        event.query()


def test_it_tells_when_work_is_done(stream, delay, block):
    delay(stream)
    block.fill(1, stream)
    event = stream.record()
    assert not event.query()
    event.synchronize()
    assert event.query()
    assert (block.read(stream) == 1).all()


def test_waiting_orders_on_the_device(device, stream, delay, block):
    late = Stream(device)
    event = Event(device)
    delay(late)
    block.fill(7, late)
    late.record(event)
    stream.wait(event)
    assert not stream.query()
    assert (block.read(stream) == 7).all()


def test_a_wait_is_for_what_was_recorded_when_it_was_queued(device, stream, delay, block):
    late = Stream(device)
    event = stream.record()
    delay(late)
    block.fill(7, late)
    stream.wait(event)  # for nothing that is pending
    late.record(event)
    assert (block.read(stream) == 0).all()
    late.synchronize()


def test_a_wait_for_an_event_that_was_never_recorded_is_none(stream):
    stream.wait(Event())
    assert stream.query()


def test_record_takes_what_libraries_call_a_stream(stream):
    event = Event()
    event.record(stream.handle)
    event.synchronize()


def test_elapsed(stream, delay, block, real_gpu):
    start, end = Event(timing=True), Event(timing=True)
    stream.record(start)
    delay(stream, ms=30)
    block.fill(1, stream)
    stream.record(end)
    end.synchronize()
    assert end.elapsed_since(start) >= (25 if real_gpu else 0)
    assert start.elapsed_since(end) == -end.elapsed_since(start)


def test_elapsed_needs_timing(stream):
    timed, plain = Event(timing=True), Event()
    for event in (timed, plain):
        stream.record(event)
    stream.synchronize()
    with pytest.raises(DriverError, match="earlier was made without timing") as caught:
        timed.elapsed_since(plain)
    assert caught.value.code == 400
    with pytest.raises(DriverError, match="later was made without timing"):
        plain.elapsed_since(timed)


def test_elapsed_needs_a_record(stream):
    recorded, fresh = Event(timing=True), Event(timing=True)
    stream.record(recorded)
    stream.synchronize()
    with pytest.raises(DriverError, match="later was not recorded") as caught:
        fresh.elapsed_since(recorded)
    assert caught.value.code == 400


def test_elapsed_needs_the_end(stream, delay, block):
    start, end = Event(timing=True), Event(timing=True)
    stream.record(start)
    delay(stream)
    block.fill(1, stream)
    stream.record(end)
    with pytest.raises(DriverError, match="not finished") as caught:
        end.elapsed_since(start)
    assert caught.value.code == 600
    stream.synchronize()


@pytest.mark.multi_gpu
def test_elapsed_needs_one_device(device, other_device):
    with pytest.raises(DeviceMismatchError, match="earlier: expected an event of device 0, got one of device 1"):
        Event(device, timing=True).elapsed_since(Event(other_device, timing=True))


@pytest.mark.multi_gpu
def test_record_on_a_stream_of_another_device(device, other_device):
    with pytest.raises(DeviceMismatchError, match="stream: expected one of device 0"):
        Event(device).record(Stream(other_device))


@pytest.mark.multi_gpu
def test_the_current_context_stays(device, other_device, stream):
    with current(1) as context:
        event = Event(device)
        event.record(stream)
        event.synchronize()
        assert event.query()
        event.close()
        assert current_context() == int(context)


def test_an_event_of_a_capture_cannot_be_asked(stream):
    event, start = Event(timing=True), Event(timing=True)
    stream.record(start)
    with capturing(stream):  # which must be intact at the end
        stream.record(event)
        for ask in (
            event.query,
            event.synchronize,
            lambda: event.elapsed_since(start),
            lambda: start.elapsed_since(event),
        ):
            with pytest.raises(CaptureError, match="was recorded in a capture"):
                ask()
    with pytest.raises(CaptureError):
        event.query()
    stream.record(event)
    event.synchronize()
    assert event.query()


def test_an_event_from_outside_is_refused_by_a_captured_stream(device, stream):
    before, event = stream.record(), Event(device)
    with capturing(stream):
        event.record(Stream(device))
        for outside in (before, event):
            with pytest.raises(CaptureError, match="was not recorded in that capture"):
                stream.wait(outside)


def test_an_event_of_a_capture_is_refused_afterwards(device, stream):
    event, other = Event(device), Stream(device)
    with capturing(stream):
        event.record(stream)
    with pytest.raises(CaptureError):
        other.wait(event)
    with capturing(stream), pytest.raises(CaptureError, match="was not recorded in that capture"):
        stream.wait(event)


def test_a_capture_takes_no_event_that_was_used_before(fake, device, stream):
    side, late = Stream(device), Stream(device)
    stream.wait(late)  # so that an idle event exists
    fake.clear_log()
    with capturing(stream):
        side.wait(stream)
        stream.wait(side)
    assert len(fake.log("cuEventCreate")) == len(fake.log("cuEventDestroy")) == 2
    assert fake.names().index("cuStreamWaitEvent") < fake.names().index("cuEventDestroy")


def test_events_for_ordering_are_used_again(fake, device, stream):
    late = Stream(device)
    stream.wait(late)
    before = fake.counts()["event"]
    fake.clear_log()
    for _ in range(100):
        stream.wait(late)
    assert fake.counts()["event"] == before
    assert "cuEventCreate" not in fake.names()


def test_events_of_a_capture_are_not_used_again(fake, device, stream):
    side = Stream(device)
    with capturing(stream):
        side.wait(stream)
        stream.wait(side)
    fake.clear_log()
    stream.wait(side)  # an event that was recorded in the capture would be refused here
    assert stream.query()


def test_each_failure_leaves_nothing(fake, device, stream):
    late = Stream(device)
    stream.wait(late)  # so that an idle event exists
    before = fake.counts()
    for name, error in fake.each_failure(lambda: stream.wait(late)):
        assert isinstance(error, DriverError), name
        assert fake.counts() == before, name
