"""NumPy to a GPU and back in one call: the numbers of arrays on the device, for any chunks and any kind of array."""

import threading

import numpy as np
import pytest
from host_points import ROW, host_inputs, pinned, put
from program_points import function_of

import madspace
from madspace import FunctionRuntime, PinnedBuffer, TPropagatorMapping
from madspace.phasespace import host_chunks

TYPES = [madspace.batch_float, madspace.batch_four_vec, madspace.batch_int, madspace.single_float]


@pytest.fixture(autouse=True)
def _kernels(device, fused_kernels, program_kernels):
    """Run on device 0."""


@pytest.fixture
def cut(monkeypatch):
    """Return a function that sets the bytes of a chunk."""
    return lambda nbytes: monkeypatch.setattr(host_chunks, "CHUNK_BYTES", nbytes)


@pytest.fixture
def mapping():
    return TPropagatorMapping([1, 0], 0.8)


def check(results, expected):
    """Check that host arrays have the bits of arrays on the device."""
    for result, reference in zip(results, expected, strict=True):
        assert type(result) is np.ndarray
        assert (result.shape, result.dtype) == (reference.shape, reference.dtype)
        assert result.tobytes() == reference.numpy().tobytes()


def function():
    return function_of(
        TYPES, lambda b, x, p, n, s: [b.mul(x, s), b.add(p, p), b.add_int(n, 1), b.square(s), b.stack([1, 2])]
    )


def batch(n, seed=5):
    rng = np.random.default_rng(seed)
    return [rng.random(n), rng.random((n, 4)), rng.integers(-9, 9, n, dtype=np.int32), np.array(2.0)]


@pytest.mark.parametrize("nbytes", [1, 10_000, 12_345, 1 << 25], ids=["events", "some", "odd", "one"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 199])
def test_the_numbers_of_the_device(mapping, cut, n, nbytes):
    inputs = host_inputs(n)
    expected = mapping.map_forward(put(inputs))
    cut(nbytes)
    result = mapping.map_forward(inputs, device="cuda")
    check(result, expected)
    *momenta, _ = result
    back = mapping.map_inverse(momenta, inputs[5:], device="cuda")
    check(back, mapping.map_inverse(put(momenta), put(inputs[5:])))


@pytest.mark.parametrize("nbytes", [1, 3000, 1 << 25])
@pytest.mark.parametrize("n", [0, 1, 70])
def test_functions_of_any_types(cut, n, nbytes):
    """Results that all events share among them, with and without events."""
    arrays = batch(n)
    runtime = FunctionRuntime(function())
    expected = runtime.call(put(arrays))
    cut(nbytes)
    check(runtime.arrays(arrays, device="cuda"), expected)
    check([x.numpy() for x in runtime.call([*arrays[:3], 2.0], device=0)], expected)


@pytest.mark.parametrize("first", [0, 11, 2**64 - 30])
def test_random_numbers_of_any_partition(mapping, cut, first):
    masses = host_inputs(1)[5:]
    expected = mapping.map_forward([None] * 5, put(masses), seed=7, offset=first, n_events=100)
    for nbytes in (1, 5000, 1 << 25):
        cut(nbytes)
        given = {"seed": 7, "offset": first, "n_events": 100, "device": "cuda:0"}
        check(mapping.map_forward(conditions=masses, **given), expected)
    some = [x if i % 2 else None for i, x in enumerate(host_inputs(100)[:5])]
    check(
        mapping.map_forward(some, masses, seed=7, device="cuda"),
        mapping.map_forward(put(some), put(masses), seed=7),
    )


def test_random_numbers_alone(cut):
    draw = function_of([madspace.batch_float] * 2, lambda b, x, y: [b.mul(x, y)])
    x, y = madspace.random.uniform((100, 2), seed=3, offset=4).numpy().T
    for nbytes in (1, 500, 1 << 25):
        cut(nbytes)
        result = draw(None, None, seed=3, offset=4, n_events=100, device="cuda")
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result, x * y)


