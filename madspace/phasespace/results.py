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
    wanted = f"inputs: expected the names {tuple(names)}"
    for name in named:
        if name not in names:
            raise TypeError(f"{wanted}, got {name!r}, which is none of them nor an option of the call")
    if given:
        raise TypeError("inputs: expected either lists or arguments by name, got both")
    if missing := [name for name in names if name not in named]:
        raise TypeError(f"{wanted}, got {tuple(named)}: {', '.join(missing)} missing")
    return [named[name] for name in names]
