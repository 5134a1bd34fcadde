"""Which random numbers a call draws."""

import operator
from typing import Any, SupportsIndex

__all__ = ["check_draw"]


def check_draw(seed: SupportsIndex, offset: SupportsIndex) -> tuple[int, int]:
    """Return seed and number of the first event as int; TypeError or ValueError where they are none."""
    return _word("seed", seed), _word("offset", offset)


def _word(name: str, number: Any) -> int:
    try:
        value = operator.index(number)
    except TypeError:
        raise TypeError(f"{name}: expected an int, got {type(number).__name__}") from None
    if not 0 <= value < 2**64:
        raise ValueError(f"{name}: expected 0 to 2**64 - 1, got {value}")
    return value
