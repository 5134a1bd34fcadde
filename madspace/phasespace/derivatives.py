"""Reverse mode over scalar code: the gradients of inputs from those of results, as more code of the same kind.

There is one rule per op: arithmetic in terms of other ops, everything else by the executor's adjoint ``NAME_vjp``,
which takes the op's inputs and the gradients of its outputs and returns those of its inputs. An op with neither has no
derivative. Griewank and Walther, Evaluating Derivatives (2008), chapter 3.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from madspace.errors import UnsupportedOpError
from madspace.phasespace.scalar_code import ScalarCode, ScalarOp

__all__ = ["add_gradients"]

Gradients = Sequence[int | None]


def add_gradients(
    code: ScalarCode,
    seeds: Sequence[tuple[int, int]],
    wanted: Collection[int],
    available: Mapping[str, tuple[int, int, int]],
) -> Mapping[int, int]:
    """Add the code of gradients to that of the results.

    Parameters
    ----------
    code : ScalarCode
        What computes the results.
    seeds : sequence of (int, int)
        Results with their gradients, which are scalars of the code as well.
    wanted : collection of int
        Scalars whose gradients are asked for.
    available : mapping
        Ops of the executor, with their numbers, inputs and outputs; -1 for lists of any length.

    Returns
    -------
    mapping
        From those of `wanted` that have an influence to the scalars of their gradients.

    Raises
    ------
    UnsupportedOpError
        An op between them has no derivative.
    """
    ops, active = code.ops_behind(wanted)
    gradients = _Gradients(code, active)
    for scalar, gradient in seeds:
        gradients.add(scalar, gradient)
    for op in reversed(ops):
        outputs = [gradients.of(x) for x in op.outputs]
        if all(gradient is None for gradient in outputs):
            continue
        rule = _RULES.get(op.name)
        if rule is not None:
            parts = rule(code, op, outputs)
        elif f"{op.name}_vjp" in available:
            parts = _by_adjoint(code, op, outputs, active, is_list=available[op.name][1] < 0)
        else:
            raise UnsupportedOpError(f"{op.name}: this operation has no derivative")
        for scalar, part in zip(op.inputs, parts, strict=True):
            gradients.add(scalar, part)
    found = {x: gradients.of(x) for x in wanted}
    return {x: gradient for x, gradient in found.items() if gradient is not None}


class _Gradients:
    """Sums up what reaches a scalar."""

    def __init__(self, code: ScalarCode, active: Collection[int]) -> None:
        self._code = code
        self._active = active
        self._parts: dict[int, list[int]] = {}

    def add(self, scalar: int, part: int | None) -> None:
        """Add a part to the gradient of a scalar, unless nothing that is wanted depends on it."""
        if part is not None and scalar in self._active:
            self._parts.setdefault(scalar, []).append(part)

    def of(self, scalar: int) -> int | None:
        """Return the gradient of a scalar, to which nothing may be added afterwards."""
        parts = self._parts.get(scalar)
        return None if parts is None else self._code.emit("reduce_sum", parts)[0]


def _by_adjoint(
    code: ScalarCode, op: ScalarOp, gradients: Gradients, active: Collection[int], *, is_list: bool
) -> Gradients:
    """Add the adjoint of an op; that of a list gives all gradients, others those that are asked for."""
    filled = [code.constant(0.0) if x is None else x for x in gradients]
    n = len(op.inputs)
    wanted = range(n) if is_list else [i for i in range(n) if op.inputs[i] in active]
    positions = [] if is_list else [code.constant(float(i)) for i in wanted]
    found = code.emit(f"{op.name}_vjp", [*positions, *op.inputs, *filled], len(wanted))
    parts = dict(zip(wanted, found, strict=True))
    return [parts.get(i) for i in range(n)]


def _only(gradients: Gradients) -> int:
    """Return the gradient of an op's only output."""
    (gradient,) = gradients
    assert gradient is not None
    return gradient


