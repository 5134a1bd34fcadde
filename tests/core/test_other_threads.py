"""What other threads do while a call is in the driver: it must not get lost, and they must be able to."""

import ctypes
import gc
import threading

import numpy as np
import pytest
from contents import byte
from dlpack_structs import DLDevice, Producer

from madspace.core.capture import capture
from madspace.core.creation import asarray, zeros
from madspace.core.pinned import PinnedBuffer
from madspace.core.stream import Stream

N = 256


@pytest.fixture
def meanwhile(fake):
    """Return ``meanwhile(name, action)``, a block in which the first call of `name` finds `action` done."""

    def block(name, action):
        actions = [action]
        return fake.calling(name, lambda held: actions.pop()() if actions else None)

    return block


@pytest.fixture
def buffer(device, stream):
    """Return N zero bytes on a stream of their own."""
    buffer = device.pool.allocate(N, stream=stream)
    buffer.fill(0)
    return buffer


@pytest.fixture
def late(device, fake):
    """Return a stream on which nothing happens before somebody waits for it."""
    stream = Stream(device)
    fake.defer(stream)
    return stream


@pytest.mark.parametrize("same_stream", [True, False], ids=["same stream", "third stream"])
def test_a_write_during_the_wait_of_a_read(device, fake, buffer, late, meanwhile, same_stream):
    another = late if same_stream else Stream(device)
    fake.defer(another)
    buffer.fill(7, stream=late)
    target = device.pool.allocate(N, stream=buffer.stream)
    with meanwhile("cuStreamWaitEvent", lambda: buffer.fill(8, stream=another)):
        target.copy_from(buffer)
    assert byte(buffer) == 8
    assert fake.pending(another) == 0


def test_a_write_elsewhere_during_one_of_the_own_stream(fake, buffer, late, meanwhile):
    with meanwhile("cuMemsetD8Async", lambda: buffer.fill(8, stream=late)):
        buffer.fill(9)
    first = byte(buffer)
    late.synchronize()
    assert byte(buffer) == first


def test_a_read_of_pinned_memory_during_a_write(device, buffer, late, meanwhile):
    pinned = PinnedBuffer(N, device)
    target = device.pool.allocate(N, stream=late)
    with meanwhile("cuMemcpyDtoHAsync", lambda: pinned.copy_to(target, stream=late)):
        pinned.copy_from(buffer)
    assert not pinned.query()
    pinned.synchronize()
    assert pinned.query()


def test_a_use_that_is_noted_during_the_free_of_the_buffer(device, fake, buffer, late, capfd):
    another, begun, freeing = Stream(device), threading.Event(), threading.Event()
    for stream in (late, Stream(device)):
        buffer.fill(7, stream=stream)
    thread = threading.Thread(target=buffer.fill, args=(8,), kwargs={"stream": another})

    def pause(held):
        begun.set()
        freeing.wait(10)

    def resume(held):
        freeing.set()
        thread.join()

    with fake.calling("cuMemsetD8Async", pause):
        thread.start()
        begun.wait(10)
        with fake.calling("cuStreamWaitEvent", resume):
            buffer.close()
    fake.clear_faults()  # the other thread was wrong to use it
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("use", ["copy_to", "copy_from", "launch"])
def test_pinned_memory_is_not_closed_in_the_midst_of_a_copy(device, stream, buffer, meanwhile, use):
    pinned, raised = PinnedBuffer(N, device), []

    def close():
        try:
            pinned.close()
        except BufferError as error:
            raised.append(error)

    with capture(stream) as graph:
        pinned.copy_to(buffer, stream=stream)
    executable = graph.instantiate()
    action, call = {
        "copy_to": (lambda: pinned.copy_to(buffer), "cuStreamIsCapturing"),
        "copy_from": (lambda: pinned.copy_from(buffer), "cuStreamIsCapturing"),
        "launch": (lambda: executable.launch(stream), "cuGraphLaunch"),
    }[use]
    with meanwhile(call, close):
        action()
    assert len(raised) == 1
    pinned.close()


def test_writes_of_pinned_memory_forget_what_they_waited_for(fake, buffer, late):
    pinned = PinnedBuffer(N)
    pinned.copy_to(buffer, stream=late)
    pinned.copy_from(buffer)
    fake.clear_log()
    pinned.copy_from(buffer)
    assert len({call.args["event"] for call in fake.log("cuStreamWaitEvent")}) == 1


def test_the_device_of_a_pointer_is_asked_without_the_gil(device, fake):
    class Interface:
        source = zeros(4, device=device)
        __cuda_array_interface__ = source.__cuda_array_interface__

    held = []
    with fake.calling("cuPointerGetAttribute", held.append):
        asarray(Interface())
    assert held
    assert not any(held)


def test_events_of_captures_are_destroyed_without_the_gil(device, stream, fake):
    another = Stream(device)
    held = []
    with fake.calling("cuEventDestroy", held.append), capture(stream):
        another.wait(stream)
        stream.wait(another)
    assert held
    assert not any(held)


def test_the_deleter_of_page_locked_memory_runs_without_the_gil(fake):
    producer = Producer(np.zeros(4))
    producer.tensor.device = DLDevice(3, 0)
    producer.device = (3, 0)
    # A deleter that enters the driver; with its own argument, which the fake driver notes as a fault.
    producer.struct.deleter = ctypes.cast(fake.lib.cuMemFreeHost, ctypes.c_void_p).value
    held = []
    with fake.calling("cuMemFreeHost", held.append):
        tensor = asarray(producer)
        del tensor
        gc.collect()
    fake.clear_faults()
    assert held == [False]
