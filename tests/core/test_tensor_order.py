"""Tensors whose stream was closed, and copies between overlapping views."""

import numpy as np
import pytest

from madspace.core.creation import asarray, zeros
from madspace.core.stream import Stream


@pytest.fixture
def orphan(device, delay):
    """Return 0 .. 7 on a stream that was closed while its work was still to come."""
    stream = Stream(device)
    tensor = zeros(8, device=device, stream=stream)
    delay(stream)
    tensor.copy_from(np.arange(8.0))
    stream.close()
    return tensor


def test_a_tensor_outlives_its_stream(device, orphan):
    assert orphan.stream.closed
    assert orphan.numpy().tolist() == list(range(8))
    copy = orphan.copy()
    assert copy.stream == device.default_stream
    assert orphan.fill(7.0).numpy().tolist() == [7.0] * 8
    assert orphan.copy_from(copy).numpy().tolist() == list(range(8))
    assert orphan.copy_from(np.ones(8)).numpy().tolist() == [1.0] * 8
    assert copy.numpy().tolist() == list(range(8))


@pytest.mark.parametrize(("target", "source"), [(np.s_[1:], np.s_[:-1]), (np.s_[:-3], np.s_[3:]), (np.s_[:], np.s_[:])])
def test_overlapping_views_are_copied_as_on_the_host(device, target, source):
    array = np.arange(1000.0)
    tensor = asarray(array, device, copy=True)
    array[target] = array[source].copy()
    tensor[target].copy_from(tensor[source])
    assert tensor.numpy().tolist() == array.tolist()


def test_overlapping_copies_never_reach_the_driver_as_they_are(fake, device):
    tensor = zeros(1000, device=device)
    fake.clear_log()
    tensor[1:].copy_from(tensor[:-1])
    for call in fake.log("cuMemcpyDtoDAsync"):
        assert abs(call.args["dst"] - call.args["src"]) >= call.args["size"]
    assert len(fake.log("cuMemcpyDtoDAsync")) == 2
