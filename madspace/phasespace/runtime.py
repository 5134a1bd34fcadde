"""FunctionRuntime: runs a compiled function on arrays, on the CPU or on a GPU."""

from collections.abc import Sequence
from typing import Any, SupportsIndex

from madspace.core._foreign import release_inputs
from madspace.core.creation import asarray
from madspace.core.device import Device
from madspace.core.tensor import Tensor
from madspace.errors import ShapeError
from madspace.phasespace import executor
from madspace.phasespace._program_op import ProgramOp
from madspace.phasespace.compile import compile_graph
from madspace.phasespace.context import Context, default_context
from madspace.phasespace.draws import Draw, check_call
from madspace.phasespace.function_parts import ChunkLauncher, Part
from madspace.phasespace.gradients import Allocate, Gradients
from madspace.phasespace.graph import Graph
from madspace.phasespace.host_arrays import (
    HOST_KINDS,
    checked_arguments,
    checked_results,
    common_batch,
    gpu_of,
    listed,
    made_results,
    results_of,
)
from madspace.phasespace.host_chunks import run_in_chunks
from madspace.phasespace.jit import is_wanted
from madspace.phasespace.program import Program
from madspace.phasespace.types import BatchSize

__all__ = ["FunctionRuntime"]


class FunctionRuntime:
    """A function, compiled; it runs where its arguments are.

    Parameters
    ----------
    function : Function
        What to run.
    context : Context, optional
        Where its globals are; the default context if left out.
    jit : bool, optional
        Whether to compile a kernel of its own for a GPU where none comes with the package, which takes a second or so
        at the first call (CompileError where NVRTC is not installed); ``MADSPACE_JIT`` if left out. Compiled kernels
        are kept in ``MADSPACE_CACHE_DIR`` (``~/.cache/madspace/kernels``). Without it such a function is interpreted,
        which gives the same results at some half of the speed.

    Raises
    ------
    UnsupportedOpError
        The function uses an operation that cannot be run. The message names it.
    ShapeError
        Its arguments have more than one named batch size, or a constant index is out of range.

    Notes
    -----
    Arguments are float64 or int32 arrays of shape ``(batch, *shape)``, all on one device, of any strides and from any
    library; nothing is cast. Length 1 stands for every event, other lengths must agree. Arguments of a type without
    batch axis are numbers, or arrays of shape ``shape`` or ``(1, *shape)``. Results are C-contiguous and new, unless
    `out` has arrays for them. A result that all events share has length 1.

    On the CPU large batches are split over threads (``MADSPACE_NUM_THREADS``). On a GPU a call is one kernel launch on
    its stream: nothing is waited for or copied, and nothing is allocated if all of `out` is given; new results share
    one allocation. In a capture by another library they come from the allocator of the first argument's library where
    it has an exchange table, as torch has; else CaptureError asks for `out`. With `device` arrays on the CPU go to a
    GPU and the results come back, see `call`. A function too large for a GPU raises UnsupportedOpError at its first
    call there.

    Globals are read where the context has them, so arguments must be on its device (``Context(device="cuda")``), or go
    there by `device`.
    """

    def __init__(self, function: Graph, context: Context | None = None, *, jit: bool | None = None) -> None:
        if not isinstance(function, Graph):
            raise TypeError(f"function: expected a Function, got {function!r}")
        self._function = function
        self._kernels = "any" if is_wanted(jit) else "shipped"
        self._context = default_context() if context is None else context
        self._is_shared = [value.type.batch_size == BatchSize.one for value in function.inputs]
        self._argument_names = function.inputs.keys()
        self._global_names = [name for name, _ in function.globals]
        self._result_names = function.outputs.keys()
        self._executor = executor.cpu_executor()
        self._table = self._executor.op_table()
        self._gpu: ProgramOp | None = None
        self._gradients = Gradients(function, self._context, self._executor)
        # What all events share is computed once, by a program of its own.
        self._is_shared_result = [value.type.batch_size == BatchSize.one for value in function.outputs]
        self._parts = [
            Part(function, [i for i, flag in enumerate(self._is_shared_result) if flag is wanted], wanted, self._table)
            for wanted in (True, False)
            if wanted in self._is_shared_result or not (wanted or self._is_shared_result)
        ]
        self._places = [x for _, x in sorted((i, x) for part in self._parts for i, x in part.outputs)]

    @property
    def programs(self) -> list[Program]:
        """The compiled code: for what all events share, if there is such a result, and for each event."""
        return [part.program for part in self._parts]

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run the function; return its only result, or a tuple of all, as arrays of the first argument's library.

        See `call` for the options.
        """
        results = self.arrays(args, **options)
        return results[0] if len(results) == 1 else tuple(results)

    def call(
        self,
        args: Sequence[Any],
        *,
        out: Sequence[Any] | None = None,
        stream: Any = None,
        device: Any = None,
        seed: SupportsIndex | None = None,
        offset: SupportsIndex = 0,
        n_events: SupportsIndex | None = None,
    ) -> list[Any]:
        """Run the function and return its results as tensors.

        Parameters
        ----------
        args : sequence of arrays
            The arguments in order.
        out : sequence of arrays, optional
            Arrays for the results, in their order; ``None`` entries are made. Of the results' shapes and types,
            writable, on the device of the arguments, without memory in common with them or each other; what belongs to
            one event is contiguous. They are returned as they are.
        stream : optional
            Where GPU work is queued: a `madspace.Stream`, a handle, anything with ``__cuda_stream__``, a torch stream.
            By default that of a ``with madspace.stream`` block, else the current stream of the framework that owns the
            first array, else the device's own stream.
        device : optional
            Where arrays on the CPU are to be worked on: "cuda", "cuda:<i>", an int or a `madspace.Device`. They go
            there and the results come back in chunks, whose copies and launches overlap; see Notes. "cpu" and None:
            where they are.
        seed : int, optional
            Arguments that are None are random numbers: column by column those of
            ``madspace.random.uniform((batch, count), seed=seed, offset=offset)``, where `count` is how many one event
            needs. They are made where they are used and never stored.
        offset : int, optional
            The number of the first event.
        n_events : int, optional
            The number of events, where no array tells.

        Raises
        ------
        ShapeError
            Wrong number of arrays, shape, length or alignment.
        DTypeError
            An array is of another type.
        DeviceMismatchError
            Not all arrays are on one device, globals counted in, or `device` is given for one that is not on the CPU.
        ValueError
            A result is read-only or shares memory with another array, or `stream` is given on the CPU.
        TypeError
            An argument is no array.
        UnsupportedOpError
            The arguments are on a GPU, and the function does not fit it.
        OutOfMemoryError, DriverError
            The results do not fit into the device's memory, or the driver refused the launch.
        DriverNotFoundError
            `device` is a GPU, and there is none.
        CaptureError
            `device` is a GPU, and the stream is being captured: the call has to wait.

        Notes
        -----
        With `device` the call returns when the results are there, equal to those for arrays on that device, however the
        batch is cut. It comes behind what is queued on its stream, works on three side streams of it, and what is
        queued later comes behind it. Arrays are copied to page-locked memory and from there by threads of the CPU
        (``MADSPACE_NUM_THREADS``), so that the whole takes little longer than the copies between host and device; the
        host waits for a chunk when it needs its page-locked memory again, and at the end. Arrays of whole events
        without gaps in a `madspace.PinnedBuffer` (``PinnedBuffer.numpy``) are not copied: with those alone it waits
        once. A call takes 96 MiB of page-locked memory and of device memory at most, unless a single event or what all
        events share is large; the former is kept for later calls until ``PinnedBuffer.trim()``. A batch of less than 32
        MiB, arguments and results together, is one chunk. Calls of several threads are independent, but one at a time
        has the CPU's threads. After an error, contents of `out` are undefined, and nothing writes to it any more.
        """
        results = self._run(args, out, stream, device, seed, offset, n_events, True)
        return results if out is not None else [x if isinstance(x, Tensor) else asarray(x) for x in results]

    def arrays(
        self,
        args: Sequence[Any],
        *,
        out: Sequence[Any] | None = None,
        stream: Any = None,
        device: Any = None,
        seed: SupportsIndex | None = None,
        offset: SupportsIndex = 0,
        n_events: SupportsIndex | None = None,
    ) -> list[Any]:
        """Run the function and return its results as arrays of the first argument's library; see `call`."""
        return self._run(args, out, stream, device, seed, offset, n_events, False)

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
        wanted = self._gradients.wanted(input_requires_grad)
        outputs = self.call(args)
        stored, eval_grad = self._gradients.stored(args, wanted)
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
            A step between a result and what its gradient is asked for has no derivative. On a GPU: a global wants a
            gradient, which would be a sum over the events; `madspace.torch.FunctionModule` has those.
        """
        tensors = self._gradients.from_stored(output_grads, stored_locals, eval_grad, as_tensors=True)
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
            A step on the way has no derivative. On a GPU: an array of length 1 wants a gradient, which would be a sum
            over the events, or a result has one that all events share.
        CompileError
            The arguments are on a GPU, and NVRTC is not installed: kernels of gradients are compiled when needed.

        Notes
        -----
        One program computes what it needs of the results and goes back from there: nothing has to be kept. At an edge
        (a random number at 0 or 1, a threshold) gradients may be infinite or NaN, as derivatives are there. Gradients
        of momenta hold for changes that keep them on their mass shells.
        """
        return self._gradients.of_arguments(args, output_grads, input_requires_grad)

    def release_inputs(self, *, wait: bool = False) -> int:
        """Give inputs of other libraries back to their owners, as `madspace.release_inputs` does.

        Parameters
        ----------
        wait : bool, optional
            Whether to wait on the host until the calls that read them are done.

        Returns
        -------
        int
            How many arrays are still held, those of other calls counted in.
        """
        return release_inputs(wait=wait)

    def _allocate_by(self, allocate: Allocate) -> None:
        """Have new arrays on GPUs made by a function, from the first call on, but in captures of madspace."""
        self._gradients.allocate = allocate

    def _arrays_with_grad(
        self, args: Sequence[Any], input_requires_grad: Sequence[bool]
    ) -> tuple[list[Any], list[bool]]:
        """Return what `call_with_grad` does, as arrays of the first argument's library, and nothing stored."""
        wanted = self._gradients.wanted(input_requires_grad)
        return self.arrays(args), self._gradients.flags(wanted)

    def _arrays_backward(
        self, output_grads: Sequence[Any], stored_locals: Sequence[Any], eval_grad: Sequence[bool]
    ) -> list[Any]:
        """Return the gradients of arguments and globals, as arrays of the first argument's library."""
        return self._gradients.from_stored(output_grads, stored_locals, eval_grad, as_tensors=False)

    def _run(
        self,
        args: Sequence[Any],
        out: Sequence[Any] | None,
        stream: Any,
        device: Any,
        seed: SupportsIndex | None,
        offset: SupportsIndex,
        n_events: SupportsIndex | None,
        as_tensors: bool,
    ) -> list[Any]:
        """Run the function where the arguments are, or from the host on a device."""
        # Each line here costs a call on a GPU its share of a microsecond.
        draw = None if seed is None and n_events is None and offset == 0 else check_call(seed, offset, n_events)
        if len(args) != len(self._argument_names):
            raise ShapeError(
                f"arguments: expected {len(self._argument_names)} ({', '.join(self._argument_names)}), got {len(args)}"
            )
        arrays = list(args)
        if self._global_names:
            arrays += map(self._context.get_global, self._global_names)
        for x in () if device is not None else arrays:
            if type(x) is Tensor or not (x is None or isinstance(x, HOST_KINDS)):
                # This tells where the arrays are.
                op = self._gpu or self._gpu_op()
                results = op(arrays, out, stream, as_tensors, draw)
                if results is not None:
                    return results
                break
        gpu = gpu_of(device)
        if gpu is None and stream is not None:
            raise ValueError(f"stream: expected None for arrays on the CPU, got {stream!r}")
        return self._run_from_host(args, out, stream, gpu, draw, as_tensors)

    def _run_from_host(
        self,
        args: Sequence[Any],
        out: Sequence[Any] | None,
        stream: Any,
        gpu: Device | None,
        draw: Draw | None,
        as_tensors: bool,
    ) -> list[Any]:
        """Run the function on arrays on the CPU, there or on a GPU."""
        op = None if gpu is None else self._gpu or self._gpu_op()
        inputs = self._parts[0].program.inputs
        arrays = checked_arguments(inputs[: len(args)], self._is_shared, args, draw is not None)
        batch = common_batch(self._argument_names, arrays, -1 if draw is None else draw[2])
        out = None if out is None else listed(out, "out")
        given = checked_results(self._places, self._is_shared_result, out, self._argument_names, arrays, batch)
        results = made_results(self._places, self._is_shared_result, given, batch)
        if op is not None and gpu is not None:
            shared = [self._context.get_global(name) for name in self._global_names]
            on_device = ChunkLauncher(op, draw, arrays, shared)
            run_in_chunks(on_device, arrays, results, self._is_shared_result, batch, gpu, stream)
        else:
            arrays += [self._context.array(x.name, x.dtype, x.shape) for x in inputs[len(args) :]]
            for part in self._parts:
                part.run(self._executor, arrays, batch, results, draw)
        first = next((x for x in args if x is not None and not as_tensors), None)
        return results_of(results, first, out)

    def _gpu_op(self) -> ProgramOp:
        """Make what runs the function on GPUs."""
        program = compile_graph(self._function, self._table)
        shared = self._parts[0].program if self._parts[0].is_shared else None
        is_shared = [*self._is_shared, *[True] * len(self._global_names)]
        self._gpu = ProgramOp(
            program, shared, is_shared, self._is_shared_result, self._kernels, self._gradients.allocate
        )
        return self._gpu
