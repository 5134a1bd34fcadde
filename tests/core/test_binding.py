"""BoundKernel: one preparation, many launches; replaced arguments, other streams, closes in between."""

import gc
import struct
import threading
import weakref

import numpy as np
import pytest
from ptx_kernels import echo, image, many, register_twins
from raw_driver import ForeignStream, capturing, current, current_context

from madspace.core.binding import BoundKernel
from madspace.core.creation import zeros
from madspace.core.module import Module
from madspace.core.stream import Stream
from madspace.errors import ClosedError, DeviceMismatchError, DriverError, ShapeError

N = 1024


def content(buffer):
    return np.frombuffer(buffer.copy_to_host(), np.uint32)


@pytest.fixture
def fill(module, words, stream):
    """Return a bound launch that fills the words with 5."""
    return module["ms_test_fill"].bind(4, 64, words, 5, N, stream=stream)


def test_every_call_launches(fake, fill, words):
    for launch in (fill, fill.launch):
        words.fill(0)
        fake.clear_log()
        launch()
        assert fake.names().count("cuLaunchKernel") == 1
        assert (content(words) == 5).all()


def test_a_repeated_launch_is_one_driver_call(fake, fill):
    fill()
    with current(0):
        fake.clear_log()
        fill()
        assert fake.names() == ["cuCtxGetCurrent", "cuLaunchKernel"]


def test_it_writes(fill, words, module, stream):
    fill()
    assert (content(words) == 5).all()
    assert (fill.kernel.name, fill.stream) == ("ms_test_fill", stream)
    assert "ms_test_fill" in repr(fill)


def test_shape_and_attributes_are_kept(fake, module, words, stream):
    module["ms_test_fill"].bind((4, 2), (8, 4), words, 5, N, stream=stream, shared=32)()
    (call,) = fake.log("cuLaunchKernel")
    assert (call.args["grid"], call.args["block"], call.args["shared"]) == ("4,2,1", "8,4,1", 32)
    module["ms_test_fill"].bind(4, 32, words, 5, N, stream=stream, cluster=2, cooperative=True).launch()
    (call,) = fake.log("cuLaunchKernelEx")
    assert (call.args["cluster"], call.args["cooperative"]) == ("2,1,1", 1)


def test_arguments_are_replaced(device, fill, words, stream):
    fill.set(1, 6)
    fill()
    fill.set(np.int64(2), 10)
    fill.set(1, np.uint32(7))
    fill()
    assert content(words).tolist() == [7] * 10 + [6] * (N - 10)
    other = device.pool.allocate(4 * N, stream=stream)
    other.fill(0)
    fill.set(0, other)
    fill()
    assert content(other).tolist() == [7] * 10 + [0] * (N - 10)


@pytest.mark.parametrize(
    ("index", "value", "error"),
    [
        (3, 1, IndexError),
        (-1, 1, IndexError),
        ("1", 1, TypeError),
        (1, 2**32, OverflowError),
        (1, "x", TypeError),
        (1, np.int64(1), TypeError),
        (0, None, TypeError),
    ],
    ids=repr,
)
def test_a_wrong_replacement_leaves_the_old_argument(fill, words, index, value, error):
    with pytest.raises(error):
        fill.set(index, value)
    fill()
    assert (content(words) == 5).all()


def test_queued_launches_keep_their_values(device, module, words, stream, delay):
    late = Stream(device)
    bound = module["ms_test_fill"].bind(1, 64, words, 5, N, stream=late)
    delay(late)
    bound()
    bound.set(1, 6)
    assert (content(words) == 5).all()


@pytest.mark.parametrize("n", [0, 1, 2, 16, 64])
def test_any_number_of_arguments(device, real_gpu, stream, n):
    if not real_gpu:
        register_twins(counts=[n])
    out = device.pool.allocate(8 * 64, stream=stream)
    values = list(range(1, n))
    bound = Module(image(many(n)))[f"many_{n}"].bind(1, 1, *[out][:n], *values, stream=stream)
    gc.collect()
    bound()
    if n > 1:
        bound.set(n - 1, 99)
        values[-1] = 99
    out.fill(0)
    bound()
    assert np.frombuffer(out.copy_to_host(), np.uint64)[: max(n - 1, 0)].tolist() == values


def test_large_arguments(device, real_gpu, stream):
    if not real_gpu:
        register_twins(sizes=[24])
    out = device.pool.allocate(24, stream=stream)
    record = np.dtype([("a", "f8"), ("b", "f8"), ("c", "f8")])
    bound = Module(image(echo(24)))["echo_24"].bind(1, 1, out, np.array((1, 2, 3), record)[()], stream=stream)
    bound()
    assert bytes(out.copy_to_host()) == struct.pack("<3d", 1, 2, 3)
    bound.set(1, np.array((4, 5, 6), record)[()])
    bound()
    assert bytes(out.copy_to_host()) == struct.pack("<3d", 4, 5, 6)


