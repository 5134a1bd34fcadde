"""Gradients of functions: one program for the results' part of the way there and all of the way back."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from madspace.core.creation import asarray
from madspace.core.tensor import Tensor
from madspace.errors import DeviceMismatchError, DTypeError, ShapeError, UnsupportedOpError
from madspace.phasespace._program_op import ProgramOp
from madspace.phasespace.compile import compile_code
from madspace.phasespace.context import Context
from madspace.phasespace.derivatives import add_gradients
from madspace.phasespace.executor import Executor
from madspace.phasespace.fused_steps import TWO_WAY
from madspace.phasespace.graph import Graph
from madspace.phasespace.host_arrays import HOST_KINDS, as_kind_of, checked, common_batch
from madspace.phasespace.lowering import Lowered, lower
from madspace.phasespace.program import Program, ProgramArgument
from madspace.phasespace.scalar_code import special_ops
from madspace.phasespace.tangents import add_tangents, has_tangents, is_shorter_backwards
from madspace.phasespace.types import BatchSize, DataType
from madspace.phasespace.values import NamedValues, Value

__all__ = ["MOST_DIRECTIONS", "Allocate", "Gradients", "compile_vjp"]

# Makes an array, of float64 or else of int32: shape, whether it is float64, number of the device.
Allocate: TypeAlias = Callable[[tuple[int, ...], bool, int], Any]
# The results that have gradients, and whether that of each argument or global is wanted.
_Key: TypeAlias = tuple[tuple[int, ...], tuple[bool, ...]]


# Forward mode pays on GPUs up to this many numbers, unless all steps go both ways (fused_steps.py): what is computed
# with does not depend on the direction.
MOST_DIRECTIONS = 8


def compile_vjp(
    graph: Graph,
    positions: Sequence[int],
    wanted: Sequence[bool],
    available: Mapping[str, tuple[int, int, int]],
    *,
    most_directions: int = 0,
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
    most_directions : int, optional
        For up to so many numbers the slopes of the results along each of them are computed, by ops ``NAME_jvp`` that
        only fused kernels have; for more, where an op lacks them, and where all steps go both ways in a fused kernel,
        gradients go back from the results.

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
    graph = Graph(graph.inputs, outputs, graph.locals, graph.globals, graph.instructions)
    is_backwards = False
    if most_directions > 0:
        # A step that goes both ways leaves out by itself what is known to be 0: it is not taken for a cheaper one.
        cheaper = special_ops(TWO_WAY)
        lowered = lower(graph, {name: x for name, x in available.items() if name not in cheaper})
        asked = _asked(graph, lowered, wanted)
        is_backwards = is_shorter_backwards(lowered.code, [x for *_, scalars in asked for x in scalars])
    if not is_backwards:
        lowered = lower(graph, available)
        asked = _asked(graph, lowered, wanted)
    code = lowered.code
    gradients = [code.new(len(scalars)) for scalars in lowered.outputs]
    seeds = [pair for pairs in zip(lowered.outputs, gradients, strict=True) for pair in zip(*pairs, strict=True)]
    numbers = [x for *_, scalars in asked for x in scalars]
    if not is_backwards and len(numbers) <= most_directions and has_tangents(code, numbers, available):
        found = add_tangents(code, seeds, numbers)
    else:
        found = add_gradients(code, seeds, set(numbers), available)
    zero = code.constant(0.0)
    return compile_code(
        code,
        [
            *((name, value.type, scalars) for name, value, scalars in _arguments(graph, lowered)),
            *((f"grad_{n}", v.type, x) for n, v, x in zip(outputs.keys(), outputs.values(), gradients, strict=True)),
        ],
        [(f"grad_{name}", value.type, [found.get(x, zero) for x in scalars]) for name, value, scalars in asked],
    )


def _arguments(graph: Graph, lowered: Lowered) -> list[tuple[str, Value, tuple[int, ...]]]:
    """Return name, value and scalars of each argument, then of each global."""
    return [
        *zip(graph.inputs.keys(), graph.inputs.values(), lowered.inputs, strict=True),
        *((name, value, scalars) for (name, value), scalars in zip(graph.globals, lowered.globals, strict=True)),
    ]


def _asked(graph: Graph, lowered: Lowered, wanted: Sequence[bool]) -> list[tuple[str, Value, tuple[int, ...]]]:
    """Return those of the arguments whose gradients are asked for."""
    return [argument for argument, flag in zip(_arguments(graph, lowered), wanted, strict=True) if flag]


class Gradients:
    """The gradients of a function, compiled for what is asked for, where its arguments are.

    Parameters
    ----------
    function : Graph
        The function.
    context : Context
        Where its globals are.
    executor : Executor
        What runs programs.
    """

    def __init__(self, function: Graph, context: Context, executor: Executor) -> None:
        self._function = function
        self._context = context
        self._executor = executor
        self._table = executor.op_table()
        self._names = function.inputs.keys()
        self._global_names = [name for name, _ in function.globals]
        self._values = [*function.inputs, *(value for _, value in function.globals)]
        self._arguments = [
            _argument(name, x) for name, x in zip(self._names + self._global_names, self._values, strict=True)
        ]
        self._is_shared = [value.type.batch_size == BatchSize.one for value in self._values]
        names, outputs = function.outputs.keys(), function.outputs.values()
        self._results = [
            _argument(f"output_grads[{i}] ({name})", x) for i, (name, x) in enumerate(zip(names, outputs, strict=True))
        ]
        self._is_shared_result = [value.type.batch_size == BatchSize.one for value in outputs]
        self._no_globals = (False,) * len(self._global_names)
        self._all_floats = (*(x.dtype == np.float64 for x in self._arguments[: len(self._names)]), *self._no_globals)
        self._known_flags: dict[tuple[Any, ...], tuple[bool, ...]] = {}
        self._programs: dict[_Key, tuple[Program, NDArray[np.int32]]] = {}
        # By the results whose gradients are given, and the arguments whose gradients are wanted.
        self._gpu_ops: dict[tuple[tuple[bool, ...], tuple[bool, ...]], ProgramOp] = {}
        self.allocate: Allocate | None = None  # makes new arrays on GPUs

    def wanted(self, input_requires_grad: Sequence[bool]) -> list[bool]:
        """Check for which arguments gradients are wanted; the flags of the globals come behind."""
        if len(input_requires_grad) != len(self._names):
            raise ShapeError(
                f"input_requires_grad: expected {len(self._names)} entries ({', '.join(self._names)}), "
                f"got {len(input_requires_grad)}"
            )
        for argument, flag in zip(self._arguments, input_requires_grad, strict=False):
            if flag and argument.dtype != np.float64:
                raise DTypeError(f"{argument.name}: expected float64 where a gradient is wanted, got {argument.dtype}")
        return [*map(bool, input_requires_grad), *map(self._context.global_requires_grad, self._global_names)]

    def stored(self, args: Sequence[Any], wanted: Sequence[bool]) -> tuple[list[Tensor | None], list[bool]]:
        """Return what `from_stored` needs, and the flags, by number in the graph."""
        arrays: list[Tensor | None] = [None] * len(self._function.locals)
        if any(wanted):
            for value, array in zip(self._values, self._with_globals(args), strict=True):
                arrays[value.local_index] = asarray(array)
        return arrays, self.flags(wanted)

    def flags(self, wanted: Sequence[bool]) -> list[bool]:
        """Return by number in the graph whether a gradient is wanted."""
        flags = [False] * len(self._function.locals)
        for value, flag in zip(self._values, wanted, strict=True):
            flags[value.local_index] = flag
        return flags

    def from_stored(
        self, output_grads: Sequence[Any], stored: Sequence[Any], flags: Sequence[bool], *, as_tensors: bool
    ) -> list[Any]:
        """Return the gradients of arguments and globals from what `stored` has returned, or from arrays like that."""
        numbers = [value.local_index for value in self._values]
        wanted = [flags[i] for i in numbers]
        if not any(wanted):
            return [None] * len(numbers)
        return self._run([stored[i] for i in numbers], output_grads, wanted, as_tensors=as_tensors)

    def of_arguments(
        self, args: Sequence[Any], output_grads: Sequence[Any], input_requires_grad: Sequence[bool] | None
    ) -> list[Any]:
        """Return the gradients of the arguments; of all that are float64 if it is not said of which."""
        n = len(self._names)
        if input_requires_grad is None:
            wanted = self._all_floats
        else:
            flags = tuple(input_requires_grad)
            known = self._known_flags.get(flags)
            if known is None:
                known = self._known_flags[flags] = (*self.wanted(flags)[:n], *self._no_globals)
            wanted = known
        return self._run(self._with_globals(args), output_grads, wanted, as_tensors=False)[:n]

    def _with_globals(self, args: Sequence[Any]) -> Sequence[Any]:
        if len(args) != len(self._names):
            raise ShapeError(f"arguments: expected {len(self._names)} ({', '.join(self._names)}), got {len(args)}")
        if not self._global_names:
            return args
        return [*args, *[self._context.get_global(name) for name in self._global_names]]

    def _run(
        self, args: Sequence[Any], output_grads: Sequence[Any], wanted: Sequence[bool], *, as_tensors: bool
    ) -> list[Any]:
        """Return the gradients of arguments and globals, as arrays of the kind of the first one."""
        for x in args:
            if not isinstance(x, HOST_KINDS):
                on_gpu = self._run_on_gpu(args, output_grads, wanted, as_tensors)
                if on_gpu is not None:
                    return on_gpu
                break
        found = self._run_on_cpu(args, output_grads, wanted)
        return [None if x is None else asarray(x) if as_tensors else as_kind_of(x, args[0]) for x in found]

    def _run_on_gpu(
        self, args: Sequence[Any], output_grads: Sequence[Any], wanted: Sequence[bool], as_tensors: bool
    ) -> list[Any] | None:
        """Return the gradients of arguments on a GPU, None where these are on the CPU."""
        is_given = tuple([x is not None for x in output_grads])
        key = is_given, tuple(wanted)
        op = self._gpu_ops.get(key)
        if op is None:
            if _is_on_cpu(args):
                return None
            self._check_count(output_grads)
            if not any(wanted):
                return [None] * len(wanted)
            op = self._gpu_ops[key] = self._gpu_op(tuple([i for i, flag in enumerate(is_given) if flag]), key[1])
        found = op([*args, *[x for x in output_grads if x is not None]], None, None, as_tensors, None)
        if found is None:
            if _is_on_cpu(args):
                return None
            first = next(x.name for x, y in zip(self._arguments, args, strict=True) if not _is_number(y))
            raise DeviceMismatchError(f"{first}: expected an array on a GPU, as others are, got one on the CPU")
        each = iter(found)
        return [next(each) if flag else None for flag in wanted]

    def _gpu_op(self, positions: tuple[int, ...], wanted: tuple[bool, ...]) -> ProgramOp:
        """Return what runs on GPUs, or say why there is nothing."""
        for i in positions:
            self._check_type(i)
            if self._is_shared_result[i]:
                raise UnsupportedOpError(f"{self._results[i].name}: expected None on a GPU for what all events share")
        program = compile_vjp(self._function, positions, wanted, self._table, most_directions=MOST_DIRECTIONS)
        # What all events share and has a gradient comes repeated: each event has its own.
        is_shared = [x and not flag for x, flag in zip(self._is_shared, wanted, strict=True)]
        is_shared += [False] * len(positions)
        is_whole = [*wanted, *[False] * len(positions)]
        flags = [False] * len(program.outputs)
        return ProgramOp(program, None, is_shared, flags, "any", self.allocate, is_whole)

    def _run_on_cpu(
        self, args: Sequence[Any], output_grads: Sequence[Any], wanted: Sequence[bool]
    ) -> list[NDArray[Any] | None]:
        """Return the gradients of arguments and globals on the CPU."""
        arrays = [checked(*parts) for parts in zip(self._arguments, args, self._is_shared, strict=True)]
        n = len(self._names)
        batch = common_batch(self._names, arrays[:n], -1)
        given = self._given(output_grads, batch)
        found = [np.zeros(x.shape, x.dtype) if flag else None for x, flag in zip(arrays, wanted, strict=True)]
        # What all events share has one gradient, not one per event: it takes a run of its own.
        for is_shared in (True, False):
            chosen = [(i, x) for i, x in given if self._is_shared_result[i] is is_shared]
            size = 1 if is_shared else batch
            if chosen and size:
                self._add(arrays, chosen, wanted, size, found)
        return found

    def _given(self, output_grads: Sequence[Any], batch: int) -> list[tuple[int, NDArray[Any]]]:
        """Check the gradients of the results and return those that are there, with their positions."""
        self._check_count(output_grads)
        given = []
        for i, (result, is_shared) in enumerate(zip(self._results, self._is_shared_result, strict=True)):
            if output_grads[i] is None:
                continue
            self._check_type(i)
            array = checked(result, output_grads[i], is_shared)
            size = 1 if is_shared else batch
            if array.shape[0] not in (1, size):
                raise ShapeError(f"{result.name}: expected {size} events, got {array.shape[0]}")
            given.append((i, array))
        return given

    def _check_count(self, output_grads: Sequence[Any]) -> None:
        if len(output_grads) != len(self._results):
            names = ", ".join(self._function.outputs.keys())
            raise ShapeError(f"output_grads: expected {len(self._results)} ({names}), got {len(output_grads)}")

    def _check_type(self, i: int) -> None:
        result = self._results[i]
        if result.dtype != np.float64:
            raise DTypeError(f"{result.name}: expected None for a result of {result.dtype}, got an array")

    def _add(
        self,
        arrays: Sequence[NDArray[Any]],
        given: Sequence[tuple[int, NDArray[Any]]],
        wanted: Sequence[bool],
        size: int,
        found: Sequence[NDArray[Any] | None],
    ) -> None:
        """Run the program of some results' gradients and add what it finds."""
        key = tuple(i for i, _ in given), tuple(wanted)
        if key not in self._programs:
            program = compile_vjp(self._function, *key, self._table)
            self._programs[key] = program, program.encode(self._table)
        program, code = self._programs[key]
        sources = zip([*arrays, *(array for _, array in given)], program.inputs, strict=True)
        inputs = [(array, x.registers) for array, x in sources if max(x.registers, default=-1) >= 0]
        parts = [np.empty((size, *x.shape)) for x in program.outputs]
        outputs = [(array, x.registers) for array, x in zip(parts, program.outputs, strict=True) if x.registers]
        if outputs:
            self._executor.run_program(code, program.constants, program.n_registers, inputs, outputs)
        for total, part in zip([x for x in found if x is not None], parts, strict=True):
            total += part if total.shape[0] == size else part.sum(axis=0, keepdims=True)


def _is_number(x: Any) -> bool:
    return isinstance(x, (float, int, np.generic))


def _is_on_cpu(arrays: Sequence[Any]) -> bool:
    """Tell whether no array is on a GPU."""
    return all(isinstance(x, HOST_KINDS) or asarray(x).device == "cpu" for x in arrays)


def _argument(name: str, value: Value) -> ProgramArgument:
    """Return what an array must be, without registers."""
    dtype = np.dtype(np.float64) if value.type.dtype is DataType.float else np.dtype(np.int32)
    return ProgramArgument(name, dtype, tuple(value.type.shape), ())
