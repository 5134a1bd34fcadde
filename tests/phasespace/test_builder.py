"""FunctionBuilder: what it records, leaves out and folds, and how its functions print."""

import inspect

import pytest
from program_points import FOLDER, function_of, names_of

import madspace
from madspace import (
    FunctionBuilder,
    FunctionRuntime,
    NamedTypes,
    Value,
    batch_float,
    batch_four_vec,
    batch_int,
    single_float,
)
from madspace.phasespace.builder_base import OpMethod
from madspace.phasespace.opcodes import Group, catalogue


def builder(*types, outputs=()):
    return FunctionBuilder(
        NamedTypes([(f"x{i}", type) for i, type in enumerate(types)]),
        NamedTypes([(f"y{i}", type) for i, type in enumerate(outputs)]),
    )


def test_every_opcode_has_its_method_and_no_other():
    methods = {name: x for name, x in vars(FunctionBuilder).items() if isinstance(x, OpMethod)}
    assert list(methods) == list(catalogue())
    assert len(methods) == 168 + 12  # those of MadSpace, and this package's own
    for name, method in methods.items():
        bound = getattr(builder(), name)
        assert tuple(inspect.signature(bound).parameters) == method.arguments == catalogue()[name].arguments
        assert bound.__name__ == name
        shown = getattr(FunctionBuilder, name)
        assert tuple(inspect.signature(shown).parameters) == ("self", *method.arguments)
        assert shown.__qualname__ == f"FunctionBuilder.{name}"
        assert bound.__doc__ == shown.__doc__
        assert ("UnsupportedOpError" in shown.__doc__) == bool(catalogue()[name].reason)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("stack", 0),
        ("add", 16),
        ("two_body_decay_com", 56),
        ("chili_inverse", 119),
        ("argsort", 150),
        ("histogram", 167),
    ],
)
def test_opcodes_have_the_numbers_of_madspace(name, number):
    assert catalogue()[name].number == number


@pytest.mark.parametrize("name", [n for n, x in catalogue().items() if x.group is Group.REFUSED])
def test_opcodes_that_are_missing_say_so(name):
    arguments = [1.0] if catalogue()[name].is_variadic else [1.0] * len(catalogue()[name].arguments)
    with pytest.raises(madspace.UnsupportedOpError, match=f"^{name}: this operation cannot be used: ") as caught:
        getattr(builder(), name)(*([arguments] if catalogue()[name].is_variadic else arguments))
    assert isinstance(caught.value, NotImplementedError)


def test_common_subexpressions_are_recorded_once():
    f = function_of([batch_float, batch_float], lambda b, x, y: [b.mul(x, y), b.mul(x, y), b.mul(y, x)])
    assert [str(call) for call in f.instructions] == ["%2 = mul(%0, %1)", "%3 = mul(%1, %0)"]
    assert [str(value) for value in f.outputs] == ["%2", "%2", "%3"]


def test_equal_constants_are_one_value():
    f = function_of([batch_float], lambda b, x: [b.mul(x, 2.0), b.mul(x, 2.0), b.mul(x, 2.5), b.add(x, 2.0)])
    assert [str(value) for value in f.locals] == ["%0", "2", "%2", "2.5", "%4", "%5"]


def test_zeros_of_both_signs_are_different_constants():
    f = function_of([batch_float], lambda b, x: [b.div(1.0, b.mul(x, 0.0)), b.div(1.0, b.mul(x, -0.0))])
    assert names_of(f) == ["mul", "div", "mul", "div"]


def test_what_no_output_needs_is_left_out():
    b = builder(batch_float, outputs=[batch_float])
    root = b.sqrt(b.input(0))
    b.square(b.add(root, 1.0))
    b.output(0, root)
    assert names_of(b.function()) == ["sqrt"]


@pytest.mark.parametrize(
    ("fill", "same"),
    [
        (lambda b, x: b.add(x, 0.0), True),
        (lambda b, x: b.add(0.0, x), True),
        (lambda b, x: b.sub(x, 0.0), True),
        (lambda b, x: b.mul(x, 1.0), True),
        (lambda b, x: b.mul(1.0, x), True),
        (lambda b, x: b.div(x, 1.0), True),
        (lambda b, x: b.square(b.sqrt(x)), True),
        (lambda b, x: b.product([x]), True),
        (lambda b, x: b.sum([x]), True),
        (lambda b, x: b.sub(0.0, x), False),
        (lambda b, x: b.mul(x, 0.0), False),
        (lambda b, x: b.div(1.0, x), False),
        (lambda b, x: b.sub(x, x), False),
        (lambda b, x: b.sqrt(b.square(x)), False),
    ],
    ids=lambda x: None if isinstance(x, bool) else inspect.getsource(x).strip(),
)
def test_what_is_its_argument(fill, same):
    b = builder(batch_float)
    assert (fill(b, b.input(0)) is b.input(0)) is same


