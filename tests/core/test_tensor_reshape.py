"""Tensor.reshape: the same elements in the same memory under another shape, wherever NumPy makes a view as well."""

import itertools

import numpy as np
import pytest

from madspace.core.creation import asarray, zeros
from madspace.errors import ShapeError

BASE = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
LAYOUTS = {
    "compact": BASE,
    "transposed": BASE.T,
    "rows": BASE[:, ::2],
    "columns": BASE[..., 1:4],
    "every other": BASE[..., ::2],
    "backwards": BASE[..., ::-1],
    "all backwards": BASE.reshape(-1)[::-1].reshape(2, 3, 4, 5),
    "swapped": BASE.swapaxes(1, 2),
    "ones": BASE[:, :1, :, :1],
    "repeated": np.broadcast_to(BASE[:, :, :1, :1], (2, 3, 4, 5)),
    "column": BASE[:, 1, 2, 3],
    "single": BASE[:1, :1, :1, :1],
}


def shapes_of(array):
    """Yield the array's own shape, and ways to write its size as at most three lengths, with ones here and there."""
    yield array.shape
    yield 1, *array.shape
    size = array.size
    divisors = [n for n in range(1, size + 1) if size % n == 0]
    for first, second in itertools.product(divisors, divisors):
        if size % (first * second) == 0:
            yield first, second, size // (first * second)
    yield (size,)
    yield 1, size, 1, 1


def has_view(array, shape):
    """Tell whether NumPy can give the array that shape without a copy."""
    try:
        return array.reshape(shape, copy=False) is not None
    except ValueError:
        return False


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_view_exactly_where_numpy_has_one(layout):
    array = LAYOUTS[layout]
    tensor = asarray(array)
    seen = set()
    for shape in shapes_of(array):
        possible = has_view(array, shape)
        seen.add(possible)
        if possible:
            view = tensor.reshape(shape)
            assert view.shape == shape
            assert view.ptr == tensor.ptr
            np.testing.assert_array_equal(view.numpy(), array.reshape(shape))
        else:
            with pytest.raises(ShapeError, match=r"take copy\(\) first"):
                tensor.reshape(shape)
    assert True in seen


def test_some_layouts_have_no_view():
    assert not has_view(LAYOUTS["transposed"], (120,))
    assert not has_view(LAYOUTS["columns"], (2, 36))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((6,), -1, (6,)),
        ((2, 6), (3, -1), (3, 4)),
        ((2, 6), (-1, 1, 2), (6, 1, 2)),
        ((), (1, 1), (1, 1)),
        ((1, 1), (), ()),
        ((0, 3), (7, 0), (7, 0)),
        ((0, 3), (-1, 3), (0, 3)),
        ((2, 3), [np.int64(3), 2], (3, 2)),
    ],
)
def test_shapes(old, new, expected):
    assert zeros(old).reshape(new).shape == expected


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((4,), r"one of 6 elements, got \(4,\)"),
        ((4, -1), "one of 6 elements"),
        ((0, -1), "one of 6 elements"),
        ((-1, -1), "one of them -1 at most"),
        ((-2, -3), "lengths of 0 and more"),
        ((2.0, 3), "an int or a sequence of ints"),
        ("6", "an int or a sequence of ints"),
        ((1,) * 8 + (6,), "at most 8 lengths, got 9"),
        ((2**40, 2**40), "one of 6 elements"),
    ],
)
def test_shapes_that_are_refused(shape, message):
    with pytest.raises(ShapeError, match=f"shape: expected .*{message}"):
        zeros((2, 3)).reshape(shape)


def test_on_a_device_nothing_is_queued(fake, device):
    tensor = asarray(np.arange(6.0), device)
    fake.clear_log()
    view = tensor.reshape((2, 3))
    assert fake.names() == []
    assert (view.ptr, view.shape, view.device, view.stream) == (tensor.ptr, (2, 3), device, tensor.stream)


def test_a_device_view_keeps_the_memory(device):
    view = asarray(np.arange(6.0), device).reshape((2, 3))
    assert view.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    view.fill(1.0)
    assert view.reshape(-1).numpy().tolist() == [1.0] * 6


def test_read_only_stays_read_only():
    array = np.arange(6.0)
    array.flags.writeable = False
    assert asarray(array).reshape((2, 3)).readonly
