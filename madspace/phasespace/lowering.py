"""From a graph to scalar code: arrays and four-vectors are taken apart, what only moves numbers disappears."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from madspace.errors import ShapeError, UnsupportedOpError
from madspace.phasespace.graph import Graph, InstructionCall
from madspace.phasespace.opcodes import Group
from madspace.phasespace.scalar_code import ScalarCode
from madspace.phasespace.types import BatchSize, DataType
from madspace.phasespace.values import Value

__all__ = ["Lowered", "lower"]

Scalars = tuple[int, ...]


@dataclass
class Lowered:
    """Scalar code with the scalars of each argument, global and result, row-major."""

    code: ScalarCode
    inputs: list[Scalars] = field(default_factory=list)
    globals: list[Scalars] = field(default_factory=list)
    outputs: list[Scalars] = field(default_factory=list)


def lower(graph: Graph, available: Collection[str] = ()) -> Lowered:
    """Return the scalar code of a graph, for an executor that has the ops `available`.

    Raises
    ------
    ShapeError
        Arguments have more than one named batch size.
    UnsupportedOpError
        An argument or a result is a list of batch sizes.
    """
    code = ScalarCode(available)
    lowered = Lowered(code)
    known: dict[int, Scalars] = {}
    _check_batch(graph)
    for places, values in (
        (lowered.inputs, graph.inputs.values()),
        (lowered.globals, [value for _, value in graph.globals]),
    ):
        for value in values:
            scalars = code.new(math.prod(value.type.shape))
            known[value.local_index] = scalars
            places.append(scalars)

    def scalars_of(value: Value) -> Scalars:
        if value.literal_value is None:
            return known[value.local_index]
        return tuple(code.constant(x) for x in value.elements())

    for call in graph.instructions:
        results = _lower_call(code, call, [scalars_of(value) for value in call.inputs])
        known.update((value.local_index, scalars) for value, scalars in zip(call.outputs, results, strict=True))
    lowered.outputs = [scalars_of(value) for value in graph.outputs.values()]
    return lowered


def _check_batch(graph: Graph) -> None:
    size = BatchSize.one
    for name, value in zip(graph.inputs.keys(), graph.inputs.values(), strict=True):
        if value.type.dtype is DataType.batch_sizes:
            raise UnsupportedOpError(f"{name}: an argument cannot be a list of batch sizes")
        if value.type.batch_size in (BatchSize.one, size):
            continue
        if size != BatchSize.one:
            raise ShapeError(f"{name}: expected batch size {size}, as the inputs before it, got {value.type}")
        size = value.type.batch_size
    for name, value in zip(graph.outputs.keys(), graph.outputs.values(), strict=True):
        if value.type.dtype is DataType.batch_sizes:
            raise UnsupportedOpError(f"{name}: a result cannot be a list of batch sizes")


def _lower_call(code: ScalarCode, call: InstructionCall, arguments: list[Scalars]) -> list[Scalars]:
    """Add the ops of an instruction and return the scalars of its results."""
    opcode = call.instruction.definition
    if opcode.group is Group.RENAME:
        return _RENAMES[opcode.name](code, call, arguments)
    sizes = [math.prod(value.type.shape) for value in call.outputs]
    if opcode.group is Group.WHOLE:
        flat = [x for scalars in arguments for x in scalars]
        return _split(code.emit(opcode.name, [*_sizes(code, call), *flat], sum(sizes)), sizes)
    width = call.inputs[0].type.shape[-1] if opcode.group is Group.ROW else 1
    rows = [_rows(scalars, width, sizes[0]) for scalars in arguments]
    return [tuple(code.emit(opcode.name, [x for row in group for x in row])[0] for group in zip(*rows, strict=True))]


def _sizes(code: ScalarCode, call: InstructionCall) -> list[int]:
    """Return constants in front of the arguments, where the number of values does not tell the sizes.

    ``sde2_channel_weights``: invariants. ``subchannel_weights``: invariants, groups. ``apply_subchannel_weights``:
    channel weights, subchannel weights.
    """
    lengths = [value.type.shape[0] if value.type.shape else 0 for value in call.inputs]
    name = call.instruction.name
    chosen = {
        "sde2_channel_weights": lengths[:1],
        "subchannel_weights": [lengths[0], lengths[-1]],
        "apply_subchannel_weights": lengths[:2],
    }.get(name, [])
    return [code.constant(float(x)) for x in chosen]


def _split(scalars: Scalars, sizes: Sequence[int]) -> list[Scalars]:
    parts = []
    for size in sizes:
        parts.append(scalars[:size])
        scalars = scalars[size:]
    return parts


def _rows(scalars: Scalars, width: int, count: int) -> list[Scalars]:
    return [scalars[i * width : (i + 1) * width] for i in range(count)]


def _gather(code: ScalarCode, index: int, choices: Scalars) -> int:
    """Return the scalar that an index chooses: one of them, if the index is a constant or there is no choice."""
    if len(set(choices)) == 1:
        return choices[0]
    number = code.constants.get(index)
    if number is None:
        return code.emit("gather", [index, *choices])[0]
    if not 0 <= number < len(choices):
        raise ShapeError(f"index: expected 0 to {len(choices) - 1}, got {number:g}")
    return choices[int(number)]


def _permute(code: ScalarCode, call: InstructionCall, arguments: list[Scalars]) -> list[Scalars]:
    momenta, permutations, (index,) = arguments
    count, n = call.inputs[1].type.shape
    columns = [momenta[component::4] for component in range(4)]
    moved = [
        [tuple(_gather(code, source, column) for column in columns) for source in permutation]
        for permutation in _rows(permutations, n, count)
    ]
    chosen = [
        _gather(code, index, tuple(particles[i][component] for particles in moved))
        for i in range(n)
        for component in range(4)
    ]
    return [tuple(chosen)]


def _sum_vectors(code: ScalarCode, call: InstructionCall, arguments: list[Scalars]) -> list[Scalars]:
    n, k = call.inputs[0].type.shape[-2:]
    blocks = _rows(arguments[0], n * k, math.prod(call.inputs[0].type.shape[:-2]))
    return [tuple(code.emit("reduce_sum", block[i::k])[0] for block in blocks for i in range(k))]


def _gather_vector(code: ScalarCode, call: InstructionCall, arguments: list[Scalars]) -> list[Scalars]:
    (index,), choices = arguments
    k = call.inputs[1].type.shape[1]
    return [tuple(_gather(code, index, choices[i::k]) for i in range(k))]


def _select_vector(code: ScalarCode, call: InstructionCall, arguments: list[Scalars]) -> list[Scalars]:
    choices, indices = arguments
    k = call.inputs[0].type.shape[1]
    return [tuple(_gather(code, index, choices[i::k]) for index in indices for i in range(k))]


def _select(code: ScalarCode, call: InstructionCall, arguments: list[Scalars]) -> list[Scalars]:
    choices, indices = arguments
    return [tuple(_gather(code, index, choices) for index in indices)]


def _gather_one(code: ScalarCode, call: InstructionCall, arguments: list[Scalars]) -> list[Scalars]:
    (index,), choices = arguments
    return [(_gather(code, index, choices),)]


def _joined(code: ScalarCode, call: InstructionCall, arguments: list[Scalars]) -> list[Scalars]:
    return [tuple(x for scalars in arguments for x in scalars)]


def _parted(code: ScalarCode, call: InstructionCall, arguments: list[Scalars]) -> list[Scalars]:
    return _split(arguments[0], [math.prod(value.type.shape) for value in call.outputs])


def _filled(code: ScalarCode, call: InstructionCall, arguments: list[Scalars]) -> list[Scalars]:
    return [arguments[0] * math.prod(call.outputs[0].type.shape)]


def _nothing(code: ScalarCode, call: InstructionCall, arguments: list[Scalars]) -> list[Scalars]:
    return [()]


def _component(i: int) -> Callable[[ScalarCode, InstructionCall, list[Scalars]], list[Scalars]]:
    return lambda code, call, arguments: [arguments[0][i::4]]


_RENAMES: dict[str, Callable[[ScalarCode, InstructionCall, list[Scalars]], list[Scalars]]] = {
    "stack": _joined,
    "cat": _joined,
    "squeeze": _joined,
    "unsqueeze": _joined,
    "unstack": _parted,
    "pop": _parted,
    "batch_size": _nothing,
    "full": _filled,
    "reduce_sum_vector": _sum_vectors,
    "obs_e": _component(0),
    "obs_px": _component(1),
    "obs_py": _component(2),
    "obs_pz": _component(3),
    "permute_momenta": _permute,
    "gather": _gather_one,
    "gather_int": _gather_one,
    "gather_vector": _gather_vector,
    "select": _select,
    "select_int": _select,
    "select_vector": _select_vector,
}
