"""Runs single ops of programs on columns of numbers, where the fixture `where` of the phase-space tests says."""

import numpy as np

import madspace
from madspace.cpu._programs import op_table, run_program
from madspace.phasespace._program_op import ProgramOp
from madspace.phasespace.program import Program, ProgramArgument, ProgramStep

TABLE = op_table()
place = "cpu"


def columns(*arguments):
    """Return arguments of shape (batch, ...) as one row per scalar, in row-major order of each event's elements."""
    rows = []
    for argument in arguments:
        array = np.atleast_1d(np.asarray(argument, dtype=np.float64))
        rows.extend(array.reshape(len(array), -1).T)
    n = max(len(row) for row in rows)
    return np.array([np.broadcast_to(row, n) for row in rows])


def call_op(name, *arguments, n_out=None):
    """Run one op; returns its outputs as an array (n_out, batch)."""
    op, _, n_fixed = TABLE[name]
    inputs = columns(*arguments)
    n_in, n = inputs.shape
    n_out = n_fixed if n_out is None else n_out
    if place != "cpu":
        return call_on_device(name, inputs, n_out)
    code = np.array([op, n_in, n_out, *range(n_in + n_out)], dtype=np.int32)
    outputs = np.full((n, n_out), np.nan)
    run_program(
        code,
        np.empty(0),
        n_in + n_out,
        [(np.ascontiguousarray(inputs.T), range(n_in))],
        [(outputs, range(n_in, n_in + n_out))],
    )
    return outputs.T


def call_on_device(name, inputs, n_out):
    """Run one op by the interpreter on device 0."""
    n_in, n = inputs.shape
    double = np.dtype(np.float64)
    program = Program(
        constants=np.empty(0),
        n_registers=n_in + n_out,
        inputs=(ProgramArgument("inputs", double, (n_in,), tuple(range(n_in))),),
        outputs=(ProgramArgument("outputs", double, (n_out,), tuple(range(n_in, n_in + n_out))),),
        steps=(ProgramStep(name, tuple(range(n_in)), tuple(range(n_in, n_in + n_out))),),
    )
    op = ProgramOp(program, None, [False], [False], "interpreted")
    arrays = [madspace.asarray(np.ascontiguousarray(inputs.T), device="cuda")]
    out = [madspace.asarray(np.full((n, n_out), np.nan), device="cuda")]
    return op(arrays, out, None, True, None)[0].numpy().T
