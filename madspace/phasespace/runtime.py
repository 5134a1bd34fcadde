"""FunctionRuntime: runs a compiled function on arrays on the CPU."""

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from madspace.core.creation import asarray
from madspace.core.tensor import Tensor
from madspace.errors import DeviceMismatchError, DTypeError, ShapeError, UnsupportedOpError
from madspace.phasespace import executor
from madspace.phasespace.compile import compile_graph
from madspace.phasespace.context import Context, default_context
from madspace.phasespace.graph import Graph
from madspace.phasespace.program import Program, ProgramArgument
from madspace.phasespace.types import BatchSize
from madspace.phasespace.values import NamedValues

__all__ = ["FunctionRuntime"]


class FunctionRuntime:
    """A function, compiled for the CPU.

    Parameters
    ----------
    function : Function
        What to run.
    context : Context, optional
        Where its globals are; the default context if left out.

    Raises
    ------
    UnsupportedOpError
        The function uses an operation that cannot be run. The message names it.
    ShapeError
        Its arguments have more than one named batch size, or a constant index is out of range.

    Notes
    -----
    Arguments are float64 or int32 arrays of shape ``(batch, *shape)`` on the CPU, of any strides and from any library;
    nothing is cast. Length 1 stands for every event, other lengths must agree. Arguments of a type without batch axis
    are numbers, or arrays of shape ``shape`` or ``(1, *shape)``. Results are C-contiguous and new. A result that all
    events share has length 1. Large batches are split over threads (``MADSPACE_NUM_THREADS``).
    """

    def __init__(self, function: Graph, context: Context | None = None) -> None:
        self._function = function
        self._context = default_context() if context is None else context
        self._is_shared = [value.type.batch_size == BatchSize.one for value in function.inputs]
        self._argument_names = function.inputs.keys()
        self._global_names = [name for name, _ in function.globals]
        self._executor = executor.cpu_executor()
        table = self._executor.op_table()
        # What all events share is computed once, by a program of its own.
        shared = [value.type.batch_size == BatchSize.one for value in function.outputs]
        self._parts = [
            _Part(function, [i for i, flag in enumerate(shared) if flag is wanted], wanted, table)
            for wanted in (True, False)
            if wanted in shared or not (wanted or shared)
        ]

    @property
    def programs(self) -> list[Program]:
        """The compiled code: for what all events share, if there is such a result, and for each event."""
        return [part.program for part in self._parts]

    def __call__(self, *args: Any) -> Any:
        """Run the function; return its only result, or a tuple of all, as arrays of the first argument's library."""
        results = self.arrays(args)
        return results[0] if len(results) == 1 else tuple(results)

    def call(self, args: Sequence[Any]) -> list[Tensor]:
        """Run the function and return its results as tensors."""
        return [asarray(result) for result in self._run(args)]

    def arrays(self, args: Sequence[Any]) -> list[Any]:
        """Run the function and return its results as arrays of the first argument's library."""
        return [_as_kind_of(result, args[0] if args else None) for result in self._run(args)]

    def call_with_grad(self, args: Sequence[Any], input_requires_grad: Sequence[bool]) -> NoReturn:
        """Raise UnsupportedOpError: there are no derivatives yet."""
        raise UnsupportedOpError("call_with_grad: derivatives of functions are not part of this version")

    def call_backward(
        self, output_grads: Sequence[Any], stored_locals: Sequence[Any], eval_grad: Sequence[bool]
    ) -> NoReturn:
        """Raise UnsupportedOpError: there are no derivatives yet."""
        raise UnsupportedOpError("call_backward: derivatives of functions are not part of this version")

    def release_inputs(self, *, wait: bool = False) -> int:
        """Return 0, the number of inputs still held: a call on the CPU is over when it returns."""
        return 0

    def _run(self, args: Sequence[Any]) -> list[NDArray[Any]]:
        """Check the arguments, run the programs and return the results in order."""
        if len(args) != len(self._argument_names):
            raise ShapeError(
                f"arguments: expected {len(self._argument_names)} ({', '.join(self._argument_names)}), got {len(args)}"
            )
        arguments = self._parts[0].program.inputs
        arrays = [
            _checked(argument, array, is_shared)
            for argument, array, is_shared in zip(arguments, args, self._is_shared, strict=False)
        ]
        batch = _common_batch(self._argument_names, arrays)
        arrays += [self._context.array(x.name, x.dtype, x.shape) for x in arguments[len(arrays) :]]
        results: dict[int, NDArray[Any]] = {}
        for part in self._parts:
            results.update(part.run(self._executor, arrays, batch))
        return [results[i] for i in range(len(results))]


