"""Tensors on the host by NumPy's own protocol."""

import gc

import ml_dtypes
import numpy as np
import pytest

from madspace.core.creation import asarray, zeros


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "f2", "f8", "c8", "c16"])
def test_types_and_strides(dtype):
    source = np.arange(12).reshape(3, 4).astype(dtype)
    for view in (source, source.T, source[::-1, ::2], source[1, 2, ...], source[:0]):
        interface = asarray(view).__array_interface__
        assert (interface["typestr"], interface["shape"], interface["version"]) == (view.dtype.str, view.shape, 3)
        if view.size:
            assert interface["strides"] == view.strides
            assert interface["data"] == (view.__array_interface__["data"][0], False)


def test_memory_is_shared_and_kept():
    tensor = zeros(4)
    view = np.asarray(tensor)
    view[1] = 3.0
    assert tensor.numpy().tolist() == [0.0, 3.0, 0.0, 0.0]
    del tensor
    gc.collect()
    assert view.tolist() == [0.0, 3.0, 0.0, 0.0]
    assert np.asarray(zeros((0, 3))).shape == (0, 3)


def test_read_only_is_kept():
    source = np.zeros(3)
    source.flags.writeable = False
    view = np.asarray(asarray(source))
    assert not view.flags.writeable


def test_what_it_has_no_word_for(device):
    for tensor in (zeros(3, device=device), zeros(3, ml_dtypes.bfloat16), zeros(3, ml_dtypes.float8_e4m3fn)):
        assert not hasattr(tensor, "__array_interface__")
    assert np.asarray(zeros(3, ml_dtypes.bfloat16)).dtype == ml_dtypes.bfloat16
    with pytest.raises(TypeError, match="not converted implicitly"):
        np.asarray(zeros(3, device=device))
