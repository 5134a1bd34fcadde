"""How arrays of other libraries come in: which protocol is tried, with what, and who waits for whom."""

import ctypes
import gc
import weakref

import numpy as np
import pytest
from dlpack_structs import Producer, new_capsule, table_of
from raw_driver import ForeignStream

from madspace.core.creation import asarray, from_dlpack, zeros
from madspace.core.stream import Stream
from madspace.core.tensor import Tensor
from madspace.errors import DeviceMismatchError, DTypeError, ShapeError


class Interface:
    """An array of another library that speaks __cuda_array_interface__."""

    def __init__(self, tensor, **changes):
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, **changes}


class DeviceProducer:
    """An array of another library that speaks DLPack on a device, with the keywords that it knows."""

    known = ("stream", "max_version")

    def __init__(self, tensor):
        self.tensor = tensor
        self.calls = []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **keywords):
        self.calls.append(keywords)
        if set(keywords) - set(self.known):
            raise TypeError("unexpected keyword")
        return self.tensor.__dlpack__(stream=-1, max_version=keywords.get("max_version"))


class OldProducer(DeviceProducer):
    known = ("stream",)


class AncientProducer(DeviceProducer):
    known = ()


@pytest.fixture
def producer_stream(device):
    stream = ForeignStream()
    yield stream
    stream.destroy()


def test_host_producers_are_asked_for_the_new_structure():
    producer = Producer(np.zeros(3))
    asarray(producer)
    assert producer.keywords == [{"max_version": (1, 3)}]


def test_keywords_are_dropped_once_and_remembered_per_type():
    class Old(Producer):
        def __dlpack__(self, **keywords):
            self.keywords.append(keywords)
            if keywords:
                raise TypeError("unexpected keyword")
            return self.capsule()

    first, second = Old(np.zeros(3), versioned=False), Old(np.zeros(3), versioned=False)
    asarray(first)
    asarray(second)
    assert first.keywords == [{"max_version": (1, 3)}, {}]
    assert second.keywords == [{}]


@pytest.mark.parametrize(
    ("kind", "keywords"),
    [
        (DeviceProducer, ["stream max_version"]),
        (OldProducer, ["stream max_version", "stream"]),
        (AncientProducer, ["stream max_version", "stream", ""]),
    ],
)
def test_device_producers_are_told_the_stream(device, stream, kind, keywords):
    fresh = type("Fresh", (kind,), {})
    first, second = fresh(zeros(3, device=device)), fresh(zeros(3, device=device))
    assert asarray(first, stream=stream).stream == stream
    asarray(second, stream=stream)
    assert [" ".join(call) for call in first.calls] == keywords
    assert [" ".join(call) for call in second.calls] == keywords[-1:]
    assert all(call["stream"] == stream.handle for call in first.calls if call)


def test_a_producer_that_knows_no_stream_worked_on_the_default_one(fake, device, stream):
    fake.clear_log()
    tensor = asarray(AncientProducer(zeros(3, device=device)), stream=stream)
    assert [call.args["stream"] for call in fake.log("cuEventRecord")][-1:] == [1]
    assert [call.args["stream"] for call in fake.log("cuStreamWaitEvent")][-1:] == [stream.handle]
    del tensor


def test_without_a_stream_the_own_one_is_used(device):
    producer = DeviceProducer(zeros(3, device=device))
    assert asarray(producer).stream == device.default_stream
    assert producer.calls[0]["stream"] == device.default_stream.handle


def test_errors_of_producers_come_through():
    class Broken(Producer):
        def __dlpack__(self, **keywords):
            raise self.error

    producer = Broken(np.zeros(3))
    for error in (TypeError("one"), BufferError("two"), RuntimeError("three")):
        producer.error = error
        with pytest.raises(type(error), match=str(error)):
            asarray(producer)


def test_from_dlpack_wants_dlpack():
    with pytest.raises(TypeError, match="x: expected an object with __dlpack__, got list"):
        from_dlpack([1.0])


