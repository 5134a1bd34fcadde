"""Types, batch sizes, values and named lists: equality, printing, errors."""

import numpy as np
import pytest

import madspace
from madspace import BatchSize, DataType, NamedTypes, NamedValues, Type, Value


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (madspace.batch_float, "float[batch_size]"),
        (madspace.batch_int, "int[batch_size]"),
        (madspace.batch_four_vec, "float[batch_size, 4]"),
        (madspace.batch_float_array(3), "float[batch_size, 3]"),
        (madspace.batch_four_vec_array(5), "float[batch_size, 5, 4]"),
        (madspace.single_float, "float[1]"),
        (madspace.single_int, "int[1]"),
        (
            madspace.multichannel_batch_size(3),
            "{channel_size_0, channel_size_1, batch_size-channel_size_0-channel_size_1}",
        ),
        (Type([madspace.batch_size, BatchSize.one]), "{batch_size, 1}"),
    ],
)
def test_types_print_as_in_madspace(type, text):
    assert str(type) == repr(type) == text


def test_types_are_equal_by_content():
    assert Type(madspace.float, BatchSize("batch_size"), [4]) == madspace.batch_four_vec
    assert Type(madspace.int, BatchSize("batch_size"), []) != madspace.batch_float
    assert (
        len({madspace.batch_float, madspace.batch_float_array(0), Type(madspace.float, madspace.batch_size, [])}) == 2
    )


def test_a_size_without_a_name_is_new():
    assert BatchSize() != BatchSize()
    assert str(BatchSize()).startswith("$")


def test_sizes_add_up():
    a, b = BatchSize("a"), BatchSize("b")
    assert str(a + a) == "2*a"
    assert str(b - a - a) == "b-2*a"
    assert a + b - b == a
    assert a - a == BatchSize.one
    assert hash(a + b) == hash(b + a)


def test_data_types_by_name_and_number():
    assert DataType("float") is DataType(1) is madspace.float
    assert int(madspace.int) == 0
    assert str(madspace.int) == "DataType.int"
    assert repr(madspace.batch_sizes) == "<DataType.batch_sizes: 2>"
    with pytest.raises(ValueError, match="double"):
        DataType("double")


def test_a_type_refuses_negative_extents():
    with pytest.raises(madspace.ShapeError, match=r"shape: expected extents of 0 and more, got \[-1\]"):
        Type(madspace.float, madspace.batch_size, [-1])


@pytest.mark.parametrize(
    ("given", "text", "type", "literal"),
    [
        (3, "3", "int[1]", 3),
        (1.0, "1", "float[1]", 1.0),
        (1 / 3, "0.333333", "float[1]", 1 / 3),
        (np.float64(2.5), "2.5", "float[1]", 2.5),
        (np.int64(2), "2", "int[1]", 2),
        (float("inf"), "inf", "float[1]", float("inf")),
        ([[1.0, 2.0]], "{1, 2}", "float[1, 1, 2]", ([1, 2], [1.0, 2.0])),
        ([1, 2], "{1, 2}", "int[1, 2]", ([2], [1, 2])),
    ],
)
def test_constants(given, text, type, literal):
    value = Value(given)
    assert (str(value), str(value.type), value.literal_value, value.local_index) == (text, type, literal, -1)


@pytest.mark.parametrize(
    ("given", "error"), [(2**31, ValueError), (True, madspace.DTypeError), ("x", madspace.DTypeError), (1j, TypeError)]
)
def test_what_is_no_constant(given, error):
    with pytest.raises(error, match="value: expected integers"):
        Value(given)


def test_named_lists_by_name_and_position():
    types = NamedTypes([("a", madspace.batch_float), ("b", madspace.batch_int)])
    assert types["b"] is types[1] is madspace.batch_int
    assert (types.keys(), len(types), types.index_map()) == (["a", "b"], 2, {"a": 0, "b": 1})
    assert list(types) == types.values() == [madspace.batch_float, madspace.batch_int]
    types.push_back("c", madspace.single_int)
    assert types["c"] == madspace.single_int
    values = NamedValues(["x", "y"], [Value(1), Value(2.0)])
    assert str(values["y"]) == "2"
    assert len(NamedValues()) == 0


def test_named_lists_refuse():
    types = NamedTypes(["a"], [madspace.batch_float])
    with pytest.raises(ValueError, match="expected a new key, got 'a' again"):
        types.push_back("a", madspace.batch_int)
    with pytest.raises(IndexError, match="expected one of"):
        types["z"]
    with pytest.raises(IndexError, match="expected 0 to 0, got 1"):
        types[1]
    with pytest.raises(madspace.ShapeError, match="expected 2 entries, one per key, got 1"):
        NamedTypes(["a", "b"], [madspace.batch_float])
