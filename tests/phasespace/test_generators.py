"""Function generators and mappings that are written in Python."""

import numpy as np
import pytest
from program_points import names_of

import madspace
from madspace import FunctionBuilder, FunctionGenerator, Mapping, NamedTypes, NamedValues, batch_float, batch_four_vec

pytestmark = pytest.mark.usefixtures("reference_executor")


class Sum(FunctionGenerator):
    """The sum and the difference."""

    def __init__(self):
        types = NamedTypes([("a", batch_float), ("b", batch_float)])
        super().__init__("sum", types, NamedTypes([("s", batch_float), ("d", batch_float)]))

    def build_function_impl(self, builder, args):
        a, b = args["a"], args["b"]
        return NamedValues([("d", builder.sub(a, b)), ("s", builder.add(a, b))])


class Decay(Mapping):
    """A particle of mass 1 at rest into two massless ones."""

    def __init__(self):
        random = NamedTypes([("phi", batch_float), ("cos", batch_float)])
        momenta = NamedTypes([("p1", batch_four_vec), ("p2", batch_four_vec)])
        super().__init__("decay", random, momenta, NamedTypes([("mass", batch_float)]))

    def build_forward_impl(self, builder, inputs, conditions):
        first, second, det = builder.two_body_decay_com(inputs["phi"], inputs["cos"], conditions["mass"], 0.0, 0.0)
        return NamedValues([("p1", first), ("p2", second)]), det


class Scale(Mapping):
    """A number times a width."""

    def __init__(self):
        types = (NamedTypes([(name, batch_float)]) for name in ("r", "x", "width"))
        super().__init__("scale", *types)

    def build_forward_impl(self, builder, inputs, conditions):
        return NamedValues([("x", builder.mul(inputs["r"], conditions["width"]))]), conditions["width"]

    def build_inverse_impl(self, builder, inputs, conditions):
        return NamedValues([("r", builder.div(inputs[0], conditions[0]))]), builder.div(1.0, conditions[0])


A, B = np.array([1.0, 2.0]), np.array([4.0, 8.0])


def test_a_generator_is_a_function():
    result = Sum()(A, B)
    assert result._fields == ("s", "d")
    np.testing.assert_array_equal(result.s, A + B)
    np.testing.assert_array_equal(Sum()(b=B, a=A).d, A - B)
    assert Sum().function().outputs.keys() == ["s", "d"]
    assert repr(Sum()) == "Sum('sum')"


def test_generators_build_inside_others():
    builder = FunctionBuilder(NamedTypes([("x", batch_float)]), NamedTypes([("y", batch_float)]))
    x = builder.input(0)
    first = Sum().build_function(builder, [x, 2.0])
    second = Sum().build_function(builder, NamedValues([("a", first["s"]), ("b", first["d"])]))
    builder.output(0, second["s"])
    assert names_of(builder.function()) == ["sub", "add", "add"]
    with pytest.raises(madspace.ShapeError, match=r"args: expected 2 values \(a, b\), got 1"):
        Sum().build_function(builder, [x])


def test_mappings_have_two_functions():
    mapping = Scale()
    assert mapping.forward_function().inputs.keys() == ["r", "width"]
    assert mapping.forward_function().outputs.keys() == ["x", "det"]
    assert mapping.inverse_function().inputs.keys() == ["x", "width"]
    assert mapping.inverse_function().outputs.keys() == ["r", "det"]


def test_mappings_map_there_and_back():
    mapping = Scale()
    there = mapping.map_forward([A], [B])
    assert there._fields == ("x", "det")
    np.testing.assert_array_equal(there.x, A * B)
    back = mapping.map_inverse([there.x], [B])
    np.testing.assert_array_equal(back.r, A)
    np.testing.assert_array_equal(there.det * back.det, 1.0)
    np.testing.assert_array_equal(mapping.map_forward(width=B, r=A).x, A * B)
    np.testing.assert_array_equal(mapping.map_forward([A, B]).x, A * B)


def test_a_mapping_with_one_direction():
    decay = Decay()
    result = decay.map_forward([A / 4, A / 4], [np.array([1.0])])
    np.testing.assert_allclose(result.p1 + result.p2, [[1.0, 0, 0, 0]] * 2, atol=1e-15)
    np.testing.assert_allclose(result.det, np.pi / 2)
    with pytest.raises(madspace.UnsupportedOpError, match="decay: build_inverse_impl is not implemented"):
        decay.map_inverse([result.p1, result.p2], [np.array([1.0])])


def test_mappings_build_inside_others():
    builder = FunctionBuilder(NamedTypes([("r", batch_float)]), NamedTypes([("x", batch_float), ("det", batch_float)]))
    first = Scale().build_forward(builder, [builder.input(0)], [2.0])
    second = Scale().build_forward(builder, NamedValues([("r", first["x"])]), NamedValues([("width", first["det"])]))
    assert second.keys() == ["x", "det"]
    builder.output_range(0, second.values())
    assert names_of(builder.function()) == ["mul", "mul"]
    with pytest.raises(madspace.ShapeError, match=r"conditions: expected 1 values \(width\), got 0"):
        Scale().build_forward(builder, [builder.input(0)])


def test_what_is_not_implemented():
    empty = NamedTypes()
    with pytest.raises(madspace.UnsupportedOpError, match="g: build_function_impl is not implemented"):
        FunctionGenerator("g", empty, empty).function()
    with pytest.raises(madspace.UnsupportedOpError, match="m: build_forward_impl is not implemented"):
        Mapping("m", empty, empty, empty).forward_function()


def test_results_must_have_the_declared_names():
    class Wrong(Sum):
        def build_function_impl(self, builder, args):
            return NamedValues([("s", args["a"]), ("wrong", args["b"])])

    with pytest.raises(IndexError, match="got 'd'"):
        Wrong().function()


def test_names_that_do_not_fit():
    with pytest.raises(TypeError, match="expected the names"):
        Scale().map_forward(r=A)
    with pytest.raises(TypeError, match="got both"):
        Scale().map_forward([A], width=B)


def test_compiled_mappings_are_mappings():
    mapping = madspace.TPropagatorMapping([0, 1])
    assert isinstance(mapping, Mapping)
    assert mapping.input_types().keys() == [f"random{i}" for i in range(5)]
    assert mapping.condition_types().keys() == ["com_energy", "mass0", "mass1", "mass2"]
    assert mapping.output_types().values() == [batch_four_vec] * 5
    assert mapping.forward_function().outputs.keys() == [*(f"momentum{i}" for i in range(5)), "det"]
    assert mapping.inverse_function().inputs.keys()[:5] == [f"momentum{i}" for i in range(5)]