def test_any_strides_and_places(mapping, cut):
    inputs = host_inputs(100)
    expected = mapping.map_forward(put([*inputs[:5], *(x[:1] for x in inputs[5:])]))
    table = np.array(inputs).T.copy()
    odd = np.empty(801, np.uint8)[1:].view(np.float64)
    odd[:] = inputs[2]
    assert not odd.flags.aligned
    readonly = inputs[4].copy()
    readonly.flags.writeable = False
    masses = [np.broadcast_to(500.0, 100), inputs[6][:1], pinned(inputs[7][:1]), np.zeros(1)]
    arrays = [table[:, 0], inputs[1][::-1].copy()[::-1], odd, np.repeat(inputs[3], 3)[::3], readonly, *masses]
    for nbytes in (1, 7000, 1 << 25):
        cut(nbytes)
        check(mapping.map_forward(arrays, device="cuda"), expected)
    momentum = np.asfortranarray(batch(50)[1])
    for array in (momentum, momentum[::-1], pinned(momentum)[:, ::-1][:, ::-1]):
        result = FunctionRuntime(function()).arrays([np.ones(50), array, np.ones(50, np.int32), 1.0], device="cuda")
        np.testing.assert_array_equal(result[1], 2 * array)


@pytest.mark.parametrize("nbytes", [1, 5000, 1 << 25])
def test_results_into_given_arrays(mapping, cut, nbytes):
    inputs = host_inputs(100)
    expected = mapping.map_forward(put(inputs))
    cut(nbytes)
    table = np.full((100, 7), -77.0)
    out = [np.full((100, 4), np.nan), None, table[::-1, 1:5], None, pinned(np.full((100, 4), np.nan)), np.zeros(100)]
    result = mapping.map_forward(inputs, out=out, device="cuda")
    for given, found in zip(out, result, strict=True):
        assert given is None or found is given
    check(result, expected)
    assert (np.delete(table, range(1, 5), axis=1) == -77.0).all()


@pytest.mark.parametrize("device", [None, "cuda"])
def test_results_side_by_side_in_one_table(mapping, device):
    inputs = host_inputs(100)
    expected = mapping.map_forward(inputs)
    table = np.full((100, 24), -77.0)
    out = [*(table[:, 4 * i : 4 * i + 4] for i in (3, 0, 1, 4, 2)), table[:, 20]]
    arguments = [*inputs[:8], table[:, 22]]
    table[:, 22] = inputs[8]
    mapping.map_forward(arguments, out=out, device=device)
    for found, x in zip(out, expected, strict=True):
        np.testing.assert_allclose(found, x, rtol=1e-12, atol=1e-9)
    assert (table[:, [21, 23]] == -77.0).all()
    with pytest.raises(ValueError, match="shared with out"):
        mapping.map_forward(inputs, out=[table[:, :4], table[:, 3:7], *[None] * 4], device=device)


@pytest.mark.parametrize("nbytes", [3000, 1 << 25])
def test_page_locked_arrays(mapping, cut, nbytes):
    inputs = host_inputs(100)
    expected = mapping.map_forward(put(inputs))
    cut(nbytes)
    arrays = [pinned(x) for x in inputs]
    check(mapping.map_forward(arrays, device="cuda"), expected)
    out = [pinned(np.full(x.shape, np.nan)) for x in expected]
    for given in (arrays, inputs, [*arrays[:4], *inputs[4:]]):
        for x in out:
            x.fill(np.nan)
        check(mapping.map_forward(given, out=out, device="cuda"), expected)
    whole = PinnedBuffer(100 * ROW).numpy("f8")  # arguments and results in one block
    ends = np.cumsum([100] * 9 + [400] * 5 + [100])
    parts = np.split(whole, ends[:-1])
    for part, x in zip(parts[:9], inputs, strict=True):
        part[:] = x
    out = [*(x.reshape(100, 4) for x in parts[9:14]), parts[14]]
    check(mapping.map_forward(parts[:9], out=out, device="cuda"), expected)


def test_comes_behind_what_is_queued_on_its_stream(device, delay, mapping, stream, cut):
    """A page-locked argument that arrives late on the call's stream."""
    inputs = host_inputs(100)
    expected = mapping.map_forward(put(inputs))
    memory = PinnedBuffer(800)
    memory.numpy("f8")[:] = 0.5
    source = device.pool.allocate(800, stream=stream)
    source.copy_from_host(inputs[0], stream=stream)
    device.synchronize()
    cut(3000)
    delay(stream)
    memory.copy_from(source, stream=stream)
    check(mapping.map_forward([memory.numpy("f8"), *inputs[1:]], device="cuda", stream=stream), expected)
    with madspace.stream(stream):
        check(mapping.map_forward(inputs, device="cuda"), expected)


def test_tensors_on_the_host_come_back_as_tensors(mapping):
    inputs = [madspace.asarray(x) for x in host_inputs(10)]
    result = mapping.map_forward(inputs, device="cuda")
    assert all(type(x) is madspace.Tensor and x.device == "cpu" for x in result)
    check([x.numpy() for x in result], mapping.map_forward(put(inputs)))


