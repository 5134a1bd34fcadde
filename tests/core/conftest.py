"""What tests of the runtime start from."""

import pytest
import scratch_op

from madspace.core.graph import Graph
from madspace.core.module import Module
from madspace.core.stream import Stream
from madspace.core.workspace import Workspace

N = 1024  # words, in these tests as well


@pytest.fixture
def kernels(device, kernels_ptx):
    """Return the module of the test kernels."""
    return Module(kernels_ptx)


@pytest.fixture
def words(device, stream):
    """Return a buffer of 1024 uint32, zero, on its stream."""
    buffer = device.pool.allocate(4 * N, stream=stream)
    buffer.fill(0)
    return buffer


@pytest.fixture
def graph(device):
    """Return a graph without nodes."""
    return Graph(device)


@pytest.fixture
def late(device, delay):
    """Return a stream on which everything happens late."""
    stream = Stream(device)
    delay(stream)
    return stream


@pytest.fixture
def workspace(device):
    """Return a workspace for `scratch_op` that the device's own stream has allocated."""
    return Workspace(scratch_op.N, device)
