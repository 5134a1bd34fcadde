"""Gradients of functions: one program for the results' part of the way there and all of the way back."""

from collections.abc import Mapping, Sequence

from madspace.phasespace.compile import compile_code
from madspace.phasespace.derivatives import add_gradients
from madspace.phasespace.graph import Graph
from madspace.phasespace.lowering import lower
from madspace.phasespace.program import Program
from madspace.phasespace.values import NamedValues

__all__ = ["compile_vjp"]


def compile_vjp(
    graph: Graph, positions: Sequence[int], wanted: Sequence[bool], available: Mapping[str, tuple[int, int, int]]
) -> Program:
    """Compile the gradients of a graph.

    Parameters
    ----------
    graph : Graph
        A function.
    positions : sequence of int
        The results that have gradients.
    wanted : sequence of bool
        For each argument, then each global: whether its gradient is asked for.
    available : mapping
        Ops of the executor, with their numbers, inputs and outputs; -1 for lists of any length.

    Returns
    -------
    Program
        Its inputs are the graph's arguments, its globals, and the gradients of the results at `positions`; its outputs
        the gradients that are wanted, per event. It recomputes what it needs of the results, so nothing has to be kept.

    Raises
    ------
    UnsupportedOpError
        A step on the way has no derivative.
    """
    names, values = graph.outputs.keys(), graph.outputs.values()
    outputs = NamedValues([names[i] for i in positions], [values[i] for i in positions])
    lowered = lower(Graph(graph.inputs, outputs, graph.locals, graph.globals, graph.instructions), available)
    code = lowered.code
    arguments = [
        *zip(graph.inputs.keys(), graph.inputs.values(), lowered.inputs, strict=True),
        *((name, value, scalars) for (name, value), scalars in zip(graph.globals, lowered.globals, strict=True)),
    ]
    gradients = [code.new(len(scalars)) for scalars in lowered.outputs]
    seeds = [pair for pairs in zip(lowered.outputs, gradients, strict=True) for pair in zip(*pairs, strict=True)]
    asked = [argument for argument, flag in zip(arguments, wanted, strict=True) if flag]
    found = add_gradients(code, seeds, {x for *_, scalars in asked for x in scalars}, available)
    zero = code.constant(0.0)
    return compile_code(
        code,
        [
            *((name, value.type, scalars) for name, value, scalars in arguments),
            *((f"grad_{n}", v.type, x) for n, v, x in zip(outputs.keys(), outputs.values(), gradients, strict=True)),
        ],
        [(f"grad_{name}", value.type, [found.get(x, zero) for x in scalars]) for name, value, scalars in asked],
    )
