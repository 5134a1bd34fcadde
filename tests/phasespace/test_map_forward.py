"""map_forward as a call: arguments, outputs, errors, launches."""

import numpy as np
import pytest
from chain_points import randoms

import madspace
from madspace import DeviceMismatchError, DTypeError, ShapeError, TPropagatorMapping

NAMES = [*(f"random{i}" for i in range(5)), "com_energy", "mass0", "mass1", "mass2"]
SHAPES = [(4,)] * 5 + [()]


def host_inputs(n=100, seed=3):
    return [*randoms(3, n, seed), np.full(n, 500.0), np.full(n, 173.0), np.full(n, 100.0), np.zeros(n)]


@pytest.fixture
def mapping():
    return TPropagatorMapping([0, 1], 0.8)


@pytest.fixture
def inputs(place):
    return [place.put(x) for x in host_inputs()]


def expected(n=100, seed=3):
    return [np.array(x) for x in TPropagatorMapping([0, 1], 0.8).map_forward(host_inputs(n, seed))]


def assert_equal(place, result, reference):
    """CPU results are the same bits; a GPU contracts other products."""
    for x, y in zip(place.get(list(result)), reference, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=0 if place.name == "cpu" else 1e-12 * 500)


def outputs(place, n=100):
    return [place.empty((n, *shape)) for shape in SHAPES]


def test_lists_and_names_give_the_same(place, mapping, inputs):
    reference = expected()
    assert_equal(place, mapping.map_forward(inputs), reference)
    assert_equal(place, mapping.map_forward(inputs[:5], inputs[5:]), reference)
    assert_equal(place, mapping.map_forward(tuple(inputs), conditions=[]), reference)
    assert_equal(place, mapping.map_forward(**dict(zip(NAMES, inputs, strict=True))), reference)


def test_result_has_the_kind_of_the_inputs(place, mapping, inputs):
    result = mapping.map_forward(inputs)
    kind = np.ndarray if place.name == "cpu" else madspace.Tensor
    assert all(type(x) is kind for x in result)
    assert [tuple(x.shape) for x in result] == [(100, *shape) for shape in SHAPES]


def test_out_is_filled_and_returned(place, mapping, inputs):
    out = outputs(place)
    result = mapping.map_forward(inputs, out=out)
    assert all(x is y for x, y in zip(result, out, strict=True))
    assert_equal(place, out, expected())


def test_out_may_leave_entries_to_be_made(place, mapping, inputs):
    out = outputs(place)
    out[2] = out[5] = None
    result = mapping.map_forward(inputs, out=out)
    assert result[0] is out[0]
    assert result[2] is not None
    assert_equal(place, result, expected())


@pytest.mark.parametrize("n", [1, 33, 100])
def test_out_may_be_columns_of_a_table(place, mapping, n):
    inputs = [place.put(x) for x in host_inputs(n)]
    table = place.empty((n, 6, 4), fill=-7.0)
    result = mapping.map_forward(inputs, out=[*(table[:, i] for i in range(5)), None])
    reference = expected(n)
    filled = place.get(table)
    assert_equal(place, result, reference)
    for i in range(5):
        np.testing.assert_allclose(filled[:, i], reference[i], rtol=1e-11, atol=1e-12 * 500)
    np.testing.assert_array_equal(filled[:, 5], -7.0)


def test_strided_inputs_are_read_in_place(place, mapping):
    table = place.put(np.stack(host_inputs(), axis=1))
    assert_equal(place, mapping.map_forward([table[:, i] for i in range(9)]), expected())


def test_length_one_stands_for_every_event(place, mapping, inputs):
    short = inputs[:5] + [place.put(np.array([x])) for x in (500.0, 173.0, 100.0, 0.0)]
    assert_equal(place, mapping.map_forward(short), expected())


def test_only_length_one_is_a_batch_of_one(place, mapping):
    result = mapping.map_forward([place.put(x[:1]) for x in host_inputs()])
    assert_equal(place, result, [x[:1] for x in expected()])


@pytest.mark.parametrize("with_out", [False, True])
def test_empty_batch(place, mapping, with_out):
    inputs = [place.put(np.empty(0)) for _ in range(9)]
    out = [place.put(np.empty((0, *shape))) for shape in SHAPES] if with_out else None
    result = mapping.map_forward(inputs, out=out)
    assert [tuple(x.shape) for x in result] == [(0, *shape) for shape in SHAPES]


def test_read_only_inputs_are_fine(mapping):
    inputs = host_inputs()
    for x in inputs:
        x.setflags(write=False)
    mapping.map_forward(inputs)


