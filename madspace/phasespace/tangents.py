"""Forward mode over scalar code: gradients of few inputs, from the slopes of the results along each of them.

Each op is followed by ``NAME_jvp`` for every input that its results depend on: from its inputs and their slopes to the
slopes of its outputs. Griewank and Walther, Evaluating Derivatives (2008), chapter 3.
"""

from collections.abc import Mapping, Sequence

from madspace.phasespace.fused_steps import ONE_PASS
from madspace.phasespace.scalar_code import ScalarCode, ScalarOp

__all__ = ["add_tangents", "has_tangents", "is_shorter_backwards"]

# Besides those that have adjoints.
_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "neg", "sqrt", "square", "reduce_sum", "reduce_product"})

# What goes back by arithmetic as well.
_CHOICES = frozenset({"abs", "max", "min"})


def has_tangents(code: ScalarCode, wanted: Sequence[int], available: Mapping[str, tuple[int, int, int]]) -> bool:
    """Tell whether all ops that depend on some scalars have slopes.

    Parameters
    ----------
    code : ScalarCode
        What computes the results.
    wanted : sequence of int
        The scalars.
    available : mapping
        Ops of the executor; those with adjoints have slopes.
    """
    ops, _ = code.ops_behind(wanted)
    return all(op.name in _ARITHMETIC or f"{op.name}_vjp" in available for op in ops)


def is_shorter_backwards(code: ScalarCode, wanted: Sequence[int]) -> bool:
    """Tell whether gradients of more than one number take fewer operations from the results back: one pass.

    Parameters
    ----------
    code : ScalarCode
        What computes the results.
    wanted : sequence of int
        The scalars whose gradients are asked for.
    """
    ops, _ = code.ops_behind(wanted)
    return all(op.name in _ARITHMETIC or op.name in _CHOICES or op.name in ONE_PASS for op in ops)


def add_tangents(code: ScalarCode, seeds: Sequence[tuple[int, int]], wanted: Sequence[int]) -> Mapping[int, int]:
    """Add the code of gradients to that of the results.

    Parameters
    ----------
    code : ScalarCode
        What computes the results.
    seeds : sequence of (int, int)
        Results with their gradients, which are scalars of the code as well.
    wanted : sequence of int
        Scalars whose gradients are asked for.

    Returns
    -------
    mapping
        From those of `wanted` that have an influence to the scalars of their gradients.
    """
    ops: list[ScalarOp] = code.ops[:]
    del code.ops[:]
    zero, one = code.constant(0.0), code.constant(1.0)
    slopes = {x: {x: one} for x in wanted}
    for op in ops:
        code.ops.append(op)
        for known in slopes.values():
            if not known.keys().isdisjoint(op.inputs):
                given = [known.get(x, zero) for x in op.inputs]
                found = code.emit(f"{op.name}_jvp", [*op.inputs, *given], len(op.outputs))
                known.update(zip(op.outputs, found, strict=True))
    gradients = {}
    for x, known in slopes.items():
        parts = [code.emit("mul", [gradient, known[result]])[0] for result, gradient in seeds if result in known]
        if parts:
            gradients[x] = code.emit("reduce_sum", parts)[0]
    return gradients
