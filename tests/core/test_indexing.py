"""tensor[...]: views as NumPy makes them."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from madspace.core.creation import asarray, zeros
from madspace.errors import ShapeError


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.data())
def test_as_numpy(data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    array = np.arange(int(np.prod(shape))).reshape(shape)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, max_dims=6))
    view = asarray(array)[key]
    expected = np.asarray(array[key])
    assert view.shape == expected.shape
    np.testing.assert_array_equal(view.numpy(), expected)
    if expected.size:
        assert np.shares_memory(view.numpy(), array)


def test_views_of_device_tensors(device):
    array = np.arange(24.0).reshape(4, 6)
    tensor = asarray(array, device)
    column = tensor[:, 2]
    assert column.ptr == tensor.ptr + 16
    assert column.strides == (6,)
    assert column.stream == tensor.stream
    assert column.numpy().tolist() == array[:, 2].tolist()
    tensor[1].copy_from(np.zeros(6))
    assert tensor.numpy()[1].tolist() == [0.0] * 6


def test_views_keep_the_memory(fake, device):
    before = fake.counts()["device_memory"]
    tensor = zeros((4, 6), device=device)
    alive = weakref.ref(tensor)
    view = tensor[1]
    del tensor
    gc.collect()
    assert alive() is None
    assert view.numpy().sum() == 0.0
    assert fake.counts()["device_memory"] == before + 1
    del view
    assert fake.counts()["device_memory"] == before


def test_views_stay_read_only():
    array = np.zeros(3)
    array.flags.writeable = False
    assert asarray(array)[1:].readonly


def test_iteration():
    assert [row.numpy().tolist() for row in asarray(np.arange(4).reshape(2, 2))] == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (4, IndexError, "expected -4 to 3 in dimension 0, got 4"),
        ((0, -7), IndexError, "expected -6 to 5 in dimension 1, got -7"),
        ((0, 0, 0), IndexError, "expected at most 2 entries for 2 dimensions, got 3"),
        ((..., ...), IndexError, "expected one ellipsis at most, got 2"),
        (1.0, TypeError, "got float"),
        ("a", TypeError, "got str"),
        (True, TypeError, "got bool"),
        ([0, 1], TypeError, "got list"),
        (np.array([0, 1]), TypeError, "got ndarray"),
        ((None,) * 7, ShapeError, "at most 8 dimensions"),
    ],
    ids=["range", "negative", "too-many", "ellipses", "float", "str", "bool", "list", "array", "axes"],
)
def test_refusals(key, error, message):
    with pytest.raises(error, match=message):
        zeros((4, 6))[key]
