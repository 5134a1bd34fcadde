"""FunctionRuntime: runs a compiled function on arrays on the CPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from madspace.core.creation import asarray
from madspace.core.tensor import Tensor
from madspace.errors import DeviceMismatchError, DTypeError, ShapeError
from madspace.phasespace import executor
from madspace.phasespace.compile import compile_graph
from madspace.phasespace.context import Context, default_context
from madspace.phasespace.gradients import compile_vjp
from madspace.phasespace.graph import Graph
from madspace.phasespace.program import Program, ProgramArgument
from madspace.phasespace.types import BatchSize, DataType
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
        self._differentiable = [*function.inputs, *(value for _, value in function.globals)]
        self._vjps: dict[tuple[tuple[int, ...], tuple[bool, ...]], tuple[Program, NDArray[np.int32]]] = {}
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

    def call_with_grad(
        self, args: Sequence[Any], input_requires_grad: Sequence[bool]
    ) -> tuple[list[Tensor], list[Tensor | None], list[bool]]:
        """Run the function and keep what its gradients need.

        Parameters
        ----------
        args : sequence of arrays
            The arguments in order.
        input_requires_grad : sequence of bool
            For each argument whether its gradient will be asked for; those of globals are if the context says so.

        Returns
        -------
        outputs : list of Tensor
            The results.
        stored_locals : list of (Tensor or None)
            What `call_backward` needs, by number in the graph: the arguments and globals themselves, not copies, which
            must stay as they are until then. Everything else is computed again.
        eval_grad : list of bool
            By number in the graph: whether its gradient will be asked for.

        Raises
        ------
        DTypeError
            The gradient of an int32 argument is asked for.
        """
        wanted = self._wanted(input_requires_grad)
        outputs = self.call(args)
        n_locals = len(self._function.locals)
        stored: list[Tensor | None] = [None] * n_locals
        eval_grad = [False] * n_locals
        if any(wanted):
            arrays = [*args, *(self._context.get_global(name) for name in self._global_names)]
            for value, array, flag in zip(self._differentiable, arrays, wanted, strict=True):
                stored[value.local_index] = asarray(array)
                eval_grad[value.local_index] = flag
        return outputs, stored, eval_grad

    def call_backward(
        self, output_grads: Sequence[Any], stored_locals: Sequence[Any], eval_grad: Sequence[bool]
    ) -> tuple[list[Tensor | None], list[tuple[str, Tensor | None]]]:
        """Return the gradients of arguments and globals.

        Parameters
        ----------
        output_grads : sequence of (array or None)
            Gradients of the results, of their shapes; None counts as zeros, as it must be for int32.
        stored_locals, eval_grad : sequence
            From `call_with_grad`.

        Returns
        -------
        input_grads : list of (Tensor or None)
            Gradients of the arguments; None where none was asked for.
        global_grads : list of (str, Tensor or None)
            The same for globals, with their names.

        Raises
        ------
        UnsupportedOpError
            A step between a result and what its gradient is asked for has no derivative.
        """
        numbers = [value.local_index for value in self._differentiable]
        wanted = [eval_grad[i] for i in numbers]
        gradients: list[NDArray[Any] | None] = [None] * len(numbers)
        if any(wanted):
            gradients = self._vjp([stored_locals[i] for i in numbers], output_grads, wanted)
        tensors = [None if x is None else asarray(x) for x in gradients]
        n = len(self._argument_names)
        return tensors[:n], list(zip(self._global_names, tensors[n:], strict=True))

    def vjp(
        self, args: Sequence[Any], output_grads: Sequence[Any], input_requires_grad: Sequence[bool] | None = None
    ) -> list[Any]:
        """Return the gradients of the arguments from those of the results: a vector times the Jacobian matrix.

        Parameters
        ----------
        args : sequence of arrays
            The arguments in order.
        output_grads : sequence of (array or None)
            Gradients of the results, of their shapes or of length 1; None counts as zeros, as it must be for int32.
        input_requires_grad : sequence of bool, optional
            For each argument whether its gradient is wanted; all of float64 if left out.

        Returns
        -------
        list of (array or None)
            Gradients of the arguments, in their shapes and of the first argument's library; None where not wanted. That
            of an array of length 1, which stands for every event, is the sum over the events.

        Raises
        ------
        UnsupportedOpError
            A step on the way has no derivative.

        Notes
        -----
        One program computes what it needs of the results and goes back from there: nothing has to be kept. At an edge
        (a random number at 0 or 1, a threshold) gradients may be infinite or NaN, as derivatives are there.
        """
        n = len(self._argument_names)
        if input_requires_grad is None:
            input_requires_grad = [x.type.dtype is DataType.float for x in self._differentiable[:n]]
        wanted = [*self._wanted(input_requires_grad)[:n], *[False] * len(self._global_names)]
        arrays = [*args, *(self._context.get_global(name) for name in self._global_names)]
        gradients = self._vjp(arrays, output_grads, wanted)[:n]
        return [None if x is None else _as_kind_of(x, args[0]) for x in gradients]

    def _wanted(self, input_requires_grad: Sequence[bool]) -> list[bool]:
        """Check for which arguments gradients are wanted; the globals' flags come behind."""
        if len(input_requires_grad) != len(self._argument_names):
            raise ShapeError(
                f"input_requires_grad: expected {len(self._argument_names)} entries "
                f"({', '.join(self._argument_names)}), got {len(input_requires_grad)}"
            )
        for name, value, flag in zip(self._argument_names, self._differentiable, input_requires_grad, strict=False):
            if flag and value.type.dtype is not DataType.float:
                raise DTypeError(f"{name}: expected float64 where a gradient is wanted, got {value.type.dtype.name}")
        flags = [self._context.global_requires_grad(name) for name in self._global_names]
        return [*map(bool, input_requires_grad), *flags]

    def _vjp(
        self, args: Sequence[Any], output_grads: Sequence[Any], wanted: Sequence[bool]
    ) -> list[NDArray[Any] | None]:
        """Return the gradients of arguments and globals."""
        n = len(self._argument_names)
        n_args = len(args) - len(self._global_names)
        if n_args != n:
            raise ShapeError(f"arguments: expected {n} ({', '.join(self._argument_names)}), got {n_args}")
        arguments = self._parts[0].program.inputs
        is_shared = [*self._is_shared, *[True] * len(self._global_names)]
        arrays = [_checked(*parts) for parts in zip(arguments, args, is_shared, strict=True)]
        batch = _common_batch(self._argument_names, arrays[:n])
        names = self._function.outputs.keys()
        if len(output_grads) != len(names):
            raise ShapeError(f"output_grads: expected {len(names)} ({', '.join(names)}), got {len(output_grads)}")
        results = [np.zeros(x.shape, x.dtype) if flag else None for x, flag in zip(arrays, wanted, strict=True)]
        for part in self._parts:
            size = 1 if part.is_shared else batch
            given = []
            for i, argument in zip(part.positions, part.program.outputs, strict=True):
                if output_grads[i] is None:
                    continue
                label = ProgramArgument(f"output_grads[{i}] ({names[i]})", argument.dtype, argument.shape, ())
                if argument.dtype != np.float64:
                    raise DTypeError(f"{label.name}: expected None for a result of {argument.dtype}, got an array")
                array = _checked(label, output_grads[i], part.is_shared)
                if array.shape[0] not in (1, size):
                    raise ShapeError(f"{label.name}: expected {size} events, got {array.shape[0]}")
                given.append((i, array))
            if given and size:
                self._add_gradients(part, arrays, given, wanted, size, results)
        return results

    def _add_gradients(
        self,
        part: "_Part",
        arrays: list[NDArray[Any]],
        given: list[tuple[int, NDArray[Any]]],
        wanted: Sequence[bool],
        size: int,
        results: list[NDArray[Any] | None],
    ) -> None:
        """Run the program of some results' gradients and add what it finds to the results."""
        key = tuple(i for i, _ in given), tuple(wanted)
        if key not in self._vjps:
            program = compile_vjp(self._function, *key, self._executor.op_table())
            self._vjps[key] = program, program.encode(self._executor.op_table())
        program, code = self._vjps[key]
        sources = [*arrays, *(array for _, array in given)]
        inputs = [
            (array, x.registers)
            for array, x in zip(sources, program.inputs, strict=True)
            if any(register >= 0 for register in x.registers)
        ]
        found = [np.empty((size, *x.shape)) for x in program.outputs]
        outputs = [(array, x.registers) for array, x in zip(found, program.outputs, strict=True) if x.registers]
        if outputs:
            self._executor.run_program(code, program.constants, program.n_registers, inputs, outputs)
        targets = [x for x in results if x is not None]
        for target, array in zip(targets, found, strict=True):
            target += array if target.shape[0] == size else array.sum(axis=0, keepdims=True)

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
