"""Arguments of a mapping on the host, for calls that take them through a GPU."""

import numpy as np
from chain_points import randoms

import madspace

ROW = 8 * (9 + 21)  # bytes of an event of a mapping into three particles


def host_inputs(n, seed=3):
    """Return random numbers, energy and masses of n events with three particles."""
    return [*randoms(3, n, seed), np.full(n, 500.0), np.full(n, 173.0), np.full(n, 100.0), np.zeros(n)]


def put(arrays):
    """Return arrays on device 0; None stays."""
    return [x if x is None else madspace.asarray(x, device="cuda") for x in arrays]


def pinned(array):
    """Return a copy in page-locked memory."""
    copy = madspace.PinnedBuffer(array.nbytes).numpy(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
