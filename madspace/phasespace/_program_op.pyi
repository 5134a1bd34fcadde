from collections.abc import Callable, Sequence
from typing import Any, final

from madspace.core.device import Device
from madspace.core.stream import Stream
from madspace.phasespace.program import Program

@final
class ProgramOp:
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    def __init__(
        self,
        program: Program,
        shared_program: Program | None,
        input_shared: Sequence[bool],
        output_shared: Sequence[bool],
        kernels: str,
        allocate: Callable[[tuple[int, ...], bool, int], Any] | None = None,
        input_whole: Sequence[bool] | None = None,
    ) -> None: ...
    def load(self, n: int, drawn: tuple[int, ...], device: Device, stream: Stream) -> None: ...
    def __call__(
        self,
        arrays: list[Any],
        out: Sequence[Any] | None,
        stream: Any,
        as_tensors: bool,
        draw: tuple[int, int, int] | None,
        device: Device | None = None,
    ) -> list[Any] | None: ...