def _sum(code: ScalarCode, op: ScalarOp, gradients: Gradients) -> Gradients:
    return [_only(gradients)] * len(op.inputs)


def _difference(code: ScalarCode, op: ScalarOp, gradients: Gradients) -> Gradients:
    g = _only(gradients)
    return [g, *code.emit("neg", [g])]


def _negative(code: ScalarCode, op: ScalarOp, gradients: Gradients) -> Gradients:
    return code.emit("neg", [_only(gradients)])


def _product(code: ScalarCode, op: ScalarOp, gradients: Gradients) -> Gradients:
    """Multiply the gradient with all other factors: those before times those behind, so that zeros do no harm."""
    before, behind = [_only(gradients)], [code.constant(1.0)]
    for x in op.inputs[:-1]:
        before += code.emit("mul", [before[-1], x])
    for x in op.inputs[:0:-1]:
        behind += code.emit("mul", [behind[-1], x])
    return [code.emit("mul", pair)[0] for pair in zip(before, reversed(behind), strict=True)]


def _quotient(code: ScalarCode, op: ScalarOp, gradients: Gradients) -> Gradients:
    (above,) = code.emit("div", [_only(gradients), op.inputs[1]])
    return [above, *code.emit("neg", code.emit("mul", [above, op.outputs[0]]))]


def _square(code: ScalarCode, op: ScalarOp, gradients: Gradients) -> Gradients:
    (twice,) = code.emit("mul", [code.constant(2.0), op.inputs[0]])
    return code.emit("mul", [_only(gradients), twice])


def _root(code: ScalarCode, op: ScalarOp, gradients: Gradients) -> Gradients:
    (twice,) = code.emit("mul", [code.constant(2.0), op.outputs[0]])
    return code.emit("div", [_only(gradients), twice])


def _absolute(code: ScalarCode, op: ScalarOp, gradients: Gradients) -> Gradients:
    g = _only(gradients)
    (is_positive,) = code.emit("cut_one", [op.inputs[0], code.constant(0.0), code.constant(float("inf"))])
    (kept,) = code.emit("mul", [g, is_positive])
    (lost,) = code.emit("sub", [g, kept])
    return code.emit("sub", [kept, lost])


def _smaller(code: ScalarCode, op: ScalarOp, gradients: Gradients) -> Gradients:
    return _choice(code, gradients, *op.inputs)


def _larger(code: ScalarCode, op: ScalarOp, gradients: Gradients) -> Gradients:
    return _choice(code, gradients, *op.inputs[::-1])


def _choice(code: ScalarCode, gradients: Gradients, small: int, large: int) -> Gradients:
    """Give the gradient to the first input of an op if the two are in this order, else to the second."""
    g = _only(gradients)
    (is_first,) = code.emit("cut_one", [small, code.constant(float("-inf")), large])
    (kept,) = code.emit("mul", [g, is_first])
    return [kept, *code.emit("sub", [g, kept])]


def _gather(code: ScalarCode, op: ScalarOp, gradients: Gradients) -> Gradients:
    """Give the gradient to what was chosen; that of the index is a 0 that no op makes, so its source is asked."""
    g = _only(gradients)
    index, n = op.inputs[0], len(op.inputs) - 1
    (index,) = code.emit("max", [index, code.constant(0.0)])
    (index,) = code.emit("min", [index, code.constant(float(n - 1))])
    chosen = code.emit("one_hot", [index, code.constant(float(n))], n)
    return [code.constant(0.0), *(code.emit("mul", [g, x])[0] for x in chosen)]


Rule = Callable[[ScalarCode, ScalarOp, Gradients], Gradients]
_RULES: dict[str, Rule] = {
    "add": _sum,
    "sub": _difference,
    "mul": _product,
    "div": _quotient,
    "neg": _negative,
    "abs": _absolute,
    "sqrt": _root,
    "square": _square,
    "min": _smaller,
    "max": _larger,
    "reduce_sum": _sum,
    "reduce_product": _product,
    "gather": _gather,
}
