"""What tests of kernels and graphs start from."""

import pytest

from madspace.core.graph import Graph
from madspace.core.module import Module

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
