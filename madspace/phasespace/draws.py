"""Which random numbers a call draws."""

import operator
from typing import Any, SupportsIndex, TypeAlias

__all__ = ["Draw", "check_call", "check_draw"]

# Seed, number of the first event, number of events; -1: as many as the arrays have.
Draw: TypeAlias = tuple[int, int, int]


def check_call(seed: SupportsIndex | None, offset: SupportsIndex, n_events: SupportsIndex | None) -> Draw:
    """Return what a call draws; TypeError or ValueError where the three do not say that."""
    count = -1 if n_events is None else operator.index(n_events)
    if n_events is not None and count < 0:
        raise ValueError(f"n_events: expected 0 or more, got {count}")
    if seed is None:
        raise TypeError("seed: expected an int with offset or n_events, got None")
    return *check_draw(seed, offset), count


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
