"""Mappings from numbers to momenta whose forward direction can be one compiled kernel, on the CPU or on a GPU."""

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from madspace.core.device import Device
from madspace.core.stream import Stream
from madspace.core.tensor import Tensor
from madspace.errors import ShapeError
from madspace.phasespace._event_op import EventOp
from madspace.phasespace.host_arrays import (
    checked_arguments,
    checked_results,
    common_batch,
    gpu_of,
    listed,
    made_results,
    refuse_arrays_elsewhere,
    results_of,
)
from madspace.phasespace.host_chunks import run_in_chunks
from madspace.phasespace.mapping import Mapping
from madspace.phasespace.program import ProgramArgument
from madspace.phasespace.results import arguments_by_name, result_type
from madspace.phasespace.types import batch_float, batch_four_vec
from madspace.phasespace.values import NamedTypes

__all__ = ["KernelMapping"]

FLOAT = np.dtype(np.float64)


class KernelMapping(Mapping):
    """A mapping from numbers to momenta whose `map_forward` can be one kernel.

    Subclasses fill in the names and the kernel. An instance is immutable and may be used from several threads.

    Parameters
    ----------
    name : str
        What it is called.
    input_names : sequence of str
        What the map transforms: one number per event each.
    condition_names : sequence of str
        What it needs to know besides: one number per event each.
    output_names : sequence of str
        The momenta that it returns, without ``det``.
    forward : EventOp or None
        The kernel of `map_forward`; without one it runs `forward_function`.
    """

    def __init__(
        self,
        name: str,
        input_names: Sequence[str],
        condition_names: Sequence[str],
        output_names: Sequence[str],
        forward: EventOp | None,
    ) -> None:
        super().__init__(
            name,
            NamedTypes(input_names, [batch_float] * len(input_names)),
            NamedTypes(output_names, [batch_four_vec] * len(output_names)),
            NamedTypes(condition_names, [batch_float] * len(condition_names)),
        )
        self._argument_names = (*input_names, *condition_names)
        self._result_type = result_type((*output_names, "det"))
        self._forward = forward

    @property
    def kernel(self) -> str | None:
        """Name of the fused kernel that `map_forward` runs, with the instruction set of its host build; or None."""
        if self._forward is None:
            return None
        return f"{self._forward.kernel} (host build: {self._forward.isa})"

    def map_forward(
        self,
        inputs: Sequence[Any] = (),
        conditions: Sequence[Any] = (),
        *,
        out: Sequence[Any] | None = None,
        stream: Any = None,
        device: Any = None,
        seed: SupportsIndex | None = None,
        offset: SupportsIndex = 0,
        n_events: SupportsIndex | None = None,
        **named: Any,
    ) -> Any:
        """Map random numbers to phase-space points.

        Parameters
        ----------
        inputs, conditions : sequence of arrays
            Float64 arrays of shape ``(batch,)``, all on one device, from any library: NumPy, torch, CuPy, JAX,
            `madspace.Tensor`. The two lists are read one after the other. An array of length 1 stands for every event.
            The class lists the arguments and their units. Torch tensors that ask for gradients come in without them.
        out : sequence of arrays, optional
            Arrays for the outputs, in their order and ``det`` last; ``None`` entries are allocated. Float64, of the
            outputs' shapes, writable, on the device of the inputs, without memory in common with them or each other.
            Rows may be any distance apart; on a GPU momenta start at multiples of 16 bytes.
        stream : optional
            Where GPU work is queued: a `madspace.Stream`, a handle, anything with ``__cuda_stream__``, a torch stream.
            By default that of a ``with madspace.stream`` block, else the current stream of the framework that owns the
            first input, else the device's own stream.
        device : optional
            Where arrays on the CPU are to be mapped: "cuda", "cuda:<i>", an int or a `madspace.Device`; the results
            come back, and the call waits for them. See `FunctionRuntime.call`. "cpu" and None: where they are.
        seed, offset, n_events : int, optional
            As of `Mapping.map_forward`: random numbers for the inputs that are None, or for all.
        **named : array
            The arguments by name, if both lists are left out.

        Returns
        -------
        Result
            A named tuple of the outputs and ``det``, the Jacobian of the map, shape ``(batch,)``. Arrays of the kind of
            the first input; those given in `out` are returned as they are.

        Raises
        ------
        ShapeError
            Wrong number of arrays, rank, length, row distance or alignment.
        DTypeError
            An array is not float64.
        DeviceMismatchError
            Not all arrays are on the same device, or `device` is given for one that is not on the host.
        ValueError
            An output is read-only or shares memory with another array, or `stream` is given for arrays on the CPU.
        TypeError
            An argument is no array, or names do not fit.
        OutOfMemoryError
            The outputs do not fit into the device's memory.
        DriverError
            The driver refused the launch.
        DriverNotFoundError, CaptureError
            With `device`, as of `FunctionRuntime.call`.

        Notes
        -----
        On a GPU this is one kernel launch: nothing is waited for or copied, and nothing is allocated if all of `out` is
        given. Results that are not given share one allocation: keeping one keeps all. In a capture by another library
        they come from the allocator of the first input's library where it has an exchange table, as torch has; else
        CaptureError asks for `out`. On the CPU the call returns when the results are there; large batches are split
        over threads (``MADSPACE_NUM_THREADS``). The same bits come out for the same input, whatever the batch, the
        number of threads or the run.

        A faulty event (NaN, a number outside [0, 1], a negative mass, an energy below threshold) raises nothing: it
        gets ``det`` 0 and finite values elsewhere.
        """
        if self._forward is None or seed is not None or n_events is not None or offset != 0:
            options = {"out": out, "stream": stream, "device": device}
            return super().map_forward(
                inputs, conditions, **options, seed=seed, offset=offset, n_events=n_events, **named
            )
        if named:
            inputs = arguments_by_name(self._argument_names, [*inputs, *conditions], named)
        if device is not None:
            gpu = gpu_of(device)
            args = [*listed(inputs, "inputs"), *listed(conditions, "conditions")]
            if gpu is not None:
                return self._result_type._make(self._through(gpu, self._forward, args, out, stream))
            refuse_arrays_elsewhere(self._argument_names, args)
        # Not by _make, which is a function of Python's.
        return tuple.__new__(self._result_type, self._forward(inputs, conditions, out, stream))

    def _through(self, gpu: Device, op: EventOp, args: list[Any], out: Sequence[Any] | None, stream: Any) -> list[Any]:
        """Map arrays of the host on a GPU."""
        if len(args) != len(self._argument_names):
            raise ShapeError(
                f"inputs: expected {len(self._argument_names)} arrays ({', '.join(self._argument_names)}), conditions "
                f"counted in, got {len(args)}"
            )
        arguments = [ProgramArgument(name, FLOAT, (), ()) for name in op.input_names]
        places = [ProgramArgument(name, FLOAT, (4,), ()) for name in op.output_names[:-1]]
        places.append(ProgramArgument(op.output_names[-1], FLOAT, (), ()))
        is_shared = [False] * len(places)
        arrays = checked_arguments(arguments, [False] * len(arguments), args, False)
        batch = common_batch(op.input_names, arrays, -1)
        out = None if out is None else listed(out, "out")
        given = checked_results(places, is_shared, out, op.input_names, arrays, batch)
        results = made_results(places, is_shared, given, batch)
        run_in_chunks(_OnDevice(op), arrays, results, is_shared, batch, gpu, stream)
        return results_of(results, args[0], out)


class _OnDevice:
    """A kernel on the chunks of a batch."""

    def __init__(self, op: EventOp) -> None:
        self._op = op

    def load(self, n: int, device: Device, stream: Stream) -> None:
        self._op.load(device, stream)

    def launch(
        self, arguments: list[Tensor | None], results: list[Tensor], begin: int, n: int, device: Device, stream: Stream
    ) -> None:
        self._op(arguments, (), results, stream)
