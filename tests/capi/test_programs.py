"""Programs of the C API: from Python and from bytes, on raw pointers in any layout."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
from capi_table import HEADER, refused, structure_of

import madspace
from madspace import (
    Function,
    FunctionBuilder,
    FunctionRuntime,
    NamedTypes,
    Program,
    batch_float,
    batch_four_vec,
    batch_int,
)
from madspace.phasespace.types import batch_float_array

Argument = structure_of(HEADER.read_text(), "ms_program_argument")
Array = structure_of(HEADER.read_text(), "ms_program_array")
ROOM = ctypes.byref(ctypes.c_void_p())
DATA = Path(__file__).resolve().parent.parent / "data" / "programs"


@pytest.fixture(scope="module")
def runtime():
    """Return a function of a momentum, a number and an int, compiled."""
    inputs = NamedTypes([("p", batch_four_vec), ("x", batch_float), ("i", batch_int)])
    outputs = NamedTypes([("pt", batch_float), ("y", batch_float), ("q", batch_four_vec)])
    builder = FunctionBuilder(inputs, outputs)
    p, x, _ = builder.input(0), builder.input(1), builder.input(2)
    builder.output(0, builder.obs_pt(p))
    builder.output(1, builder.sqrt(x))
    builder.output(2, p)
    return FunctionRuntime(builder.function())


@pytest.fixture
def program(api, runtime):
    """Return its handle."""
    handle = api.make("program_from_object", runtime)
    yield handle
    api.program_release(handle)


def array(x, element_axis=1):
    """Return ms_program_array for an array whose first axis are the events."""
    return Array(x.ctypes.data, x.strides[0], x.strides[element_axis] if x.ndim > 1 else 0)


def run(api, cpu, program, inputs, outputs, batch):
    """Run on NumPy arrays."""
    ins, outs = ((Array * len(arrays))(*map(array, arrays)) for arrays in (inputs, outputs))
    api.program_run(program, cpu, batch, ins, outs, None)


def inputs_of(n, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.random((n, 4)), rng.random(n), np.arange(n, dtype=np.int32)]


def outputs_of(n):
    return [np.full(n, np.nan), np.full(n, np.nan), np.full((n, 4), np.nan)]


def test_it_tells_its_arguments(api, program):
    n_inputs, n_outputs = ctypes.c_int(), ctypes.c_int()
    api.program_counts(program, ctypes.byref(n_inputs), ctypes.byref(n_outputs))
    assert (n_inputs.value, n_outputs.value) == (3, 3)
    told = []
    for is_output, n in ((0, 3), (1, 3)):
        for i in range(n):
            argument = Argument()
            api.program_describe(program, is_output, i, ctypes.byref(argument))
            shape = tuple(argument.shape[: argument.ndim])
            told.append((argument.name.decode(), argument.dtype, shape, argument.n_elements))
    f, i = api.MS_FLOAT64, api.MS_INT32
    assert told == [
        ("p", f, (4,), 4),
        ("x", f, (), 1),
        ("i", i, (), 1),
        ("pt", f, (), 1),
        ("y", f, (), 1),
        ("q", f, (4,), 4),
    ]
    for index in (-1, 3):
        refused("MS_ERROR_ARGUMENT", api.program_describe, program, 0, index, ctypes.byref(argument))


@pytest.mark.parametrize("n", [0, 1, 63, 64, 1000, 5000])
def test_the_same_numbers_as_from_python(api, cpu, runtime, program, n):
    inputs, outputs = inputs_of(n), outputs_of(n)
    wanted = runtime.arrays(inputs)
    run(api, cpu, program, inputs, outputs, n)
    for got, expected in zip(outputs, wanted, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_any_layout(api, cpu, runtime, program):
    n = 100
    inputs, outputs = inputs_of(n), outputs_of(n)
    wanted = runtime.arrays(inputs)
    apart = np.asfortranarray(inputs[0])  # components one behind the other
    spaced = np.zeros((n, 3))
    spaced[:, 1] = inputs[1]
    q = np.full((4, n), np.nan)
    run(api, cpu, program, [apart, spaced[:, 1], inputs[2]], [*outputs[:2], q.T], n)
    np.testing.assert_array_equal(outputs[0], wanted[0])
    np.testing.assert_array_equal(outputs[1], wanted[1])
    np.testing.assert_array_equal(q.T, wanted[2])


def test_one_event_for_all(api, cpu, runtime, program):
    n = 70
    inputs, outputs = inputs_of(n), outputs_of(n)
    wanted = runtime.arrays([inputs[0][:1], *inputs[1:]])
    ins = (Array * 3)(Array(inputs[0].ctypes.data, 0, 0), *map(array, inputs[1:]))
    api.program_run(program, cpu, n, ins, (Array * 3)(*map(array, outputs)), None)
    for got, expected in zip(outputs[:2], wanted[:2], strict=True):
        np.testing.assert_array_equal(got, np.broadcast_to(expected, got.shape))


@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("*_*.json")))
def test_bytes_hold_the_whole_program(api, cpu, name):
    runtime = FunctionRuntime(Function.load(str(DATA / f"{name}.json")))
    for program in runtime.programs:
        data = program.to_bytes()
        again = Program.from_bytes(data)
        assert again.describe() == program.describe()
        assert again.constants.tobytes() == program.constants.tobytes()
        assert again.to_bytes() == data
        handle = api.make("program_from_bytes", data, len(data))
        api.program_release(handle)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"format":"madspace program","version":2}',
        b'{"format":"madspace program","version":1}',
        b'{"format":"madspace program","version":1,"constants":[1],"n_registers":1,"inputs":[],"outputs":[]}',
    ],
)
def test_bytes_that_are_no_program(api, data):
    with pytest.raises(ValueError, match="data: expected"):
        Program.from_bytes(data)
    assert "data: expected" in refused("MS_ERROR_ARGUMENT", api.program_from_bytes, data, len(data), ROOM)


def test_damaged_programs_are_refused(api, runtime):
    text = runtime.programs[0].to_bytes().decode()
    assert "register" in refused_bytes(
        api, text.replace('"steps":[', '"steps":[["sqrt",[900],[901]],'), "MS_ERROR_ARGUMENT"
    )
    refused_bytes(api, text.replace('"steps":[', '"steps":[["no such op",[0],[1]],'), "MS_ERROR_UNSUPPORTED")
    refused_bytes(api, text.replace('"n_registers":', '"n_registers":-'), "MS_ERROR_ARGUMENT")
    refused_bytes(api, text.replace('"n_registers":', '"n_registers":9999'), "MS_ERROR_ARGUMENT")
    refused_bytes(api, text.replace('"registers":[', '"registers":[-7,'), "MS_ERROR_ARGUMENT")
    for n in range(0, len(text), 37):
        refused_bytes(api, text[:n], "MS_ERROR_ARGUMENT")


def refused_bytes(api, text, name):
    data = text.encode()
    return refused(name, api.program_from_bytes, data, len(data), ROOM)


def test_arrays_are_checked(api, cpu, program):
    n = 10
    inputs, outputs = inputs_of(n), outputs_of(n)
    ins, outs = (Array * 3)(*map(array, inputs)), (Array * 3)(*map(array, outputs))
    assert "batch" in refused("MS_ERROR_ARGUMENT", api.program_run, program, cpu, -1, ins, outs, None)
    assert "inputs" in refused("MS_ERROR_ARGUMENT", api.program_run, program, cpu, n, None, outs, None)
    for is_output, i, field, value, told in (
        (0, 1, "data", None, "inputs[1].data"),
        (0, 1, "data", inputs[0].ctypes.data + 4, "inputs[1]"),
        (0, 1, "event_stride", 12, "inputs[1]"),
        (1, 2, "element_stride", 3, "outputs[2]"),
        (1, 2, "event_stride", 0, "outputs[2].event_stride"),
    ):
        ins, outs = (Array * 3)(*map(array, inputs)), (Array * 3)(*map(array, outputs))
        setattr((ins, outs)[is_output][i], field, value)
        assert told in refused("MS_ERROR_ARGUMENT", api.program_run, program, cpu, n, ins, outs, None)
    assert np.isnan(outputs[0]).all()


def test_what_is_no_program(api, runtime):
    refused("MS_ERROR_ARGUMENT", api.program_from_object, 3, ROOM)
    builder = FunctionBuilder(
        NamedTypes([("x", batch_float)]), NamedTypes([("a", batch_float), ("b", madspace.single_float)])
    )
    builder.output(0, builder.input(0))
    builder.output(1, 2.0)
    shared = FunctionRuntime(builder.function())
    assert len(shared.programs) == 2
    assert "one of its programs" in refused("MS_ERROR_ARGUMENT", api.program_from_object, shared, ROOM)
    for program in shared.programs:
        api.program_release(api.make("program_from_object", program))


def test_many_arrays(api, cpu):
    n = 70
    builder = FunctionBuilder(
        NamedTypes([(f"x{i}", batch_float) for i in range(n)]), NamedTypes([("y", batch_float_array(n))])
    )
    builder.output(0, builder.stack([builder.input(i) for i in range(n)]))
    runtime = FunctionRuntime(builder.function())
    inputs = [np.full(5, float(i)) for i in range(n)]
    handle = api.make("program_from_object", runtime)
    out = np.full((5, n), np.nan)
    run(api, cpu, handle, inputs, [out], 5)
    np.testing.assert_array_equal(out, runtime.arrays(inputs)[0])
    api.program_release(handle)