def test_operands_are_kept_alive_and_let_go(device, module, stream):
    tensor = zeros((N,), dtype=np.uint32, device=device)
    seen = weakref.ref(tensor)
    bound = module["ms_test_fill"].bind(1, 64, tensor, 5, N, stream=stream)
    del tensor
    gc.collect()
    bound()
    assert seen() is not None
    bound.set(0, 0)
    bound.set(2, 0)
    bound()
    gc.collect()
    assert seen() is None


def test_launches_between_closes(device, module, stream):
    first, second = (device.pool.allocate(4 * N, stream=stream) for _ in range(2))
    bound = module["ms_test_copy"].bind(1, 64, first, second, N, stream=stream)
    second.fill(1)
    bound()
    second.close()
    for _ in range(2):
        with pytest.raises(ClosedError, match="buffer: expected an open buffer"):
            bound()
    third = device.pool.allocate(4 * N, stream=stream)
    third.fill(2)
    bound.set(1, third)
    bound()
    assert (content(first) == 0x02020202).all()
    with pytest.raises(ClosedError, match="buffer"):
        bound.set(1, second)
    third.close()
    with pytest.raises(ClosedError, match="buffer"):
        bound()


def test_closed_streams_and_modules_are_refused(device, module, words, stream):
    own, other = Stream(device), Stream(device)
    bound = module["ms_test_fill"].bind(1, 64, words, 5, N, stream=own)
    bound()
    own.close()
    with pytest.raises(ClosedError, match="stream"):
        bound()
    bound(stream=other)
    assert (content(words) == 5).all()
    module.close()
    with pytest.raises(ClosedError, match="module"):
        bound(stream=other)


def test_a_call_may_name_another_stream(fake, device, fill, stream):
    other, foreign = Stream(device), ForeignStream()
    for where, handle in (
        (other, other.handle),
        (foreign, foreign.handle),
        (foreign.handle, foreign.handle),
        (None, stream.handle),
    ):
        for launch in (fill, fill.launch):
            fake.clear_log()
            launch(stream=where)
            assert [call.args["stream"] for call in fake.log("cuLaunchKernel")] == [handle]
    device.synchronize()
    fill.kernel.module.close()
    foreign.destroy()


def test_launches_on_several_streams_are_in_order(device, module, words, stream, delay):
    late = Stream(device)
    write = module["ms_test_fill"].bind(1, 256, words, 5, N, stream=late)
    out = device.pool.allocate(4 * N, stream=stream)
    read = module["ms_test_copy"].bind(1, 256, out, words, N, stream=stream)
    for value in (5, 6):
        write.set(1, value)
        delay(late)
        write()
        read()
        assert (content(out) == value).all()


@pytest.mark.multi_gpu
def test_streams_and_memory_of_other_devices_are_refused(device, other_device, module, words, stream):
    there = Stream(other_device)
    bound = module["ms_test_fill"].bind(1, 64, words, 5, N, stream=stream)
    for launch in (bound, bound.launch):
        with pytest.raises(DeviceMismatchError, match="stream: expected one of device 0"):
            launch(stream=there)
    with pytest.raises(DeviceMismatchError, match=r"args\[0\]: expected memory of device 0"):
        bound.set(0, other_device.pool.allocate(4 * N))
    with pytest.raises(DeviceMismatchError, match=r"args\[0\]: expected memory of device 1"):
        module["ms_test_fill"].bind(1, 64, words, 5, N, stream=there)
    bound()
    assert (content(words) == 5).all()


@pytest.mark.multi_gpu
def test_the_context_stays(device, other_device, fill, words):
    with current(1) as context:
        fill()
        assert current_context() == int(context)
    fill()
    assert (content(words) == 5).all()


def test_other_threads_launch(fill, words):
    errors = []

    def work():
        try:
            for _ in range(20):
                fill()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert (content(words) == 5).all()


def test_a_capture_takes_it(fill, stream, words):
    with capturing(stream):
        fill()
        fill()
    assert (content(words) == 0).all()


def test_what_bind_refuses(module, words, stream):
    kernel = module["ms_test_fill"]
    with pytest.raises(ShapeError, match="takes 3 parameters, got 2"):
        kernel.bind(1, 1, words, 1, stream=stream)
    with pytest.raises(ValueError, match="grid: expected"):
        kernel.bind(0, 1, words, 1, 1, stream=stream)
    with pytest.raises(TypeError, match=r"args\[1\]: expected"):
        kernel.bind(1, 1, words, "x", 1, stream=stream)
    with pytest.raises(TypeError, match=r"use kernel\.bind"):
        BoundKernel()


@pytest.mark.parametrize("action", ["bind", "launch", "elsewhere", "set"])
def test_each_failure_leaves_nothing(fake, device, module, words, stream, fill, action):
    other = Stream(device)
    kernel = module["ms_test_fill"]
    actions = {
        "bind": lambda: kernel.bind(1, 1, words, 1, 1, stream=stream),
        "launch": fill,
        "elsewhere": lambda: fill(stream=other),
        "set": lambda: fill.set(0, words),
    }
    actions[action]()
    before = fake.counts()
    for name, error in fake.each_failure(actions[action]):
        assert isinstance(error, DriverError), f"the failure of {name} was lost"
        del error
        assert fake.counts() == before, name
