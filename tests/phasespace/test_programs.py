"""run_program: what it computes, what it refuses, and that it is the same however it is run."""

import contextlib

import numpy as np
import pytest
from op_calls import TABLE

from madspace import get_num_threads, set_num_threads
from madspace.cpu._programs import MAX_REGISTERS, op_table, run_program
from madspace.errors import DTypeError, ShapeError

ADD, MUL, REDUCE = TABLE["add"][0], TABLE["mul"][0], TABLE["reduce_sum"][0]
NONE = np.empty(0)


def code(*words):
    return np.array(words, dtype=np.int32)


def test_table_numbers_every_op_once():
    table = op_table()
    assert sorted(number for number, _, _ in table.values()) == list(range(len(table)))
    assert table["add"][1:] == (2, 1)
    assert table["reduce_sum"][1:] == (-1, -1)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000, 5000])
def test_straight_line_code_over_any_batch(n):
    x, y, out = np.arange(float(n)), np.array([2.0]), np.full((n, 2), np.nan)
    run_program(
        code(ADD, 2, 1, 1, 2, 3, MUL, 2, 1, 3, 0, 4), np.array([10.0]), 5, [(x, [1]), (y, [2])], [(out, [3, 4])]
    )
    np.testing.assert_array_equal(out, np.stack([x + 2, 10 * (x + 2)], axis=1))


def test_integers_strides_and_left_out_elements():
    i = np.arange(20, dtype=np.int32)[::-2]
    p = np.arange(80.0).reshape(10, 2, 4)[:, ::-1]
    out, whole = np.zeros((4, 10)).T, np.zeros((10, 1), dtype=np.int32)
    run_program(
        code(ADD, 2, 1, 0, 3, 5),
        NONE,
        6,
        [(i, [0]), (p, [1, 2, 3, 4, -1, -1, -1, -1])],
        [(out, [5, 1, 2, 4]), (whole, [5])],
    )
    np.testing.assert_array_equal(out, np.stack([i + p[:, 0, 2], p[:, 0, 0], p[:, 0, 1], p[:, 0, 3]], axis=1))
    np.testing.assert_array_equal(whole[:, 0], i + p[:, 0, 2])


def test_an_output_may_be_an_input():
    x, out = np.arange(100.0), np.empty((100, 2))
    words = code(ADD, 2, 1, 0, 0, 0, TABLE["reduce_sum_vector"][0], 4, 2, 0, 1, 1, 0, 1, 0)
    run_program(words, NONE, 2, [(x, [0]), (3 * x, [1])], [(out, [0, 1])])
    np.testing.assert_array_equal(out, np.stack([5 * x, 5 * x], axis=1))


def test_what_int32_cannot_hold_is_its_lowest_value():
    x = np.array([1.9, -1.9, 3e9, -3e9, np.nan, np.inf])
    out = np.empty(6, dtype=np.int32)
    run_program(code(), NONE, 1, [(x, [0])], [(out, [0])])
    assert out.tolist() == [1, -1, -(2**31), -(2**31), -(2**31), -(2**31)]


GOOD = (ADD, 2, 1, 1, 2, 3)
BAD_CODE = {
    "cut off in the head": ((ADD, 2), r"code\[0\]: expected op, n_in and n_out"),
    "cut off in the registers": ((ADD, 2, 1, 1, 2), r"code\[0\]: add: expected 3 registers, got 2"),
    "second one cut off": ((*GOOD, ADD), r"code\[6\]: expected op"),
    "negative op": ((-1, 2, 1, 1, 2, 3), r"code\[0\]: expected an op below"),
    "unknown op": ((9999, 2, 1, 1, 2, 3), r"code\[0\]: expected an op below"),
    "arity": ((ADD, 3, 1, 1, 2, 2, 3), r"add: expected 2 inputs and 1 outputs, got 3 inputs"),
    "list arity": ((REDUCE, 0, 1, 3), r"reduce_sum: expected numbers that the op takes"),
    "huge counts": ((REDUCE, 2**31 - 1, 1, 3), r"reduce_sum: expected numbers that the op takes"),
    "negative counts": ((REDUCE, -1, 1, 3), r"reduce_sum: expected numbers that the op takes"),
    "register below 0": ((ADD, 2, 1, -1, 2, 3), r"code\[3\]: expected a register below 4, got -1"),
    "register too large": ((ADD, 2, 1, 1, 4, 3), r"code\[4\]: expected a register below 4, got 4"),
    "output too large": ((ADD, 2, 1, 1, 2, 4), r"code\[5\]: expected an output register 1 to 3, got 4"),
    "output over a constant": ((ADD, 2, 1, 1, 2, 0), r"code\[5\]: expected an output register 1 to 3, got 0"),
    "read before written": ((ADD, 2, 1, 1, 3, 3), r"code\[4\]: register 3 is read before it has a value"),
}