@pytest.mark.parametrize(
    ("fill", "result"),
    [
        (lambda b: b.add(2.0, 3.0), 5.0),
        (lambda b: b.sub(0.0, 3.0), -3.0),
        (lambda b: b.div(2.0, 4.0), 0.5),
        (lambda b: b.div(1.0, 0.0), float("inf")),
        (lambda b: b.sqrt(2.0), 2**0.5),
        (lambda b: b.min(1.0, 2.0), 1.0),
        (lambda b: b.max(1.0, 2.0), 2.0),
        (lambda b: b.abs(-2.0), 2.0),
        (lambda b: b.add_int(1, 2), 3),
        (lambda b: b.add_int(2**31 - 1, 1), -(2**31)),
        (lambda b: b.product([]), 1.0),
        (lambda b: b.sum([]), 0.0),
        (lambda b: b.product([2.0, 3.0]), 6.0),
    ],
)
def test_constants_are_computed_at_once(fill, result):
    value = fill(builder())
    assert value.literal_value == result
    assert type(value.literal_value) is type(result)


def test_a_shared_value_does_not_take_the_place_of_one_per_event():
    b = builder(single_float, batch_float)
    zeros = b.mul(b.input(1), 0.0)
    assert b.add(b.input(0), zeros).type == batch_float


def test_long_products_and_sums_are_one_instruction():
    f = function_of([batch_float] * 5, lambda b, *x: [b.product(x), b.sum(x), b.product(x[:3])])
    assert names_of(f) == ["stack", "reduce_product", "reduce_sum", "mul", "mul"]
    vectors = function_of([batch_four_vec] * 4, lambda b, *x: [b.sum(x)])
    assert names_of(vectors) == ["add", "add", "add"]


def test_arguments_by_name_and_numbers_as_arguments():
    b = builder(batch_float)
    by_name = b.uniform_invariant(s_max=2.0, r=b.input(0), s_min=1.0)
    assert by_name == b.uniform_invariant(b.input(0), 1.0, 2.0)
    assert [str(x.type) for x in by_name] == ["float[batch_size]"] * 2
    assert str(b.gather(2, [1.0, 2.0, 3.0]).type) == "float[1]"


@pytest.mark.parametrize("arguments", [(), (1.0,), (1.0, 2.0, 3.0)])
def test_a_wrong_number_of_arguments(arguments):
    with pytest.raises(TypeError, match=r"add\(in1, in2\): "):
        builder().add(*arguments)


def test_values_of_another_builder_are_refused():
    other = builder(batch_float)
    mine = builder(batch_float, outputs=[batch_float])
    root = mine.sqrt(mine.input(0))
    message = ": expected a value of this builder, got one of another"
    for use in (mine.sqrt, mine.square, lambda x: mine.add(x, 0.0), lambda x: mine.output(0, x)):
        with pytest.raises(ValueError, match="%0" + message):
            use(other.input(0))
    with pytest.raises(ValueError, match="%1" + message):
        mine.square(other.sqrt(other.input(0)))
    assert mine.square(root) is mine.input(0)


def test_inputs_and_outputs_out_of_range():
    b = builder(batch_float, outputs=[batch_float])
    assert b.input_range(0, 1) == [b.input(0)]
    assert b.input_range(1, 1) == []
    with pytest.raises(IndexError, match="input index: expected 0 to 0, got 5"):
        b.input(5)
    with pytest.raises(IndexError, match="input end index: expected 0 to 1, got 3"):
        b.input_range(0, 3)
    with pytest.raises(IndexError, match="output index: expected 0 to 0, got 1"):
        b.output(1, 2.0)
    with pytest.raises(IndexError, match="output end index"):
        b.output_range(0, [1.0, 2.0])


