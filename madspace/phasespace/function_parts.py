"""What a FunctionRuntime runs: on the CPU a program for results that are computed together, on a GPU one chunk."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from madspace.core.device import Device
from madspace.core.stream import Stream
from madspace.core.tensor import Tensor
from madspace.phasespace import executor
from madspace.phasespace._program_op import ProgramOp
from madspace.phasespace.columns import draws
from madspace.phasespace.compile import compile_graph
from madspace.phasespace.draws import Draw
from madspace.phasespace.graph import Graph
from madspace.phasespace.values import NamedValues

__all__ = ["ChunkLauncher", "Part"]


class ChunkLauncher:
    """A function on the chunks of a batch, for `run_in_chunks`."""

    def __init__(
        self, op: ProgramOp, draw: Draw | None, arrays: Sequence[NDArray[Any] | None], shared: list[Tensor]
    ) -> None:
        self._op, self._draw, self._shared = op, draw, shared
        self._drawn = tuple(i for i, x in enumerate(arrays) if x is None)

    def load(self, n: int, device: Device, stream: Stream) -> None:
        """Load or compile what runs for n events."""
        self._op.load(n, self._drawn, device, stream)

    def launch(
        self, arguments: list[Tensor | None], results: list[Tensor], begin: int, n: int, device: Device, stream: Stream
    ) -> None:
        """Queue the work on n events."""
        seed, first, _ = self._draw or (0, 0, 0)
        # Numbers of events are those of 64 bits, as on the device.
        draw = None if self._draw is None else (seed, (first + begin) % 2**64, n)
        self._op([*arguments, *self._shared], results, stream, True, draw, device)


class Part:
    """The outputs of a function that are computed together."""

    def __init__(
        self, function: Graph, positions: list[int], is_shared: bool, table: dict[str, tuple[int, int, int]]
    ) -> None:
        outputs = function.outputs
        names = outputs.keys()
        wanted = NamedValues([names[i] for i in positions], [outputs[i] for i in positions])
        graph = Graph(function.inputs, wanted, function.locals, function.globals, function.instructions)
        self.is_shared = is_shared
        self.program = compile_graph(graph, table)
        self.outputs = list(zip(positions, self.program.outputs, strict=True))
        self.code = self.program.encode(table)
        self.used = [
            (i, argument.registers)
            for i, argument in enumerate(self.program.inputs)
            if any(register >= 0 for register in argument.registers)
        ]

    def run(
        self,
        executor: executor.Executor,
        arrays: Sequence[NDArray[Any] | None],
        batch: int,
        results: Sequence[NDArray[Any]],
        draw: Draw | None,
    ) -> None:
        """Write the results of this part, of those of the function."""
        outputs = [(results[i], argument.registers) for i, argument in self.outputs if argument.registers]
        if (self.is_shared or batch) and outputs:
            inputs = [(array, registers) for i, registers in self.used if (array := arrays[i]) is not None]
            code = self.code, self.program.constants, self.program.n_registers
            registers = draws(self.program, [i for i, array in enumerate(arrays) if array is None])
            if draw is None or max(registers, default=-1) < 0:
                executor.run_program(*code, inputs, outputs)
            else:
                executor.run_program(*code, inputs, outputs, registers, *draw[:2])
