"""Parts of device and page-locked memory: copies of some bytes, tensors of some bytes, whose memory an array is."""

import numpy as np
import pytest

import madspace
from madspace import PinnedBuffer
from madspace.core._parts import download_part, page_locked_owner, refuse_captured, tensor_part, upload_part


@pytest.fixture
def buffer(device, stream):
    made = device.pool.allocate(64, stream=stream)
    made.fill(7)
    return made


def test_copies_of_some_bytes(buffer, stream):
    pinned = PinnedBuffer(32)
    pinned.numpy()[:] = np.arange(32)
    upload_part(pinned, 8, buffer, 40, 16, stream)
    expected = np.full(64, 7)
    expected[40:56] = np.arange(8, 24)
    assert list(buffer.copy_to_host()) == expected.tolist()
    download_part(pinned, 1, buffer, 50, 14, stream)
    pinned.synchronize()
    assert pinned.numpy().tolist() == [0, *expected[50:64], *range(15, 32)]
    upload_part(pinned, 32, buffer, 64, 0, stream)


@pytest.mark.parametrize(("at", "offset", "nbytes"), [(0, 0, 33), (1, 0, 32), (0, 40, 25), (33, 0, 0), (0, 65, 0)])
def test_bytes_that_are_not_there(buffer, stream, at, offset, nbytes):
    pinned = PinnedBuffer(32)
    for copy in (upload_part, download_part):
        with pytest.raises(ValueError, match="nbytes: expected a part of 32 and of 64 bytes"):
            copy(pinned, at, buffer, offset, nbytes, stream)
    pinned.close()
    with pytest.raises(madspace.ClosedError):
        upload_part(pinned, 0, buffer, 0, 0, stream)


def test_their_uses_are_noted(buffer, stream, delay):
    pinned = PinnedBuffer(32)
    pinned.numpy()[:] = 1
    delay(stream)
    upload_part(pinned, 0, buffer, 0, 32, stream)
    assert not pinned.query()
    pinned.close()  # late work still has the memory
    other = PinnedBuffer(32)
    other.numpy()[:] = 2
    stream.synchronize()
    assert list(buffer.copy_to_host())[:32] == [1] * 32


def test_tensors_of_some_bytes(buffer):
    tensor = tensor_part(buffer, 16, (3, 2), np.int32)
    assert (tensor.shape, tensor.dtype, tensor.ptr) == ((3, 2), np.int32, buffer.ptr + 16)
    assert (tensor.numpy() == 0x07070707).all()
    assert tensor_part(buffer, 64, (0, 4), np.float64).shape == (0, 4)
    for offset, shape in [(16, (7,)), (65, (0,)), (8, (2, 4)), (0, (-1,)), (0, (2**40, 2**30))]:
        with pytest.raises(ValueError, match="shape: expected"):
            tensor_part(buffer, offset, shape, np.float64)


def test_whose_memory_an_array_is(device):
    pinned = PinnedBuffer(64)
    array = pinned.numpy("f8")
    for view in (array, array[2:], array.reshape(2, 4)[:, 1], np.asarray(memoryview(pinned)[8:16])):
        assert page_locked_owner(view) is pinned
    for other in (np.zeros(3), np.frombuffer(b"12345678"), array.copy(), array + 1):
        assert page_locked_owner(other) is None


def test_a_captured_stream_is_refused(stream):
    refuse_captured(stream, "call")
    with madspace.capture(stream), pytest.raises(madspace.CaptureError, match="call"):
        refuse_captured(stream, "call")
    closed = madspace.Stream(stream.device)
    closed.close()
    with pytest.raises(madspace.ClosedError):
        refuse_captured(closed, "call")