def test_the_cpu_stays_the_cpu(mapping):
    inputs = host_inputs(10)
    for result, reference in zip(mapping.map_forward(inputs, device="cpu"), mapping.map_forward(inputs), strict=True):
        np.testing.assert_array_equal(result, reference)
    for call in (
        mapping.map_forward,
        lambda x, device: FunctionRuntime(mapping.forward_function()).call(x, device=device),
    ):
        with pytest.raises(madspace.DeviceMismatchError, match="random0: expected an array on the CPU, got one on"):
            call(put(inputs), device="cpu")


def test_what_is_refused(mapping):
    inputs = host_inputs(10)
    same, rows = np.zeros((10, 4)), np.lib.stride_tricks.as_strided(np.zeros(40), (10, 4), (8, 8))
    cases = [
        (inputs[:5], {}, madspace.ShapeError, "inputs: expected 9 arrays"),
        ([inputs[0][:7], *inputs[1:]], {}, madspace.ShapeError, "random1: expected 7 events, as random0 has, got 10"),
        ([inputs[0].astype(">f8"), *inputs[1:]], {}, madspace.DTypeError, "random0: expected dtype float64, got >f8"),
        (put(inputs), {}, madspace.DeviceMismatchError, "random0: expected an array on the CPU, got one on"),
        (inputs, {"out": [None] * 5}, madspace.ShapeError, "out: expected 6 entries"),
        (inputs, {"out": [*[None] * 5, inputs[0]]}, ValueError, r"out\[5\] \(det\): .* shared with random0"),
        (inputs, {"out": [same, same, *[None] * 4]}, ValueError, r"shared with out\[0\] \(momentum0\)"),
        (inputs, {"out": [rows, *[None] * 5]}, madspace.ShapeError, "momentum0.: .* do not overlap, got strides"),
        (inputs, {"out": 5}, TypeError, "out: expected a sequence of arrays, got int"),
        (5, {}, TypeError, "inputs: expected a sequence of arrays, got int"),
        ([None, *inputs[1:]], {}, TypeError, "random0: expected an array, got NoneType"),
        (inputs, {"out": put([*[None] * 5, inputs[0]])}, madspace.DeviceMismatchError, r"out\[5\] \(det\): expected"),
        (inputs, {"stream": "fast"}, TypeError, "stream"),
        (inputs, {"device": "gpu"}, ValueError, "device"),
    ]
    for arrays, options, error, message in cases:
        with pytest.raises(error, match=message):
            mapping.map_forward(arrays, **{"device": "cuda"} | options)
    with pytest.raises(ValueError, match="stream: expected None for arrays on the CPU"):
        mapping.map_forward(inputs, device="cpu", stream=1)


def test_a_captured_stream_is_refused(mapping, stream):
    with madspace.capture(stream) as graph, pytest.raises(madspace.CaptureError, match="being captured"):
        mapping.map_forward(host_inputs(10), device="cuda", stream=stream)
    assert graph.node_counts() == {}


def test_threads_at_the_same_time(cut):
    cut(2000)
    runtime = FunctionRuntime(function())
    batches = [batch(60 + i, seed=i) for i in range(4)]
    expected = [runtime.call(put(x)) for x in batches]
    found = [[] for _ in batches]

    def work(i):
        for _ in range(5):
            found[i].append(runtime.arrays(batches[i], device="cuda"))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for results, reference in zip(found, expected, strict=True):
        assert len(results) == 5
        for result in results:
            check(result, reference)


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1_000_003])
def test_a_large_batch(mapping, n):
    inputs = host_inputs(n)
    check(mapping.map_forward(inputs, device="cuda"), mapping.map_forward(put(inputs)))
    check(
        mapping.map_forward(conditions=inputs[5:], seed=1, device="cuda"),
        mapping.map_forward(conditions=put(inputs[5:]), seed=1),
    )


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_globals_are_where_the_context_has_them(device, where):
    scaled = function_of([madspace.batch_float], lambda b, x: [b.mul(x, b.get_global("scale", madspace.float, []))])
    context = madspace.Context(where)
    context.define_global("scale", madspace.float, []).fill(2.5)
    runtime = madspace.FunctionRuntime(scaled, context)
    x = np.arange(7.0)
    if where == "cpu":
        with pytest.raises(madspace.DeviceMismatchError, match="scale: expected a CUDA tensor on cuda:0"):
            runtime.call([x], device="cuda")
    else:
        np.testing.assert_array_equal(runtime.call([x], device="cuda")[0].numpy(), 2.5 * x)
