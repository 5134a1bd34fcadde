from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_REGISTERS: int
MAX_VALUES: int

def op_table() -> dict[str, tuple[int, int, int]]: ...
def run_program(
    code: NDArray[np.int32],
    constants: NDArray[np.float64],
    n_registers: int,
    inputs: Iterable[tuple[NDArray[Any], Sequence[int]]],
    outputs: Iterable[tuple[NDArray[Any], Sequence[int]]],
    draws: Sequence[int] = ...,
    seed: int = ...,
    offset: int = ...,
) -> None: ...
