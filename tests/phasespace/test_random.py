"""Random numbers: Philox4x32-10, uniform, the same everywhere, in memory and inside kernels."""

import numpy as np
import pytest
from program_points import chain, chain_arguments, function_of

import madspace
from madspace import FunctionRuntime, batch_float, batch_float_array, batch_int, single_float
from madspace.random import uniform


def philox(counter, key):
    """Return the four words of Philox4x32-10 for arrays of counters (.., 4) and a key, in plain NumPy."""
    x, k = counter.astype(np.uint64).T.copy(), np.array(key, np.uint64)
    low = np.uint64(2**32 - 1)
    for _ in range(10):
        a, b = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = np.array([(b >> 32) ^ x[1] ^ k[0], b & low, (a >> 32) ^ x[3] ^ k[1], a & low])
        k = (k + np.array([0x9E3779B9, 0xBB67AE85], np.uint64)) & low
    return x.T


def reference(n, width, seed, offset=0):
    """Return uniform((n, width)) by its definition."""
    events = [(offset + e) % 2**64 for e in range(n)]
    counter = np.array([[e % 2**32, e >> 32, k, 0] for e in events for k in range((width + 1) // 2)], np.uint64)
    words = philox(counter.reshape(-1, 4), (seed % 2**32, seed >> 32))
    bits = (words[:, 0::2] << np.uint64(32) | words[:, 1::2]) >> np.uint64(11)
    return (bits.astype(np.float64) * 2.0**-53).reshape(n, 2 * ((width + 1) // 2))[:, :width]


def test_known_answers():
    """Vectors of the Random123 library."""
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0]
    ones = [2**32 - 1] * 6
    answers = {
        (0,) * 6: [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8],
        tuple(ones): [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
        tuple(pi): [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    }
    for words, answer in answers.items():
        assert philox(np.array([words[:4]]), words[4:])[0].tolist() == answer


@pytest.mark.parametrize("width", [1, 2, 5, 8, 2047, 2050, 4099])
@pytest.mark.parametrize(
    ("seed", "offset"), [(0, 0), (7, 3), (2**64 - 1, 2**32 - 5), (12345678901234567890, 2**64 - 9)]
)
def test_by_definition(where, width, seed, offset):
    got = uniform((21, width), seed=seed, offset=offset, device=where)
    assert (got.shape, got.dtype) == ((21, width), np.float64)
    np.testing.assert_array_equal(got.numpy(), reference(21, width, seed, offset))


@pytest.mark.parametrize("shape", [(), 0, 5, (0, 3), (3, 0), (4, 2, 3), (1000,)])
def test_shapes(where, shape):
    got = uniform(shape, seed=3, device=where).numpy()
    full = np.shape(np.empty(shape))
    assert got.shape == full
    n = full[0] if full else 1
    np.testing.assert_array_equal(got.ravel(), reference(n, got.size // max(n, 1), 3).ravel())


def test_any_partition(where):
    whole = uniform((100, 5), seed=9, device=where).numpy()
    parts = [uniform((n, 5), seed=9, offset=at, device=where).numpy() for at, n in [(0, 33), (33, 1), (34, 66)]]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_uniform_and_independent():
    x = uniform((200_000, 6), seed=11).numpy()
    assert 0.0 <= x.min() < x.max() < 1.0
    assert len(np.unique(x)) == x.size
    counts = np.array([np.histogram(column, 100, (0, 1))[0] for column in x.T])
    chi_2 = ((counts - 2000) ** 2 / 2000).sum(1)
    assert np.all(np.abs(chi_2 - 99) < 5 * np.sqrt(2 * 99))
    correlation = np.corrcoef(np.concatenate([x.T, x[1:].T[:, np.arange(-1, len(x) - 1)]]))
    assert np.all(np.abs(correlation - np.eye(12))[:6, :6] < 5 / np.sqrt(len(x)))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"seed": -1}, ValueError, r"seed: expected 0 to 2\*\*64 - 1, got -1"),
        ({"seed": 2**64}, ValueError, "seed: expected 0 to"),
        ({"seed": 1.5}, TypeError, "seed: expected an int, got float"),
        ({"seed": 1, "offset": -3}, ValueError, "offset: expected 0 to"),
        ({"seed": 1, "device": "tpu"}, ValueError, "device"),
        ({}, TypeError, "seed"),
    ],
)
def test_what_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        uniform(3, **options)


def moved():
    """Return a function that hands its arguments on: a number, three numbers, an integer, a shared number."""
    types = [batch_float, batch_float_array(3), batch_int, single_float]
    return function_of(types, lambda b, x, a, n, s: [x, a, n, b.add(x, s)])


@pytest.mark.parametrize("kernels", ["interpreted", pytest.param("compiled", marks=pytest.mark.needs("nvrtc"))])
@pytest.mark.parametrize("n", [1, 70])
def test_numbers_drawn_inside_are_those_in_memory(where, fuse, kernels, n):
    numbers = reference(n, 4, 5, 2**32 - 3)
    integers = madspace.asarray(np.arange(n, dtype=np.int32), device=where)
    for x, a, expected in [
        (None, None, (numbers[:, 0], numbers[:, 1:])),
        (madspace.asarray(np.full(n, 0.5), device=where), None, (np.full(n, 0.5), numbers[:, :3])),
        (None, madspace.asarray(np.full((n, 3), 0.5), device=where), (numbers[:, 0], np.full((n, 3), 0.5))),
    ]:
        runtime = fuse(moved(), None, [i for i, y in enumerate((x, a)) if y is None], kernels)
        results = runtime.call([x, a, integers, 1.0], seed=5, offset=2**32 - 3)
        for result, wanted in zip(results, (*expected, np.arange(n), expected[0] + 1), strict=True):
            np.testing.assert_array_equal(result.numpy(), wanted)


def test_the_number_of_events(where):
    runtime = FunctionRuntime(function_of([batch_float, batch_float], lambda b, x, y: [b.add(x, y)]))
    y = madspace.asarray(np.ones(1), device=where)
    (got,) = runtime.call([None, y], seed=4, n_events=10)
    np.testing.assert_array_equal(got.numpy(), 1 + reference(10, 1, 4)[:, 0])
    assert runtime.call([None, y], seed=4)[0].shape == (1,)
    with pytest.raises(madspace.ShapeError, match="x1: expected 10 events, as n_events has, got 3"):
        runtime.call([None, madspace.asarray(np.ones(3), device=where)], seed=4, n_events=10)


def test_what_cannot_be_drawn(where):
    integers = madspace.asarray(np.arange(3, dtype=np.int32), device=where)
    runtime = FunctionRuntime(moved())
    x = madspace.asarray(np.ones(3), device=where)
    with pytest.raises(TypeError, match="x2: expected an array, got None: only float64"):
        runtime.call([x, None, None, 1.0], seed=1)
    with pytest.raises(TypeError, match="x3: expected an array, got None: only float64"):
        runtime.call([x, None, integers, None], seed=1)
    with pytest.raises(TypeError):
        runtime.call([x, None, integers, 1.0])
    with pytest.raises(TypeError, match="seed: expected an int with offset or n_events, got None"):
        runtime.call([x, None, integers, 1.0], n_events=3)
    with pytest.raises(ValueError, match="n_events: expected 0 or more, got -1"):
        runtime.call([x, None, integers, 1.0], seed=1, n_events=-1)


def test_a_chain_with_its_own_random_numbers(where):
    n, function = 130, chain(3)
    randoms = uniform((n, 5), seed=21, offset=1000).numpy()
    conditions = [madspace.asarray(x[:1], device=where) for x in chain_arguments(3, 1)[5:]]
    drawn = FunctionRuntime(function).call([None] * 5 + conditions, seed=21, offset=1000, n_events=n)
    read = FunctionRuntime(function).call([madspace.asarray(r, device=where) for r in randoms.T.copy()] + conditions)
    for a, b in zip(drawn, read, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-7, atol=1e-7 * np.abs(b.numpy()).max())
