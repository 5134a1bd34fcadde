"""Where the interpreter keeps values: no row is given away while something still reads it."""

import re
from pathlib import Path

import numpy as np
import pytest
from program_points import NAMES, chain, function_of, upstream

import madspace
from madspace import batch_float, batch_four_vec
from madspace.cpu._programs import op_table
from madspace.phasespace.columns import Section, columns
from madspace.phasespace.compile import compile_graph
from madspace.phasespace.program import ProgramStep
from madspace.phasespace.rows import Store, assign_rows

TABLE = op_table()
HEADER = Path(__file__).resolve().parents[2] / "cuda_src" / "phasespace" / "program_args.h"


def mapped(n):
    return madspace.TPropagatorMapping(list(range(n - 1)), 0.8).forward_function()


def traced(program, drawn=()):
    """Follow names of values through a program: what its registers hold in the end, and what its rows have stored."""
    sections = columns(program, [False] * len(program.outputs), drawn)
    rows = assign_rows(program, sections, TABLE)
    registers, file = {}, {}
    numbers = {}

    def made(op, inputs, k):
        return numbers.setdefault((op, inputs, k), len(numbers))

    for k in range(len(program.constants)):
        registers[k] = file[k] = f"constant {k}"
    for section in (*list(Section)[Section.INPUTS : Section.OUTPUTS], Section.DRAWS):
        for old, new in zip(sections[section], rows.sections[section], strict=True):
            for i, (register, row) in enumerate(zip(old.registers, new.registers, strict=True)):
                assert (register < 0) == (row < 0)
                if register >= 0:
                    assert row not in file
                    registers[register] = file[row] = f"{section.name} {old.argument} {old.index} {i}"
    for step in program.steps:
        inputs = tuple(registers[x] for x in step.inputs)
        registers.update((x, made(step.op, inputs, i)) for i, x in enumerate(step.outputs))
    stored = {}
    for step in rows.code:
        if isinstance(step, Store):
            column = rows.sections[step.section][step.column]
            assert (step.section, step.column) not in stored
            stored[step.section, step.column] = [file[x] for x in column.registers]
            continue
        assert isinstance(step, ProgramStep)
        inputs = tuple(file[x] for x in step.inputs)
        assert TABLE[step.op][1] >= 0 or not {*step.inputs} & {*step.outputs}
        assert len({*step.outputs}) == len(step.outputs)
        file.update((x, made(step.op, inputs, i)) for i, x in enumerate(step.outputs))
    assert max(file, default=-1) < rows.count
    wanted = {
        (section, k): [registers[x] for x in column.registers]
        for section in list(Section)[Section.OUTPUTS : Section.DRAWS]
        for k, column in enumerate(sections[section])
    }
    return stored, wanted, rows


@pytest.mark.parametrize("name", NAMES)
def test_results_of_graphs(name):
    program = compile_graph(upstream(name)[0], TABLE)
    if any(step.op not in TABLE for step in program.steps):
        pytest.skip("an operation that does not run")
    stored, wanted, _ = traced(program)
    assert stored == wanted


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("make", [chain, mapped])
def test_results_of_chains_in_fewer_rows(make, n):
    program = compile_graph(make(n), TABLE)
    for drawn in ((), range(3 * n - 4), (1,)):
        stored, wanted, rows = traced(program, drawn)
        assert stored == wanted
        assert rows.count < program.n_registers


def test_results_that_are_arguments_or_constants():
    program = compile_graph(
        function_of([batch_float, batch_four_vec], lambda b, x, p: [x, p, 1.5, b.stack([x, 2.0, x, b.mul(x, 2.0)])]),
        TABLE,
    )
    stored, wanted, rows = traced(program)
    assert stored == wanted
    assert [isinstance(step, Store) for step in rows.code[:2]] == [True, True]


def test_random_programs():
    """Sums, products, momenta and lists of what came before, in any order."""
    for seed in range(60):

        def fill(b, x, p, seed=seed):
            random = np.random.default_rng(seed)
            values = [x, 1.25]
            for _ in range(int(random.integers(1, 15))):
                a, c = (values[i] for i in random.integers(0, len(values), 2))
                kind = random.integers(4)
                if kind == 0:
                    values.append(b.add(a, c))
                elif kind == 1:
                    values.append(b.mul(a, c))
                elif kind == 2:
                    values.append(b.reduce_product(b.stack([a, c, x])))
                else:
                    values.append(b.obs_pt(b.add(p, p)))
            results = [values[i] for i in random.integers(0, len(values), 5)]
            return [b.stack(results[:4]), results[4], p]

        stored, wanted, _ = traced(compile_graph(function_of([batch_float, batch_four_vec], fill), TABLE))
        assert stored == wanted


def test_sections_are_those_of_the_kernels():
    (names,) = re.findall(r"enum ProgramSection {([^}]*)}", HEADER.read_text())
    *names, last = re.findall(r"k(\w+)", names)
    assert [name.replace("_", "").lower() for name in Section.__members__] == [name.lower() for name in names]
    assert (list(Section), last) == (list(range(len(names))), "ProgramSections")
