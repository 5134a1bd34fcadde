"""Libraries that tell by an exchange table what their arrays are and on which stream they work."""

import ctypes
import gc
import weakref
from ctypes import POINTER, addressof, c_void_p

import ml_dtypes
import numpy as np
import pytest
from dlpack_structs import DLTensor, Producer, Versioned
from frameworks import OURS, framework

import madspace
from madspace import Stream, asarray, from_dlpack, zeros
from madspace.core.device import Device


def used(fake, call):
    return {entry.args["stream"] for entry in fake.log(call)}


@pytest.mark.parametrize("kind", ["launch", "mapping", "kda workspace", "copy"])
def test_the_frameworks_current_stream_is_used(fake, device, module, kind):
    array, _ = framework()
    theirs = Stream(device)
    array.current["stream"] = theirs.handle
    device.synchronize()
    kernel = module["ms_test_fill"]
    kernel.load()
    madspace.preload(device)
    words = array(zeros(1024, np.uint32, device=device))
    inputs = [array(zeros(8, device=device)) for _ in range(6)]
    q = array(zeros((1, 16, 1, 64), ml_dtypes.bfloat16, device=device))
    target = zeros(1024, np.uint32, device=device)
    calls = {
        "launch": (lambda: kernel.launch(1, 32, words, 7, 1024), "cuLaunchKernel"),
        "mapping": (lambda: madspace.TPropagatorMapping([0]).map_forward(inputs[:5]), "cuLaunchKernel"),
        "kda workspace": (lambda: madspace.kda.allocate_workspace(q), "cuMemAllocFromPoolAsync"),
        "copy": (lambda: asarray(words).copy(), "cuMemcpyDtoDAsync"),
    }
    call, entry = calls[kind]
    fake.clear_log()
    call()
    assert used(fake, entry) == {theirs.handle}
    mine, argument = Stream(device), Stream(device)
    fake.clear_log()
    with madspace.stream(mine):
        call()
    assert used(fake, entry) == {mine.handle}
    if kind == "launch":
        fake.clear_log()
        with madspace.stream(mine):
            kernel.launch(1, 32, words, 7, 1024, stream=argument)
        assert used(fake, entry) == {argument.handle}
    del target


def test_no_stream_told_is_the_legacy_one(fake, device, module):
    array, _ = framework()
    kernel = module["ms_test_fill"]
    kernel.load()
    fake.clear_log()
    kernel.launch(1, 32, array(zeros(1024, np.uint32, device=device)), 7, 1024)
    assert used(fake, "cuLaunchKernel") == {1}
    assert asarray(array(zeros(3, device=device))).stream.handle == 1
    assert not fake.counts().get("ambiguous_streams", 0)


def test_a_newer_table_is_passed_over_for_its_older_one(device):
    _, older = framework()
    array, _ = framework(major=2, older=older)
    source = zeros(3)
    assert asarray(array(source)).ptr == source.ptr


def test_a_newer_table_alone_is_as_none(device):
    array, _ = framework(major=9, __dlpack__=lambda self, **k: self.tensor.__dlpack__(**k),
                         __dlpack_device__=lambda self: self.tensor.__dlpack_device__())  # fmt: skip
    source = zeros(3)
    assert asarray(array(source)).ptr == source.ptr


def test_types_are_not_kept():
    array, _ = framework()
    producer = type("Producer", (Producer,), {})
    asarray(array(zeros(3)))
    from_dlpack(producer(np.zeros(3)))
    alive = weakref.ref(array), weakref.ref(producer)
    array.current.clear()
    del array, producer
    gc.collect()
    assert [reference() for reference in alive] == [None, None]


def test_a_type_at_the_address_of_a_dead_one_is_asked_anew():
    # A hundred types come and go; every second one has no table.
    seen = set()
    for number in range(100):
        if number % 2:
            array, _ = framework()
            asarray(array(zeros(3)))
            assert array.current["exports"] == 1
        else:
            array = type("Array", (Producer,), {})
            producer = array(np.zeros(3))
            from_dlpack(producer)
            assert len(producer.keywords) == 1
            del producer
        seen.add(id(array))
        del array
        gc.collect()
    assert len(seen) < 100


