"""Named arguments and named results of functions and mappings."""

import functools
from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["arguments_by_name", "result_type"]


@functools.cache
def result_type(names: tuple[str, ...]) -> Any:
    """Return the named tuple of results, one class for all functions with the same outputs."""
    base: Any = namedtuple("Result", names, rename=True)  # type: ignore[misc]

    def reduce(self: Any) -> tuple[Any, ...]:
        return _rebuild_result, (names, tuple(self))

    return type("Result", (base,), {"__slots__": (), "__reduce__": reduce})


def _rebuild_result(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """Undo the pickling of a result."""
    return result_type(names)._make(values)


def arguments_by_name(names: Sequence[str], given: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """Return the arguments in order, from those by name; TypeError where both ways are used or names do not fit."""
    if given:
        raise TypeError("inputs: expected either lists or arguments by name, got both")
    if set(named) != set(names):
        raise TypeError(f"inputs: expected the names {tuple(names)}, got {tuple(named)}")
    return [named[name] for name in names]
