"""An executor of programs in plain NumPy, with the interface of `madspace.cpu._programs`: the judge of the tests.

Formulas are those of the textbooks, without care for cancellations; kinematics are in `program_kinematics`. An op is a
function from the arrays of its inputs to a list of the arrays of its outputs.
"""

import numpy as np
from program_kinematics import KINEMATICS


def one(function):
    """Return the op of a function with one result."""
    return lambda *x: [function(*x)]


def gather(index, *choices):
    return [np.choose(index.astype(int), choices)]


def argsort(*x):
    return list(np.argsort(np.stack(x, -1), axis=-1, kind="stable").T.astype(float))


def one_hot(index, count, *, n_out):
    return [np.where(index == i, 1.0, 0.0) for i in range(n_out)]


def sample_discrete(r, count):
    return [np.minimum(np.floor(r * count), count - 1), count]


def sample_discrete_probs(r, *probs):
    norm = sum(probs)
    edges = np.cumsum([p / norm for p in probs], axis=0)
    index = np.minimum(sum((r >= edge).astype(int) for edge in edges), len(probs) - 1)
    return [index.astype(float), norm / np.choose(index, probs)]


def invariants_from_momenta(*x, n_out):
    n = len(x) // (4 + n_out)
    p, factors = np.reshape(x[: 4 * n], (n, 4, -1)), np.reshape(x[4 * n :], (n_out, n, -1))
    results = []
    for row in factors:
        q = np.einsum("ne,nce->ce", row, p)
        results.append(q[0] ** 2 - (q[1:] ** 2).sum(0))
    return results


def inside(x, low, high):
    return (low <= x) & (x <= high)


OPS = {
    "add": one(np.add),
    "add_int": one(np.add),
    "sub": one(np.subtract),
    "mul": one(np.multiply),
    "div": one(np.divide),
    "sqrt": one(np.sqrt),
    "square": one(np.square),
    "min": one(np.minimum),
    "max": one(np.maximum),
    "abs": one(np.abs),
    "reduce_sum": one(lambda *x: np.sum(x, axis=0)),
    "reduce_product": one(lambda *x: np.prod(x, axis=0)),
    "gather": gather,
    "argsort": argsort,
    "one_hot": one_hot,
    "sample_discrete": sample_discrete,
    "sample_discrete_probs": sample_discrete_probs,
    "invariants_from_momenta": invariants_from_momenta,
    "cut_one": one(lambda x, low, high: 1.0 * inside(x, low, high)),
    "cut_all": one(lambda *x: 1.0 * np.all([inside(v, *x[-2:]) for v in x[:-2]], axis=0)),
    "cut_any": one(lambda *x: 1.0 * np.any([inside(v, *x[-2:]) for v in x[:-2]], axis=0)),
    **KINEMATICS,
}
NAMES = list(OPS)


def op_table():
    """Return number, inputs and outputs of each op; here all take lists of any length."""
    return {name: (number, -1, -1) for number, name in enumerate(NAMES)}


def read_code(code):
    """Yield name, input registers and output registers of each step."""
    words = code.tolist()
    while words:
        number, n_in, n_out = words[:3]
        yield NAMES[number], words[3 : 3 + n_in], words[3 + n_in : 3 + n_in + n_out]
        words = words[3 + n_in + n_out :]


def run_program(code, constants, n_registers, inputs, outputs):
    """Run the code for all events at once; registers that were never written are NaN."""
    batch = outputs[0][0].shape[0]
    file = np.full((n_registers, batch), np.nan)
    file[: len(constants)] = constants[:, None]
    for array, registers in inputs:
        assert array.shape[0] in (1, batch)
        for register, column in zip(registers, array.reshape(array.shape[0], -1).T, strict=True):
            if register >= 0:
                file[register] = column
    for name, reads, writes in read_code(code):
        assert not set(reads) & set(writes), "an output register must not be an input of the same step"
        assert not [x for x in writes if x < len(constants)], "constants must stay"
        op = OPS[name]
        options = {"n_out": len(writes)} if op in (one_hot, invariants_from_momenta) else {}
        with np.errstate(all="ignore"):
            results = op(*(file[i].copy() for i in reads), **options)
        assert len(results) == len(writes)
        for register, result in zip(writes, results, strict=True):
            file[register] = result
    for array, registers in outputs:
        assert array.flags.c_contiguous
        array.reshape(batch, -1)[...] = file[list(registers)].T