def test_tables_of_newer_versions_are_walked_back():
    table = table_of(Tensor)
    newer = type(table)(2, 0, None)
    wrong = type("Wrong", (Producer,), {"__dlpack_c_exchange_api__": capsule_over(newer)})
    assert asarray(wrong(np.zeros(3))).shape == (3,)  # by __dlpack__: the table is not for us
    newest = type(table)(3, 0, ctypes.addressof(newer))
    newer.prev_api = ctypes.addressof(table)
    walked = type("Walked", (Producer,), {"__dlpack_c_exchange_api__": capsule_over(newest)})
    with pytest.raises(TypeError, match="Tensor"):
        asarray(walked(np.zeros(3)))  # it arrived at our own table, which takes Tensors alone


def capsule_over(table):
    return new_capsule(ctypes.addressof(table), b"dlpack_exchange_api", None)


def test_cuda_array_interface_is_shared(device):
    source = zeros((2, 3), "f4", device=device)
    array = Interface(source)
    alive = weakref.ref(array)
    tensor = asarray(array)
    assert (tensor.ptr, tensor.shape, tensor.strides, tensor.dtype) == (source.ptr, (2, 3), (3, 1), np.float32)
    assert tensor.device is device
    del array
    gc.collect()
    assert alive() is not None
    device.synchronize()
    del tensor
    assert alive() is None


def test_cuda_array_interface_strides_are_bytes(device):
    source = zeros((4, 6), device=device)
    tensor = asarray(Interface(source, shape=(4, 3), strides=(48, 16), data=(source.ptr, True)))
    assert tensor.strides == (6, 2)
    assert tensor.readonly
    with pytest.raises(BufferError, match="strides in multiples of 8 bytes"):
        asarray(Interface(source, shape=(4, 3), strides=(48, 12)))
    with pytest.raises(BufferError, match="expected 2 strides"):
        asarray(Interface(source, shape=(4, 3), strides=(48,)))


def test_cuda_array_interface_without_elements(device):
    for pointer in (0, None):
        tensor = asarray(Interface(zeros((0, 3), device=device), data=(pointer, False)))
        assert (tensor.ptr, tensor.shape, tensor.device) == (0, (0, 3), device)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"mask": object()}, BufferError, "without a mask"),
        ({"stream": 0}, BufferError, "got 0"),
        ({"typestr": ">f8"}, DTypeError, "got '>f8'"),
        ({"typestr": "|V8"}, DTypeError, r"got '\|V8'"),
        ({"typestr": "<M8[s]"}, DTypeError, "native byte order"),
        ({"shape": (1,) * 9}, ShapeError, "at most 8 dimensions"),
        ({"shape": (-3,)}, ShapeError, "lengths of 0 and more"),
    ],
    ids=["mask", "stream", "byte-order", "void", "time", "rank", "negative"],
)
def test_cuda_array_interface_refusals(device, changes, error, message):
    with pytest.raises(error, match=message):
        asarray(Interface(zeros(3, device=device), **changes))


@pytest.mark.parametrize("there", [None, 1, 2, "handle"])
def test_cuda_array_interface_orders_streams(fake, device, stream, producer_stream, there):
    handle = producer_stream.handle if there == "handle" else there
    array = Interface(zeros(3, device=device), stream=handle)
    fake.clear_log()
    tensor = asarray(array, stream=stream)
    expected = [] if there is None else [handle]
    assert [call.args["stream"] for call in fake.log("cuEventRecord")] == expected
    assert [call.args["stream"] for call in fake.log("cuStreamWaitEvent")] == [stream.handle] * len(expected)
    assert tensor.stream == stream


@pytest.mark.multi_gpu
def test_cuda_array_interface_of_another_device(device):
    with pytest.raises(DeviceMismatchError, match="array: expected memory of cuda:1"):
        asarray(Interface(zeros(3, device=device)), stream=Stream("cuda:1"))