@pytest.mark.parametrize("case", BAD_CODE)
def test_malformed_code_is_refused_before_anything_runs(case):
    words, message = BAD_CODE[case]
    x, out = np.ones(5), np.full(5, 7.0)
    with pytest.raises(ValueError, match=message):
        run_program(code(*words), np.zeros(1), 4, [(x, [1]), (x, [2])], [(out, [1])])
    assert (out == 7).all()


X = np.ones(5)
READ_ONLY = np.ones(5)
READ_ONLY.flags.writeable = False
BAD_CALLS = {
    "int64 code": ({"code": np.array(GOOD)}, DTypeError, "code: expected int32"),
    "code of two axes": ({"code": code(*GOOD)[None]}, ShapeError, "code: expected one axis"),
    "code that is none": ({"code": [*GOOD]}, TypeError, "code: expected a NumPy array"),
    "constants": ({"constants": np.zeros(5)}, ValueError, "constants: expected at most"),
    "float32": ({"inputs": [(X.astype(np.float32), [1])]}, DTypeError, r"inputs\[0\]: expected float64 or int32"),
    "byte order": ({"inputs": [(X.astype(">f8"), [1])]}, DTypeError, "native byte order"),
    "unaligned": (
        {"inputs": [(np.zeros(41, np.uint8)[1:].view(np.float64), [1])]},
        (DTypeError, ValueError),
        r"inputs\[0\]",
    ),
    "no axis": ({"inputs": [(np.array(1.0), [1])]}, ShapeError, "the batch as the first axis"),
    "batch": ({"inputs": [(X, [1]), (np.ones(4), [2])]}, ShapeError, r"inputs\[1\]: expected 5 events"),
    "output batch": ({"outputs": [(np.ones(1), [3])]}, ShapeError, r"outputs\[0\]: expected 5 events"),
    "read-only output": ({"outputs": [(READ_ONLY, [3])]}, ValueError, "got a read-only one"),
    "too few registers": ({"inputs": [(np.ones((5, 2)), [1])]}, ShapeError, "expected 2 registers"),
    "input over a constant": ({"inputs": [(X, [0]), (X, [1])]}, ValueError, "expected registers 1 to 3, got 0"),
    "input register": ({"inputs": [(X, [4])]}, ValueError, "expected registers 1 to 3, got 4"),
    "output register": ({"outputs": [(np.ones(5), [-1])]}, ValueError, "expected registers 0 to 3, got -1"),
    "n_registers": ({"n_registers": MAX_REGISTERS + 1}, ValueError, "n_registers: expected 0 to 65536"),
    "negative n_registers": ({"n_registers": -1}, ValueError, "n_registers: expected 0 to 65536"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_wrong_arguments_are_refused_by_name(case):
    changes, error, message = BAD_CALLS[case]
    arguments = {
        "code": code(*GOOD),
        "constants": np.zeros(1),
        "n_registers": 4,
        "inputs": [(X, [1]), (X, [2])],
        "outputs": [(np.ones(5), [3])],
    }
    with pytest.raises(error, match=message):
        run_program(**(arguments | changes))


def test_outputs_without_a_value_are_refused():
    with pytest.raises(ValueError, match="outputs: register 1 has no value"):
        run_program(code(), NONE, 2, [(X, [0])], [(np.ones(5), [1])])


def test_random_code_never_crashes():
    rng = np.random.default_rng(5)
    out = np.empty(70)
    for _ in range(3000):
        words = rng.integers(-2, 9, rng.integers(0, 40)).astype(np.int32)
        words[::3] = rng.integers(-1, len(TABLE) + 1, len(words[::3]))
        with contextlib.suppress(ValueError):
            run_program(words, NONE, 8, [(np.ones(70), [0]), (np.ones(70), [1])], [(out, [0])])


@pytest.fixture
def threads():
    """Restore the number of threads."""
    before = get_num_threads()
    yield
    set_num_threads(before)


def test_same_bits_with_any_number_of_threads(threads):
    x = np.random.default_rng(0).random((20_001, 2))
    words = code(ADD, 2, 1, 0, 1, 2, MUL, 2, 1, 2, 0, 3)
    results = []
    for n in (1, 2, 5):
        set_num_threads(n)
        out = np.empty(20_001)
        run_program(words, NONE, 4, [(x, [0, 1])], [(out, [3])])
        results.append(out)
    for result in results:
        np.testing.assert_array_equal(result, (x[:, 0] + x[:, 1]) * x[:, 0])