def test_a_result_is_set_once():
    b = builder(batch_float, outputs=[batch_float, single_float])
    b.output(0, b.input(0))
    message = r"output index: expected a result that is not set yet, got 0 \(y0\), which is %0"
    with pytest.raises(ValueError, match=message):
        b.output(0, 1.0)
    with pytest.raises(ValueError, match=message):
        b.output_range(0, [1.0, 2.0])
    b.output(1, 2.0)
    assert [x.numpy().tolist() for x in FunctionRuntime(b.function()).call([madspace.asarray([3.0])])] == [[3.0], [2.0]]


@pytest.mark.parametrize("use", [bool, lambda x: x or 1.0, lambda x: not x, lambda x: 1 if x else 2])
def test_values_have_no_truth_value(use):
    """A condition in Python would be taken once, when the graph is built, whatever the events are."""
    for value in (builder(batch_float).input(0), Value(0.0)):
        with pytest.raises(TypeError, match="expected no truth value of a value of a graph, which"):
            use(value)


def test_outputs_are_checked():
    b = builder(batch_float, batch_int, outputs=[batch_float, single_float])
    with pytest.raises(ValueError, match="y0: expected a value for this output, got none"):
        b.function()
    with pytest.raises(
        madspace.ShapeError, match=r"output 0: expected type float\[batch_size\], got int\[batch_size\]"
    ):
        b.output(0, b.input(1))
    with pytest.raises(madspace.ShapeError, match=r"output 1: expected type float\[1\], got float\[batch_size\]"):
        b.output(1, b.input(0))
    b.output_range(0, [Value(1.0), 2.0])
    assert [str(x) for x in b.function().outputs] == ["1", "2"]


def test_globals_are_declared_once():
    b = builder(batch_float, outputs=[batch_float])
    scale = b.get_global("scale", madspace.float, [])
    assert b.get_global("scale", madspace.float, []) is scale
    with pytest.raises(ValueError, match="scale: expected type"):
        b.get_global("scale", madspace.float, [2])
    b.output(0, b.mul(b.input(0), scale))
    b.get_global("a", madspace.int, [2, 3])
    f = b.function()
    assert [(name, str(value), str(value.type)) for name, value in f.globals] == [
        ("a", "%3", "int[1, 2, 3]"),
        ("scale", "%1", "float[1]"),
    ]
    assert "Globals:\n  %3 : int[1, 2, 3] = a\n  %1 : float[1] = scale\nInstructions:" in str(f)


def test_streams_are_kept_as_hints():
    b = builder(batch_float, outputs=[batch_float])
    assert b.current_stream() == 0
    b.set_current_stream(2)
    b.output(0, b.sqrt(b.input(0)))
    assert [call.stream_index for call in b.function().instructions] == [2]


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.txt")))
def test_functions_print_as_in_madspace(name):
    """The listings were printed by MadSpace 0.2.1 after it had loaded the same files."""
    text = (FOLDER / f"{name}.txt").read_text()
    assert str(madspace.Function.load(FOLDER / f"{name}.json")) == text


def test_several_results_come_as_a_list():
    b = builder(madspace.batch_float_array(1), batch_float)
    assert [str(x.type) for x in b.unstack(b.input(0))] == ["float[batch_size]"]
    assert [str(x.type) for x in b.pop(b.input(0))] == ["float[batch_size, 0]", "float[batch_size]"]
    assert isinstance(b.squeeze(b.input(0)), Value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: NamedTypes({"a": batch_float}), r"keys: expected \(name, item\) pairs, .* got 'a'"),
        (lambda: NamedTypes([("a", float)]), "a: expected a Type, batch_float for one, got <class 'float'>"),
        (lambda: NamedTypes(["a"], [3]), "a: expected a Type, batch_float for one, got 3"),
        (lambda: FunctionBuilder(1, 2), "input_types: expected NamedTypes, got 1"),
        (lambda: FunctionBuilder(NamedTypes(), [("a", batch_float)]), "output_types: expected NamedTypes, got"),
        (lambda: builder().input("x0"), "input index: expected an int, got 'x0'"),
        (lambda: builder().output("y0", 1.0), "output index: expected an int, got 'y0'"),
        (lambda: builder().input_range(0, None), "input end index: expected an int, got None"),
        (lambda: FunctionRuntime("a.json"), "function: expected a Function, got 'a.json'"),
    ],
)
def test_what_is_no_graph_is_named(build, message):
    with pytest.raises(TypeError, match=message):
        build()
