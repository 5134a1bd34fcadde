"""Random numbers that depend on a seed and on their place alone: the same on every device, in any partition."""

from collections.abc import Sequence
from typing import Any, SupportsIndex

from madspace.core.device import Device
from madspace.core.tensor import Tensor
from madspace.phasespace._random import make_uniform
from madspace.phasespace.draws import check_draw

__all__ = ["uniform"]


def uniform(
    shape: SupportsIndex | Sequence[SupportsIndex],
    *,
    seed: SupportsIndex,
    offset: SupportsIndex = 0,
    device: str | SupportsIndex | Device | None = None,
    stream: Any = None,
) -> Tensor:
    """Make random numbers, uniform in [0, 1).

    Parameters
    ----------
    shape : int or sequence of int
        The first axis counts events.
    seed : int
        From 0 to 2**64 - 1.
    offset : int, optional
        The number of the first event, from 0 to 2**64 - 1.
    device : {None, "cpu", "cuda", "cuda:<i>"} or Device, optional
        Where the result lies; the CPU if left out.
    stream : Stream or int, optional
        Where GPU work is queued, as of `madspace.empty`.

    Returns
    -------
    Tensor
        Float64, of shape `shape`, multiples of 2**-53.

    Raises
    ------
    ShapeError, ValueError, OutOfMemoryError
        As from `madspace.empty`; ValueError for a seed or an offset out of range as well.
    TypeError
        When seed or offset is no int.

    Notes
    -----
    Number j of event e depends on the seed, ``offset + e`` and j alone: the same bits on every device, and a batch may
    be cut anywhere. Asynchronous on a GPU. `FunctionRuntime.call` makes the same numbers inside the kernel.

    Philox4x32-10 with the key `seed` and the counter ``(offset + e) + 2**64 (j // 2)``: J. Salmon, M. Moraes, R. Dror,
    D. Shaw, SC'11, doi:10.1145/2063384.2063405.

    Examples
    --------
    >>> import madspace
    >>> whole = madspace.random.uniform((4, 3), seed=1)
    >>> part = madspace.random.uniform((2, 3), seed=1, offset=2)
    >>> bool((whole.numpy()[2:] == part.numpy()).all())
    True
    """
    return make_uniform(shape, *check_draw(seed, offset), device, stream)