def replaced(arrays, position, value):
    return [value if i == position else x for i, x in enumerate(arrays)]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda place, x: x[:8], ShapeError, r"inputs: expected 9 arrays .*got 8"),
        (lambda place, x: [*x, x[0]], ShapeError, r"inputs: expected 9 arrays .*got 10"),
        (lambda place, x: [], ShapeError, r"inputs: expected 9 arrays .*got 0"),
        (lambda place, x: replaced(x, 2, x[2][:7]), ShapeError, r"random2: .* \(100,\) or \(1,\), got \(7,\)"),
        (lambda place, x: replaced(x, 5, place.empty((100, 1))), ShapeError, r"com_energy: .*\(100, 1\)"),
        (lambda place, x: replaced(x, 5, place.empty(())), ShapeError, r"com_energy: .*got \(\)"),
        (lambda place, x: replaced(x, 8, 0.0), TypeError, "mass2"),
        (lambda place, x: replaced(x, 8, None), TypeError, "mass2"),
        (lambda place, x: replaced(x, 8, [0.0] * 100), TypeError, "mass2"),
    ],
    ids=["one short", "one more", "none", "other length", "rank 2", "rank 0", "scalar", "None", "list"],
)
def test_bad_inputs_are_refused(place, mapping, inputs, change, error, message):
    with pytest.raises(error, match=message):
        mapping.map_forward(change(place, inputs))


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "complex128", "bool"])
def test_other_dtypes_are_refused(place, mapping, inputs, dtype):
    array = np.zeros(100, dtype=dtype)
    if place.name != "cpu":
        array = madspace.asarray(array, device="cuda")
    with pytest.raises(DTypeError, match="mass1: expected dtype float64, got"):
        mapping.map_forward(replaced(inputs, 7, array))
    out = outputs(place)
    out[5] = array
    with pytest.raises(DTypeError, match=r"out\[5\] \(det\): expected dtype float64, got"):
        mapping.map_forward(inputs, out=out)


@pytest.mark.parametrize("offset", [None, "", [], 1])
def test_an_offset_needs_a_seed(mapping, offset):
    with pytest.raises(TypeError, match="seed: expected an int with offset or n_events"):
        mapping.map_forward(host_inputs(), offset=offset)


def test_names_must_fit(mapping):
    named = dict(zip(NAMES, host_inputs(), strict=True))
    with pytest.raises(TypeError, match="got both"):
        mapping.map_forward(host_inputs(), **named)
    del named["mass1"]
    with pytest.raises(TypeError, match="expected the names"):
        mapping.map_forward(**named)


def test_devices_must_agree(gpu_place, mapping):
    host = host_inputs()
    moved = [gpu_place.put(x) for x in host]
    with pytest.raises(DeviceMismatchError, match=r"mass2: .*cuda:0.*the CPU"):
        mapping.map_forward(replaced(moved, 8, host[8]))
    with pytest.raises(DeviceMismatchError, match=r"mass2: .*the CPU.*cuda:0"):
        mapping.map_forward(replaced(host, 8, moved[8]))
    with pytest.raises(DeviceMismatchError, match=r"out\[0\]"):
        mapping.map_forward(moved, out=[np.empty((100, 4)), None, None, None, None, None])


def misaligned(place):
    if place.name == "cpu":
        raw = np.empty(100 * 32 + 4, dtype=np.uint8)
        return raw[4:].view(np.float64).reshape(100, 4)
    return place.empty((100, 5))[:, 1:]


@pytest.mark.parametrize(
    ("position", "make", "error", "message"),
    [
        (0, lambda place: place.empty((99, 4)), ShapeError, r"expected shape \(100, 4\), got \(99, 4\)"),
        (0, lambda place: place.empty((100, 5)), ShapeError, r"expected shape \(100, 4\)"),
        (5, lambda place: place.empty((100, 1)), ShapeError, r"det\): expected shape \(100,\)"),
        (1, lambda place: place.empty((100, 8))[:, ::2], ShapeError, "contiguous"),
        (1, misaligned, ShapeError, "aligned"),
        (1, lambda place: 3, TypeError, r"out\[1\]"),
    ],
    ids=["short", "wide", "rank", "gaps in a row", "misaligned", "no array"],
)
def test_bad_outputs_are_refused(place, mapping, inputs, position, make, error, message):
    out = replaced(outputs(place), position, make(place))
    with pytest.raises(error, match=message):
        mapping.map_forward(inputs, out=out)
    assert np.isnan(place.get(out[2])).all(), "a refused call must not have run"


def test_wrong_number_of_outputs(place, mapping, inputs):
    with pytest.raises(ShapeError, match=r"out: expected 6 entries .*got 5"):
        mapping.map_forward(inputs, out=outputs(place)[:5])


def test_read_only_output_is_refused(mapping):
    out = [np.empty((100, *shape)) for shape in SHAPES]
    out[3].setflags(write=False)
    with pytest.raises(ValueError, match=r"out\[3\] \(momentum3\): expected a writable array"):
        mapping.map_forward(host_inputs(), out=out)


def test_rows_must_not_run_backwards(mapping):
    out = [np.empty((100, *shape)) for shape in SHAPES]
    out[0] = out[0][::-1]
    with pytest.raises(ShapeError, match="do not overlap"):
        mapping.map_forward(host_inputs(), out=out)


def test_aliasing_is_refused(place, mapping, inputs):
    out = outputs(place)
    with pytest.raises(ValueError, match=r"out\[1\].*shared with out\[0\]"):
        mapping.map_forward(inputs, out=[out[0], out[0], *out[2:]])
    with pytest.raises(ValueError, match=r"out\[5\].*shared with com_energy"):
        mapping.map_forward(inputs, out=[*out[:5], inputs[5]])
    table = place.empty((100, 6))
    with pytest.raises(ValueError, match=r"out\[1\].*shared with out\[0\]"):
        mapping.map_forward(inputs, out=[table[:, :4], table[:, 2:], *out[2:]])


def test_stream_is_refused_on_the_cpu(mapping):
    with pytest.raises(ValueError, match="stream: expected None for arrays on the CPU"):
        mapping.map_forward(host_inputs(), stream=0)
