"""Mappings from numbers to momenta whose forward direction can be one compiled kernel, on the CPU or on a GPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from madspace.core.device import Device
from madspace.core.stream import Stream
from madspace.core.tensor import Tensor
from madspace.errors import ShapeError
from madspace.phasespace._event_op import EventOp, map_forward
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

    map_forward = map_forward

    def _map_forward_otherwise(
        self, inputs: Sequence[Any], conditions: Sequence[Any], named: dict[str, Any], **options: Any
    ) -> Any:
        """Map forward by other means than one call of the kernel on arrays in their order."""
        draws = options["seed"] is not None or options["n_events"] is not None or options["offset"] != 0
        if self._forward is None or draws:
            return super().map_forward(inputs, conditions, **options, **named)
        if named:
            inputs = arguments_by_name(self._argument_names, [*inputs, *conditions], named)
        args = [*listed(inputs, "inputs"), *listed(conditions, "conditions")]
        out, stream = options["out"], options["stream"]
        gpu = None if options["device"] is None else gpu_of(options["device"])
        if gpu is not None:
            results = self._through(gpu, self._forward, args, out, stream)
        else:
            if options["device"] is not None:
                refuse_arrays_elsewhere(self._argument_names, args)
            results = self._forward(args, (), out, stream)
        return self._result_type._make(results)

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
