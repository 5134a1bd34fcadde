from collections.abc import Sequence
from typing import Any, final

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
        input_whole: Sequence[bool] | None = None,
    ) -> None: ...
    def __call__(
        self,
        arrays: list[Any],
        out: Sequence[Any] | None,
        stream: Any,
        as_tensors: bool,
        draw: tuple[int, int, int] | None,
    ) -> list[Any] | None: ...
