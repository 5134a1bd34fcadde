"""Arithmetic on constants, and the rules that leave an operation out; IEEE float64 as at run time."""

import math
from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["evaluate", "same_as"]


def _add_int(x: float, y: float) -> float:
    return float((int(x) + int(y) + 2**31) % 2**32 - 2**31)


_FUNCTIONS: dict[str, Callable[..., float]] = {
    "add": lambda x, y: x + y,
    "add_int": _add_int,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "sqrt": np.sqrt,
    "square": lambda x: x * x,
    "abs": abs,
    "min": np.minimum,
    "max": np.maximum,
}


def evaluate(name: str, arguments: Sequence[float]) -> float | None:
    """Return the result of an operation on constants, None for one that is not computed here."""
    function = _FUNCTIONS.get(name)
    if function is None:
        return None
    with np.errstate(all="ignore"):
        return float(function(*map(np.float64, arguments)))


def same_as(name: str, constants: Sequence[float | None]) -> int | None:
    """Return which argument of an operation on scalars is its result, where that is known without computing.

    Parameters
    ----------
    name : str
        The operation.
    constants : sequence
        Its arguments, None for those that are no constants.

    Notes
    -----
    ``x + 0``, ``0 + x``, ``x - 0``, ``x * 1``, ``1 * x`` and ``x / 1`` are ``x``. ``0 - x`` is not.
    """
    if len(constants) != 2:
        return None
    x, y = constants
    if name in ("add", "add_int"):
        return 0 if y == 0.0 else 1 if x == 0.0 else None
    if name == "sub":
        return 0 if y == 0.0 and math.copysign(1.0, y) > 0.0 else None
    if name == "mul":
        return 0 if y == 1.0 else 1 if x == 1.0 else None
    if name == "div":
        return 0 if y == 1.0 else None
    return None
