"""The compiler: folding, common subexpressions, dead code, registers, and the meaning of what comes out."""

import numpy as np
import program_reference
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_points import NAMES, function_of, upstream

import madspace
from madspace import (
    FunctionRuntime,
    Type,
    batch_float,
    batch_float_array,
    batch_four_vec,
    batch_four_vec_array,
    batch_int,
)
from madspace.cpu import _programs
from madspace.phasespace.compile import compile_graph


def ops(types, fill):
    """Return the names of the steps of a function's program."""
    return [step.op for step in compile_graph(function_of(types, fill)).steps]


def test_what_moves_numbers_takes_no_step():
    def fill(b, p, a):
        particles = b.unstack(p)
        rest, last = b.pop(a)
        return [
            b.stack(particles[::-1]),
            b.cat([rest, b.unsqueeze(last)]),
            b.squeeze(b.unsqueeze(last)),
            b.gather(1, a),
            b.gather_vector(0, p),
            b.select_vector(p, [1, 0]),
            b.permute_momenta(p, [[0, 1], [1, 0]], 1),
            b.obs_e(p),
            b.obs_pz(particles[0]),
            b.full([2.0, b.batch_size([p]), 3]),
        ]

    program = compile_graph(function_of([batch_four_vec_array(2), batch_float_array(3)], fill))
    assert program.steps == ()
    assert program.n_registers == 8 + 3 + 1
    first, second = program.inputs[0].registers[:4], program.inputs[0].registers[4:]
    assert program.outputs[0].registers == second + first
    assert program.outputs[6].registers == second + first
    assert program.outputs[7].registers == (first[0], second[0])


def test_equal_scalars_are_computed_once():
    def fill(b, x, y):
        pair = b.mul(b.stack([x, y]), b.stack([y, x]))
        return [pair, b.mul(x, y), b.add(b.reduce_sum(b.stack([x, y])), b.add(y, x))]

    assert ops([batch_float, batch_float], fill) == ["mul", "add", "add"]


def test_subtraction_and_division_do_not_commute():
    assert ops([batch_float] * 2, lambda b, x, y: [b.sub(x, y), b.sub(y, x), b.div(x, y), b.div(y, x)]) == [
        *["sub"] * 2,
        *["div"] * 2,
    ]


def test_constants_inside_arrays_are_folded():
    def fill(b, x):
        ones = b.stack([1.0, x, 2.0])
        return [b.mul(ones, b.stack([3.0, 1.0, 4.0])), b.reduce_product(b.stack([1.0, x, 1.0])), b.sub(0.0, x)]

    program = compile_graph(function_of([batch_float], fill))
    assert [step.op for step in program.steps] == ["sub"]
    assert sorted(program.constants.tolist()) == [0.0, 3.0, 8.0]
    (x,) = program.inputs[0].registers
    assert program.outputs[1].registers == (x,)


def test_negation_is_kept_and_right(reference_executor):
    function = function_of([batch_float], lambda b, x: [b.sub(0.0, x), b.sub(-0.0, x)])
    results = function(np.array([1.5, -2.0]))
    np.testing.assert_array_equal(results, [[-1.5, 2.0]] * 2)


def test_what_no_output_needs_is_not_computed():
    def fill(b, x, v):
        first, _ = b.com_p_in(x)
        return [b.obs_px(b.add(first, v))]

    program = compile_graph(function_of([batch_float, batch_four_vec], fill))
    assert [step.op for step in program.steps] == ["com_p_in", "add"]
    assert [register < 0 for register in program.inputs[1].registers] == [True, False, True, True]


def test_an_argument_that_nothing_reads_has_no_register():
    program = compile_graph(function_of([batch_float, batch_float], lambda b, x, y: [b.sqrt(y)]))
    assert [x.registers for x in program.inputs] == [(-1,), (0,)]
    assert program.n_registers == 2


def test_registers_are_given_again():
    def fill(b, x):
        for _ in range(100):
            x = b.sqrt(b.add(x, 1.0))
        return [x]

    program = compile_graph(function_of([batch_float], fill))
    assert len(program.steps) == 200
    assert program.n_registers == 3  # the constant, and two that take turns


@pytest.mark.parametrize("name", NAMES)
def test_registers_hold_what_is_read(name):
    """Every register that a step reads was written before, by what the reader means; constants are never written."""
    program = compile_graph(upstream(name)[0])
    written = set(range(len(program.constants)))
    written.update(x for argument in program.inputs for x in argument.registers if x >= 0)
    for step in program.steps:
        assert written.issuperset(step.inputs)
        assert not set(step.outputs) & (set(step.inputs) | set(range(len(program.constants))))
        assert len(set(step.outputs)) == len(step.outputs)
        written.update(step.outputs)
    assert all(written.issuperset(x.registers) for x in program.outputs)
    assert written == set(range(program.n_registers))


def test_choices_by_an_index_of_the_event():
    def fill(b, i, p):
        return [b.gather_vector(i, p), b.permute_momenta(p, [[0, 1, 2], [0, 2, 1]], i)]

    steps = ops([batch_int, batch_four_vec_array(3)], fill)
    # The first momentum stays where it is in both permutations.
    assert steps == ["gather"] * 12


def test_an_index_out_of_range():
    with pytest.raises(madspace.ShapeError, match="index: expected 0 to 2, got 3"):
        ops([batch_float_array(3)], lambda b, a: [b.gather(3, a)])