def test_a_type_that_does_not_know_the_keywords_is_asked_once_more_only_the_first_time():
    asked = []

    class Old:
        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self):
            return zeros(3).__dlpack__()

        def __getattribute__(self, name):
            if name == "__dlpack__":
                asked.append(name)
            return super().__getattribute__(name)

    class Counting(Old):
        n_calls = 0

        def __dlpack__(self, **keywords):
            type(self).n_calls += 1
            if keywords:
                raise TypeError("no keywords")
            return zeros(3).__dlpack__()

    for n_calls in (2, 3, 4):
        from_dlpack(Counting())
        assert Counting.n_calls == n_calls
    assert from_dlpack(Old()).shape == (3,)


@pytest.mark.parametrize("method", ["is_conj", "is_neg"])
@pytest.mark.parametrize(("dtype", "step"), [("complex64", 1), ("complex128", 1), ("float64", 2), ("float32", 2)])
def test_lazy_views_are_refused(method, dtype, step):
    answers = {"is_conj": lambda self: False, "is_neg": lambda self: False}
    lazy, _ = framework(**answers | {method: lambda self: True})
    plain, _ = framework(**answers)
    source = zeros(8, dtype)[::step]
    alive = weakref.ref(source)
    with pytest.raises(BufferError, match=r"array: expected elements as they are in memory.*resolve_conj"):
        asarray(lazy(source))
    assert asarray(plain(source)).shape == source.shape
    del source
    gc.collect()
    assert alive() is None


def test_most_arrays_are_not_asked_whether_they_are_lazy():
    asked = []
    array, _ = framework(is_conj=lambda self: asked.append(1), is_neg=lambda self: asked.append(1))
    for source in (zeros(8), zeros((8, 3))[:, 1:], zeros(8, np.int64)[::2]):
        asarray(array(source))
    assert asked == []


@pytest.mark.multi_gpu
def test_managed_memory_is_of_the_device_that_its_address_tells(fake, device, other_device):
    for place in (device, other_device):
        source = zeros(4, device=place)
        place.synchronize()
        producer = Producer(np.zeros(4))
        producer.device = (13, 0)
        producer.tensor.device.type = 13
        producer.tensor.data = source.ptr
        fake.clear_log()
        tensor = from_dlpack(producer)
        assert (tensor.device, tensor.ptr, tensor.stream) == (place, source.ptr, place.default_stream)
        assert producer.keywords[-1]["stream"] == 1
        assert used(fake, "cuStreamWaitEvent") == {place.default_stream.handle}  # for the legacy stream
        tensor.fill(3.0)
        assert source.numpy().tolist() == [3.0] * 4
        with pytest.raises(madspace.DeviceMismatchError, match="x: expected memory of cuda"):
            from_dlpack(producer, stream=(other_device if place is device else device).default_stream)
        del tensor
        gc.collect()


def test_closing_the_consumers_stream_does_not_lose_its_use(fake, device):
    source = zeros(4, device=device)
    consumer = Stream(device)
    out = POINTER(Versioned)()
    with madspace.stream(consumer):
        assert OURS.from_object(source, ctypes.byref(out)) == 0
    consumer.close()
    assert not fake.log("cuStreamDestroy")
    fake.clear_log()
    ctypes.CFUNCTYPE(None, c_void_p)(out.contents.deleter)(addressof(out.contents))
    assert fake.names().count("cuStreamDestroy") == 1
    assert used(fake, "cuEventRecord") == {consumer.handle}


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"stream": True}, "stream: expected an int"),
        ({"stream": "1"}, "stream: expected an int"),
        ({"max_version": 1}, "max_version: expected a pair of ints, got 1"),
        ({"max_version": (1,)}, "max_version: expected a pair"),
        ({"dl_device": 2}, "dl_device: expected a pair of ints, got 2"),
        ({"dl_device": ("cuda", 0)}, "dl_device: expected a pair"),
    ],
)
def test_export_arguments_are_named(device, keywords, message):
    with pytest.raises(TypeError, match=message):
        zeros(3, device=device).__dlpack__(**keywords)


@pytest.mark.parametrize("stream", [0, -1, "1", 1.5, 1 << 64])
def test_streams_of_the_cuda_array_interface_are_checked(device, stream):
    tensor = zeros(3, device=device)

    class Interface:
        def __init__(self):
            self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "stream": stream}

    with pytest.raises(BufferError, match="array: expected a stream of 1, 2, a handle or None"):
        asarray(Interface())


def test_borrowing_keeps_working_beside_the_cache(device):
    view = DLTensor()
    assert OURS.borrow(zeros(3, device=Device(0)), ctypes.byref(view)) == 0
    assert view.device.type == 2