class _Part:
    """The outputs of a function that are computed together."""

    def __init__(
        self, function: Graph, positions: list[int], is_shared: bool, table: dict[str, tuple[int, int, int]]
    ) -> None:
        outputs = function.outputs
        names = outputs.keys()
        wanted = NamedValues([names[i] for i in positions], [outputs[i] for i in positions])
        graph = Graph(function.inputs, wanted, function.locals, function.globals, function.instructions)
        self.positions = positions
        self.is_shared = is_shared
        self.program = compile_graph(graph, table)
        self.code = self.program.encode(table)
        self.used = [
            (i, argument.registers)
            for i, argument in enumerate(self.program.inputs)
            if any(register >= 0 for register in argument.registers)
        ]

    def run(self, executor: executor.Executor, arrays: list[NDArray[Any]], batch: int) -> dict[int, NDArray[Any]]:
        """Return the results by position."""
        size = 1 if self.is_shared else batch
        results = [np.empty((size, *x.shape), x.dtype) for x in self.program.outputs]
        pairs = zip(results, self.program.outputs, strict=True)
        outputs = [(result, argument.registers) for result, argument in pairs if argument.registers]
        if size and outputs:
            inputs = [(arrays[i], registers) for i, registers in self.used]
            executor.run_program(self.code, self.program.constants, self.program.n_registers, inputs, outputs)
        return dict(zip(self.positions, results, strict=True))


def _checked(argument: ProgramArgument, array: Any, is_shared: bool) -> NDArray[Any]:
    """Return an argument as a NumPy array with a batch axis."""
    if not isinstance(array, np.ndarray):
        tensor = asarray(array)
        if tensor.device != "cpu":
            raise DeviceMismatchError(f"{argument.name}: expected an array on the CPU, got one on {tensor.device}")
        array = tensor.numpy()
    if array.dtype != argument.dtype or not array.dtype.isnative:
        raise DTypeError(f"{argument.name}: expected dtype {argument.dtype}, got {array.dtype}")
    if is_shared and array.shape == argument.shape:
        array = array[np.newaxis]
    if array.shape[1:] != argument.shape or array.ndim == 0 or (is_shared and array.shape[0] != 1):
        wanted = ", ".join(map(str, (1 if is_shared else "batch", *argument.shape)))
        raise ShapeError(
            f"{argument.name}: expected shape ({wanted}{'' if argument.shape else ','}), got {array.shape}"
        )
    return np.require(array, requirements="A")


def _common_batch(names: Sequence[str], arrays: Sequence[NDArray[Any]]) -> int:
    """Return the number of events; arrays of length 1 fit any."""
    batch, source = 1, ""
    for name, array in zip(names, arrays, strict=True):
        length = array.shape[0]
        if length == 1:
            continue
        if source and length != batch:
            raise ShapeError(f"{name}: expected {batch} events, as {source} has, got {length}")
        batch, source = length, name
    return batch


def _as_kind_of(result: NDArray[Any], first: Any) -> Any:
    """Return a result as an array of the library of the first argument: Tensor, torch, else NumPy."""
    if isinstance(first, Tensor):
        return asarray(result)
    if type(first).__module__.partition(".")[0] == "torch":
        return asarray(result).torch()
    return result