def test_sizes_are_passed_where_counts_do_not_tell_them():
    def fill(b, s):
        masses = [[1.0, 2.0]] * 3
        return [b.sde2_channel_weights(s, masses, masses, [[0, 1]] * 3)]

    program = compile_graph(function_of([batch_float_array(5)], fill))
    (step,) = program.steps
    assert (len(step.inputs), len(step.outputs)) == (1 + 5 + 3 * 6, 3)
    assert program.constants[step.inputs[0]] == 5.0


@pytest.mark.parametrize(
    ("power", "available", "op"),
    [
        (0.8, ["stable_invariant_fifth"], "stable_invariant_fifth"),
        (0.8, [], "stable_invariant_nu"),
        (1.0, ["stable_invariant", "stable_invariant_fifth"], "stable_invariant"),
        (0.7, ["stable_invariant", "stable_invariant_fifth"], "stable_invariant_nu"),
    ],
)
def test_cheaper_ops_for_special_powers(power, available, op):
    function = function_of([batch_float] * 3, lambda b, *x: b.stable_invariant_nu(x[0], 0.0, power, *x[1:]))
    (step,) = compile_graph(function, available).steps
    assert (step.op, len(step.inputs)) == (op, 5 if op == "stable_invariant_nu" else 4)


@pytest.mark.parametrize(
    ("order", "power", "transfers", "scatters"),
    [
        ([0, 1], 0.8, ["fifth_start", "fifth_a"], ["start", "upper"]),
        ([0, 1, 2, 3], 0.8, ["fifth_start", "fifth_b", "fifth_b", "fifth_a"], ["start", "upper", "upper", "upper"]),
        ([1, 0], 0.8, ["fifth_start", "fifth_b"], ["start", "lower"]),
        # The middle one comes last: both its legs are propagators.
        ([2, 0, 1], 1.0, ["log_start", "log_a", "log"], ["start", "lower", ""]),
        ([0, 2, 1], 0.0, ["uniform_start", "uniform_a", "uniform"], ["start", "upper", ""]),
        # Other powers have one form for all legs.
        ([0, 1], 0.7, ["", ""], ["start", "upper"]),
    ],
)
def test_blocks_next_to_a_beam_take_cheaper_ops(order, power, transfers, scatters):
    function = madspace.TPropagatorMapping(order, power).forward_function()
    steps = [step.op for step in compile_graph(function, _programs.op_table()).steps]
    for name, expected in (("t_chain_transfer", transfers), ("t_chain_scatter", scatters)):
        found = [step.removeprefix(name).removeprefix("_") for step in steps if step.startswith(name)]
        assert found == expected


def test_more_than_one_batch_size():
    other = Type(madspace.float, madspace.BatchSize("other"), [])
    with pytest.raises(madspace.ShapeError, match="x1: expected batch size batch_size, as the inputs before it"):
        compile_graph(function_of([batch_float, other], lambda b, x, y: [x]))


@pytest.mark.parametrize("where", ["argument", "result"])
def test_lists_of_batch_sizes(where):
    if where == "argument":
        function = function_of([madspace.multichannel_batch_size(2)], lambda b, x: [1.0])
    else:
        function = function_of([batch_float], lambda b, x: [b.batch_size([x])])
    with pytest.raises(madspace.UnsupportedOpError, match=f"{where} cannot be a list of batch sizes"):
        compile_graph(function)


BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "div": np.divide}
UNARY = {"square": np.square, "abs": np.abs, "sqrt": lambda x: np.sqrt(np.abs(x))}
STEPS = st.lists(
    st.tuples(st.sampled_from([*BINARY, *UNARY]), st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=40
)


@pytest.mark.parametrize("runner", [program_reference, _programs], ids=["reference", "cpu"])
@settings(derandomize=True, deadline=None, max_examples=300)
@given(STEPS, st.lists(st.integers(0, 10**6), min_size=1, max_size=4))
def test_programs_of_any_operations_mean_what_the_graph_says(runner, steps, results):
    """Operations on arguments, constants and earlier results, taken at random; NumPy does the same directly."""
    data = np.array([[0.3, -1.5, 2.0, 0.0], [1.0, 0.25, -3.0, 4.0]])
    constants = [0.0, 1.0, -0.5]

    def run(one, two, values):
        for name, i, j in steps:
            x, y = values[i % len(values)], values[j % len(values)]
            values.append(two(name, x, y) if name in BINARY else one(name, x))
        return [values[i % len(values)] for i in results]

    def fill(b, x, y):
        def one(name, a):
            return b.sqrt(b.abs(a)) if name == "sqrt" else getattr(b, name)(a)

        return run(one, lambda name, a, c: getattr(b, name)(a, c), [x, y, *constants])

    program = compile_graph(function_of([batch_float, batch_float], fill))
    outputs = [(np.empty(4), argument.registers) for argument in program.outputs]
    inputs = [(row, argument.registers) for row, argument in zip(data, program.inputs, strict=True)]
    code = program.encode(runner.op_table())
    runner.run_program(code, program.constants, program.n_registers, inputs, outputs)
    with np.errstate(all="ignore"):
        direct = run(lambda n, a: UNARY[n](a), lambda n, a, c: BINARY[n](a, c), [*data, *map(np.float64, constants)])
    for (result, _), expected in zip(outputs, direct, strict=True):
        np.testing.assert_array_equal(result, np.broadcast_to(expected, 4))


def test_the_runtime_compiles_shared_results_apart(reference_executor):
    function = function_of(
        [madspace.single_float, batch_float], lambda b, s, x: [b.square(s), b.mul(x, b.square(s)), 4.0]
    )
    shared, events = FunctionRuntime(function).programs
    assert [x.name for x in shared.outputs] == ["y0", "y2"]
    assert [step.op for step in events.steps] == ["square", "mul"]
