"""Arrays to and from compact columns in a block, on several threads: any strides, against NumPy."""

import numpy as np
import pytest

import madspace
from madspace.cpu._columns import Columns, copy_rows

MARK = 0xA5


@pytest.fixture(params=[1, 3], ids=["one thread", "threads"])
def threads(request):
    before = madspace.get_num_threads()
    madspace.set_num_threads(request.param)
    yield request.param
    madspace.set_num_threads(before)


@pytest.fixture(params=[False, True], ids=["cached", "past caches"])
def past_caches(request):
    return request.param


def arrays(n):
    """Return arrays of n rows, of all kinds of strides."""
    rng = np.random.default_rng(n)
    table = rng.random((n, 7))
    ints = rng.integers(-(2**31), 2**31, (n, 3), dtype=np.int32)
    return {
        "numbers": rng.random(n),
        "column": table[:, 2],
        "backwards": rng.random(n)[::-1],
        "momenta": rng.random((n, 4)),
        "part of a row": table[:, 1:5],
        "row-major last": np.asfortranarray(rng.random((n, 4))),
        "matrix": rng.random((n, 3, 2)).swapaxes(1, 2),
        "ints": ints,
        "column of ints": ints[:, 1],
        "every second": rng.integers(0, 9, 2 * n, dtype=np.int32)[::2],
        "one element": rng.random((n, 1)),
        "no element": rng.random((n, 0)),
        "the same": np.broadcast_to(rng.random(4), (n, 4)),
    }


def places(given, rows, gap=24):
    """Return offsets for so many rows of each array, with gaps, and the size of the block."""
    offsets, at = [], gap
    for x in given:
        offsets.append(at)
        at += rows * x[:1].nbytes + gap
    return offsets, at


@pytest.mark.parametrize("n", [1, 2, 63, 5000])
def test_packs_what_numpy_copies(threads, past_caches, n):
    given = list(arrays(n).values())
    for first, rows in {(0, n), (n // 3, n - n // 3), (n - 1, 1), (0, n // 2)}:
        offsets, size = places(given, rows)
        block, expected = np.full(size, MARK, np.uint8), np.full(size, MARK, np.uint8)
        copy_rows([(Columns(given, offsets, False, past_caches), block.ctypes.data, first, rows, True)])
        for x, offset in zip(given, offsets, strict=True):
            part = np.ascontiguousarray(x[first : first + rows]).reshape(-1).view(np.uint8)
            expected[offset : offset + part.size] = part
        np.testing.assert_array_equal(block, expected)


@pytest.mark.parametrize("n", [1, 2, 63, 5000])
def test_unpacks_into_the_rows_alone(threads, past_caches, n):
    given = arrays(n)
    given.pop("the same")
    found = [x.copy(order="K") if x.base is None else x for x in given.values()]
    expected = [np.array(x) for x in found]
    first, rows = n // 3, n - n // 3 - (n > 2)
    offsets, size = places(found, rows)
    block = np.random.default_rng(1).integers(0, 99, size, dtype=np.uint8)
    copy_rows([(Columns(found, offsets, True, past_caches), block.ctypes.data, first, rows, False)])
    # Arrays that share a table are written one after the other.
    for x, y, offset in zip(found, expected, offsets, strict=True):
        part = block[offset : offset + rows * x[:1].nbytes].view(x.dtype).reshape((rows, *x.shape[1:]))
        if x.base is None:
            y[first : first + rows] = part
            np.testing.assert_array_equal(x, y)
        elif not any(np.shares_memory(x, other) for other in found if other is not x):
            np.testing.assert_array_equal(x[first : first + rows], part)


def test_large_copies_of_any_alignment(past_caches):
    source = np.random.default_rng(2).integers(0, 256, 5000, dtype=np.uint8)
    for shift in (0, 1, 7, 8, 63):
        for size in (255, 256, 257, 320, 4001):
            block = np.full(5000, MARK, np.uint8)
            columns = Columns([source[shift : shift + size]], [3 * shift], False, past_caches)
            copy_rows([(columns, block.ctypes.data, 0, size, True)])
            expected = np.full(5000, MARK, np.uint8)
            expected[3 * shift : 3 * shift + size] = source[shift : shift + size]
            np.testing.assert_array_equal(block, expected)


def test_several_at_once(threads, past_caches):
    rng = np.random.default_rng(3)
    sources, targets = [rng.random(50_000), rng.random((50_000, 4))], [np.zeros((70_000, 2)), np.zeros(70_000)]
    there, back = Columns(sources, [0, 400_000], False, past_caches), Columns(targets, [8, 32], True, past_caches)
    fixed = Columns([np.array([3.0])], [0], False, past_caches)
    blocks = np.zeros((3, 2_000_000), np.uint8)
    blocks[1] = rng.integers(0, 99, 2_000_000)
    copies = [(there, blocks[0].ctypes.data, 0, 50_000, True), (fixed, blocks[2].ctypes.data, 0, 1, True)]
    copy_rows([*copies, (back, blocks[1].ctypes.data, 69_999, 1, False), (there, blocks[2].ctypes.data, 0, 0, True)])
    np.testing.assert_array_equal(blocks[0].view("f8")[:250_000], np.concatenate([x.ravel() for x in sources]))
    assert blocks[2].view("f8")[0] == 3.0
    assert targets[0][-1].tobytes() == blocks[1][8:24].tobytes()
    assert targets[1][-1:].tobytes() == blocks[1][32:40].tobytes()
    assert not targets[0][:-1].any()
    copy_rows([])


def test_refuses_rows_that_are_not_there():
    block = np.zeros(800, np.uint8)
    columns = Columns([np.zeros(10)], [0], False, True)
    for first, rows in [(0, 11), (10, 1), (-1, 2), (5, 6), (0, -1)]:
        with pytest.raises(ValueError, match="n: expected rows of 10"):
            copy_rows([(columns, block.ctypes.data, first, rows, True)])
    with pytest.raises(ValueError, match="arrays: expected 1 to 8 axes, got 0"):
        Columns([np.ones(())], [0], False, True)
    readonly = np.zeros(3)
    readonly.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        Columns([readonly], [0], True, True)
