"""What runs programs, as the runtime sees it."""

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from madspace.cpu import _programs

__all__ = ["Executor", "cpu_executor"]

Operands = Sequence[tuple[NDArray[Any], Sequence[int]]]


class Executor(Protocol):
    """A module that runs programs over arrays on the host."""

    def op_table(self) -> dict[str, tuple[int, int, int]]:
        """Return number, inputs and outputs of each op; -1 for lists of any length."""

    def run_program(
        self,
        code: NDArray[Any],
        constants: NDArray[Any],
        n_registers: int,
        inputs: Operands,
        outputs: Operands,
        draws: Sequence[int] = (),
        seed: int = 0,
        offset: int = 0,
    ) -> None:
        """Run the code for every event.

        An input is an array of shape ``(batch or 1, *shape)`` with the register of each element of an event, -1 where
        it is not read; an output is a C-contiguous array of shape ``(batch, *shape)`` likewise. `draws` are the
        registers of random numbers, those of `madspace.random.uniform` with this seed and offset.
        """


def cpu_executor() -> Executor:
    """Return the executor of the CPU."""
    return _programs
