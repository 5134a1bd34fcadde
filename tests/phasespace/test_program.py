"""Programs as such: their code for an executor and their listing."""

import numpy as np
import pytest
from program_points import function_of

import madspace
from madspace import batch_four_vec, batch_int
from madspace.phasespace.compile import compile_graph
from madspace.phasespace.program import Program

PROGRAM = compile_graph(
    function_of(
        [madspace.batch_float, batch_four_vec, batch_int],
        lambda b, x, p, i: [b.mul(b.obs_pt(p), 0.5), b.add(p, b.stack([x, 0.1, x, x])), b.add_int(i, 2)],
    )
)
LISTING = """\
program: 7 steps, 11 registers, 3 of them constants
constants:
  r0 = 0.5
  r1 = 0.1
  r2 = 2.0
inputs:
  r3 = x0
  r4..r7 = x1[4]
  r8 = x2 (int32)
steps:
  0  r9 = obs_pt(r4..r7)
  1  r10 = mul(r9, r0)
  2  r9 = add(r4, r3)
  3  r4 = add(r5, r1)
  4  r5 = add(r6, r3)
  5  r6 = add(r7, r3)
  6  r3 = add_int(r8, r2)
outputs:
  y0 = r10
  y1[4] = r9, r4..r6
  y2 (int32) = r3
"""


def test_the_listing():
    assert PROGRAM.describe() == LISTING


def test_elements_that_nothing_reads_are_marked_in_the_listing():
    program = compile_graph(function_of([batch_four_vec], lambda b, p: [b.obs_py(p)]))
    assert "  _, _, r0, _ = x0[4]\n" in program.describe()


def test_the_code():
    table = {"obs_pt": (7, 4, 1), "mul": (3, 2, 1), "add": (1, -1, -1), "add_int": (2, 2, 1)}
    code = PROGRAM.encode(table)
    assert code.dtype == np.int32
    assert code[:13].tolist() == [7, 4, 1, 4, 5, 6, 7, 9, 3, 2, 1, 9, 0]
    assert code[13:19].tolist() == [10, 1, 2, 1, 4, 3]
    assert len(code) == sum(3 + len(step.inputs) + len(step.outputs) for step in PROGRAM.steps)


def test_an_executor_without_the_op():
    with pytest.raises(madspace.UnsupportedOpError, match="obs_pt: the executor does not have this operation"):
        PROGRAM.encode({"mul": (0, 2, 1)})


def test_an_executor_with_another_form_of_the_op():
    with pytest.raises(madspace.UnsupportedOpError, match=r"obs_pt: .* with 3 inputs and 1 outputs, not with 4 and 1"):
        PROGRAM.encode({"obs_pt": (0, 3, 1)})


def test_a_program_without_anything():
    empty = Program(np.zeros(0), 0, (), (), ())
    assert empty.encode({}).shape == (0,)
    assert empty.describe().startswith("program: 0 steps, 0 registers, 0 of them constants\n")
