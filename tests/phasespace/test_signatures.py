"""Types of results, and what is said about arguments that do not fit."""

import pytest

import madspace
from madspace import FunctionBuilder, NamedTypes, Type
from madspace.phasespace.opcodes import Group, catalogue

BATCH, ONE = madspace.batch_size, madspace.BatchSize.one
F, N, V = madspace.batch_float, madspace.batch_int, madspace.batch_four_vec


def floats(*shape, size=BATCH):
    return Type(madspace.float, size, shape)


def ints(*shape, size=BATCH):
    return Type(madspace.int, size, shape)


def call(name, *arguments, variadic=False):
    """Return the types of an instruction's results; arguments are types or constants."""
    types = [x for x in arguments if isinstance(x, Type)]
    builder = FunctionBuilder(NamedTypes([(f"x{i}", type) for i, type in enumerate(types)]), NamedTypes())
    inputs = iter(builder.input_range(0, len(types)))
    values = [next(inputs) if isinstance(x, Type) else x for x in arguments]
    result = getattr(builder, name)(values) if variadic else getattr(builder, name)(*values)
    return [str(x.type) for x in (result if isinstance(result, list) else [result])]


@pytest.mark.parametrize(
    ("name", "arguments", "types"),
    [
        ("add", [floats(3, 4), floats(3, 4)], ["float[batch_size, 3, 4]"]),
        ("add", [floats(3, size=ONE), floats(3)], ["float[batch_size, 3]"]),
        ("obs_pt", [V], ["float[batch_size]"]),
        ("obs_mass", [floats(2, 3, 4)], ["float[batch_size, 2, 3]"]),
        ("reduce_sum", [floats(3, 4)], ["float[batch_size, 3]"]),
        ("reduce_sum_vector", [floats(3, 2)], ["float[batch_size, 2]"]),
        ("two_body_decay_com", [madspace.single_float] * 5, ["float[1, 4]", "float[1, 4]", "float[1]"]),
        ("fast_rambo_massless_com", [floats(8), F], ["float[batch_size, 4, 4]", "float[batch_size]"]),
        (
            "fast_rambo_massive_inverse",
            [floats(3, 4), F, floats(3)],
            ["float[batch_size, 5]", "float[batch_size, 4]", "float[batch_size]"],
        ),
        (
            "chili_forward",
            [floats(7), F, floats(3), floats(3), floats(3)],
            ["float[batch_size, 5, 4]", "float[batch_size]"],
        ),
        ("pt_eta_phi_x", [floats(5, 4), F, F], ["float[batch_size, 11]"]),
        ("invariants_from_momenta", [floats(4, 4), [[1.0, -1.0, 0.0, 0.0]]], ["float[batch_size, 1]"]),
        ("permute_momenta", [floats(4, 4), ints(6, 4, size=ONE), N], ["float[batch_size, 4, 4]"]),
        ("gather_vector", [N, floats(3, 2)], ["float[batch_size, 2]"]),
        ("select_vector", [floats(5, 4), [1, 2]], ["float[batch_size, 2, 4]"]),
        ("one_hot", [N, 4], ["float[batch_size, 4]"]),
        ("compress_channel_weights", [N, floats(5), 3], ["float[batch_size, 3]", "int[batch_size, 3]"]),
        ("unstack", [ints(2)], ["int[batch_size]"] * 2),
        ("pop", [floats(3, 4)], ["float[batch_size, 2, 4]", "float[batch_size, 4]"]),
        ("squeeze", [floats(1, 2)], ["float[batch_size, 2]"]),
        ("unsqueeze", [N], ["int[batch_size, 1]"]),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_types_of_results(name, arguments, types):
    assert call(name, *arguments) == types


@pytest.mark.parametrize(
    ("name", "arguments", "types"),
    [
        ("stack", [V, V, V], ["float[batch_size, 3, 4]"]),
        ("stack", [F, 2.0], ["float[batch_size, 2]"]),
        ("stack", [1, 2], ["int[1, 2]"]),
        ("cat", [floats(2, 4), floats(1, 4)], ["float[batch_size, 3, 4]"]),
        ("batch_size", [F, V], ["{batch_size}"]),
    ],
)
def test_types_of_results_of_lists(name, arguments, types):
    assert call(name, *arguments, variadic=True) == types


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        ("add", [N, F], madspace.DTypeError, "add, argument 1: expected dtype float, got int"),
        ("add", [F, 0], madspace.DTypeError, "add, argument 2: expected dtype float, got int"),
        ("add", [F, V], madspace.ShapeError, "add, argument 2: expected dimension 0, got 1"),
        ("add", [floats(3), V], madspace.ShapeError, "add, argument 2, dimension 0: expected size 3, got 4"),
        ("obs_pt", [floats(3)], madspace.ShapeError, "obs_pt, argument 1, dimension 0: expected size 4, got 3"),
        ("obs_pt", [F], madspace.ShapeError, "obs_pt, argument 1: expected dimension of at least 1, got 0"),
        ("two_body_decay_com", [F, F, V, F, F], madspace.ShapeError, "argument 3: expected dimension 0, got 1"),
        ("fast_rambo_massless_com", [floats(7), F], madspace.ShapeError, "expected size 3n-4 for some n, got 7"),
        (
            "boost_beam",
            [floats(3, 4), floats(2), F, F],
            madspace.ShapeError,
            "argument 2, dimension 0: expected size 3",
        ),
        (
            "permute_momenta",
            [floats(3, 4), ints(6, 3), N],
            madspace.ShapeError,
            "argument 2: cannot have batch dimension",
        ),
        ("one_hot", [N, N], madspace.ShapeError, "one_hot, argument 2: expected integer constant"),
        ("one_hot", [N, 0], madspace.ShapeError, "one_hot, argument 2: expected integer constant"),
        ("squeeze", [floats(2)], madspace.ShapeError, "squeeze, argument 1, dimension 0: expected size 1, got 2"),
        ("unstack", [F], madspace.ShapeError, "unstack, argument 1: expected dimension of at least 1, got 0"),
        ("pop", [ints(3)], madspace.DTypeError, "pop, argument 1: expected dtype float, got int"),
        (
            "add",
            [F, Type(madspace.float, madspace.BatchSize("other"), [])],
            madspace.ShapeError,
            "add, argument 2: expected batch size batch_size, got other",
        ),
    ],
    ids=lambda x: x if isinstance(x, str) and " " not in x else "",
)
def test_arguments_that_do_not_fit(name, arguments, error, message):
    with pytest.raises(error, match=message):
        call(name, *arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("stack", [], "stack: expected at least 1 arguments, got 0"),
        ("stack", [F, V], "stack: all arguments must have the same shape and dtype"),
        ("stack", [F, N], "stack: all arguments must have the same shape and dtype"),
        ("cat", [F, F], "cat, argument 1: arguments must be at least 1-dimensional"),
        ("full", [2.0], "full: expected at least 2 arguments, got 1"),
        ("full", [2.0, 4], "full, argument 2: must be single batch size"),
        ("full", [F, F], "full, argument 1: expected constant"),
    ],
)
def test_lists_that_do_not_fit(name, arguments, message):
    with pytest.raises(madspace.ShapeError, match=message):
        call(name, *arguments, variadic=True)


@pytest.mark.parametrize("name", [n for n, x in catalogue().items() if x.inputs and "*" not in x.inputs])
def test_every_signature_can_be_met(name):
    """Arguments made from the notation itself are accepted, with 5 for every letter."""
    opcode = catalogue()[name]
    assert opcode.group is not Group.REFUSED
    assert len(opcode.inputs) == len(opcode.arguments)

    def type_of(text):
        size = ONE if text.endswith("1") else BATCH
        axes = text[2 : text.index("]")].split(",") if "[" in text else []
        axes = [axis for axis in axes if axis != "..."]
        extents = [int(x) if x.isdigit() else {"3n-4": 11, "3n-2": 13, "n+2": 7}.get(x, 5) for x in axes]
        return Type(madspace.int if text[0] == "i" else madspace.float, size, extents)

    types = call(name, *(5 if text.startswith("#") else type_of(text) for text in opcode.inputs))
    wanted = [str(type_of(text)) for text in opcode.outputs]
    sized = all(text.startswith("#") or text.endswith("1") for text in opcode.inputs)
    assert sized or types == wanted
