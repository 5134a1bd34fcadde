"""Arrays of programs on the host: checks, the size of the batch, and the caller's kind of array."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from madspace.core.creation import asarray
from madspace.core.tensor import Tensor
from madspace.errors import DeviceMismatchError, DTypeError, ShapeError
from madspace.phasespace.program import ProgramArgument

__all__ = ["HOST_KINDS", "as_kind_of", "checked", "checked_result", "common_batch"]

# What is on the CPU for sure.
HOST_KINDS = (np.ndarray, np.generic, float, int)


def checked(argument: ProgramArgument, array: Any, is_shared: bool) -> NDArray[Any]:
    """Return an argument as a NumPy array with a batch axis."""
    if not isinstance(array, np.ndarray):
        tensor = asarray(array)
        if tensor.device != "cpu":
            raise DeviceMismatchError(f"{argument.name}: expected an array on the CPU, got one on {tensor.device}")
        array = tensor.numpy()
    if array.dtype != argument.dtype or not array.dtype.isnative:
        raise DTypeError(f"{argument.name}: expected dtype {argument.dtype}, got {array.dtype}")
    if is_shared and array.shape == argument.shape:
        array = array[np.newaxis]
    if array.shape[1:] != argument.shape or array.ndim == 0 or (is_shared and array.shape[0] != 1):
        wanted = ", ".join(map(str, (1 if is_shared else "batch", *argument.shape)))
        raise ShapeError(
            f"{argument.name}: expected shape ({wanted}{'' if argument.shape else ','}), got {array.shape}"
        )
    return np.require(array, requirements="A")


def checked_result(label: str, argument: ProgramArgument, result: Any, length: int) -> NDArray[Any]:
    """Return an array for a result as a NumPy array."""
    if isinstance(result, np.ndarray):
        array: NDArray[Any] = result
    else:
        tensor = asarray(result)
        if tensor.device != "cpu":
            raise DeviceMismatchError(f"{label}: expected an array on the CPU, got one on {tensor.device}")
        array = tensor.numpy()
    if array.dtype != argument.dtype or not array.dtype.isnative:
        raise DTypeError(f"{label}: expected dtype {argument.dtype}, got {array.dtype}")
    if array.shape != (length, *argument.shape):
        raise ShapeError(f"{label}: expected shape {(length, *argument.shape)}, got {array.shape}")
    if not array.flags.writeable:
        raise ValueError(f"{label}: expected a writable array, got a read-only one")
    if length and not array[0].flags.c_contiguous:
        raise ShapeError(f"{label}: expected events that are contiguous, got strides {array.strides} (in bytes)")
    if not array.flags.aligned:
        raise ShapeError(f"{label}: expected aligned data")
    return array


def common_batch(names: Sequence[str], arrays: Sequence[NDArray[Any] | None], n_events: int) -> int:
    """Return the number of events; arrays of length 1 fit any."""
    batch, source = (1, "") if n_events < 0 else (n_events, "n_events")
    for name, array in zip(names, arrays, strict=True):
        length = 1 if array is None else array.shape[0]
        if length == 1:
            continue
        if source and length != batch:
            raise ShapeError(f"{name}: expected {batch} events, as {source} has, got {length}")
        batch, source = length, name
    return batch


def as_kind_of(result: NDArray[Any], first: Any) -> Any:
    """Return a result as an array of the library of the first argument: Tensor, torch, else NumPy."""
    if isinstance(first, Tensor):
        return asarray(result)
    if type(first).__module__.partition(".")[0] == "torch":
        return asarray(result).torch()
    return result
