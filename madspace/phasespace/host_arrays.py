"""Arrays of programs on the host: checks, the size of the batch, and the caller's kind of array."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from madspace.core.creation import asarray
from madspace.core.device import Device, as_device_or_host
from madspace.core.tensor import Tensor
from madspace.errors import DeviceMismatchError, DTypeError, ShapeError
from madspace.phasespace.program import ProgramArgument

__all__ = [
    "HOST_KINDS",
    "as_kind_of",
    "checked",
    "checked_arguments",
    "checked_results",
    "common_batch",
    "gpu_of",
    "listed",
    "made_results",
    "refuse_arrays_elsewhere",
    "results_of",
]

# What is on the CPU for sure.
HOST_KINDS = (np.ndarray, np.generic, float, int)


def listed(arrays: Any, name: str) -> list[Any]:
    """Return the entries of a sequence; for what is none TypeError names the argument."""
    try:
        return list(arrays)
    except TypeError:
        raise TypeError(f"{name}: expected a sequence of arrays, got {type(arrays).__name__}") from None


def on_host(name: str, array: Any) -> NDArray[Any]:
    """Return an array on the CPU as a NumPy array, without a copy."""
    if isinstance(array, np.ndarray):
        return array
    try:
        tensor = asarray(array)
    except TypeError as error:
        raise TypeError(f"{name}: expected an array, got {type(array).__name__}") from error
    if tensor.device != "cpu":
        raise DeviceMismatchError(f"{name}: expected an array on the CPU, got one on {tensor.device}")
    return tensor.numpy()


def checked(argument: ProgramArgument, array: Any, is_shared: bool) -> NDArray[Any]:
    """Return an argument as a NumPy array with a batch axis."""
    array = on_host(argument.name, array)
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


def checked_arguments(
    arguments: Sequence[ProgramArgument], is_shared: Sequence[bool], args: Sequence[Any], can_draw: bool
) -> list[NDArray[Any] | None]:
    """Return arguments as NumPy arrays with a batch axis, None where they are drawn."""
    arrays: list[NDArray[Any] | None] = []
    for argument, array, flag in zip(arguments, args, is_shared, strict=True):
        if array is not None or not can_draw:
            arrays.append(checked(argument, array, flag))
        elif flag or argument.dtype != np.float64:
            raise TypeError(f"{argument.name}: expected an array, got None: only float64 of each event is drawn")
        else:
            arrays.append(None)
    return arrays


def checked_results(
    results: Sequence[ProgramArgument],
    is_shared: Sequence[bool],
    out: Sequence[Any] | None,
    names: Sequence[str],
    arrays: Sequence[NDArray[Any] | None],
    batch: int,
) -> list[NDArray[Any] | None]:
    """Return the arrays for results as NumPy arrays, None where one is to be made; `names` are those of `arrays`."""
    if out is None:
        return [None] * len(results)
    if len(out) != len(results):
        raise ShapeError(f"out: expected {len(results)} entries ({', '.join(x.name for x in results)}), got {len(out)}")
    given: list[NDArray[Any] | None] = []
    labels = [f"out[{i}] ({place.name})" for i, place in enumerate(results)]
    for label, place, result, flag in zip(labels, results, out, is_shared, strict=True):
        array = None if result is None else checked_result(label, place, result, 1 if flag else batch)
        for other, known in [*zip(names, arrays, strict=False), *zip(labels, given, strict=False)]:
            if array is not None and known is not None and overlap(array, known):
                raise ValueError(f"{label}: expected memory of its own, got memory shared with {other}")
        given.append(array)
    return given


def overlap(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Tell whether arrays with a row per event may share bytes; columns of one table do not, as on a device."""
    if not np.may_share_memory(a, b):
        return False
    stride = a.strides[0]
    if b.strides[0] != stride or not (a[0].flags.c_contiguous and b[0].flags.c_contiguous):
        return True
    gap = (b.__array_interface__["data"][0] - a.__array_interface__["data"][0]) % max(stride, 1)
    return not a[0].nbytes <= gap <= stride - b[0].nbytes


def checked_result(label: str, argument: ProgramArgument, result: Any, length: int) -> NDArray[Any]:
    """Return an array for a result as a NumPy array."""
    array = on_host(label, result)
    if array.dtype != argument.dtype or not array.dtype.isnative:
        raise DTypeError(f"{label}: expected dtype {argument.dtype}, got {array.dtype}")
    if array.shape != (length, *argument.shape):
        raise ShapeError(f"{label}: expected shape {(length, *argument.shape)}, got {array.shape}")
    if not array.flags.writeable:
        raise ValueError(f"{label}: expected a writable array, got a read-only one")
    if length and (not array[0].flags.c_contiguous or (length > 1 and abs(array.strides[0]) < array[0].nbytes)):
        raise ShapeError(
            f"{label}: expected events that are contiguous and do not overlap, got strides {array.strides} (in bytes)"
        )
    if not array.flags.aligned:
        raise ShapeError(f"{label}: expected aligned data")
    return array


def made_results(
    results: Sequence[ProgramArgument],
    is_shared: Sequence[bool],
    given: Sequence[NDArray[Any] | None],
    batch: int,
) -> list[NDArray[Any]]:
    """Return the arrays for results, new ones where none was given."""
    return [
        np.empty((1 if flag else batch, *x.shape), x.dtype) if array is None else array
        for x, flag, array in zip(results, is_shared, given, strict=True)
    ]


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


def results_of(made: Sequence[NDArray[Any]], first: Any, out: Sequence[Any] | None) -> list[Any]:
    """Return results as arrays of the library of the first argument, those that were given as they are."""
    results = [as_kind_of(x, first) for x in made]
    return results if out is None else [new if x is None else x for new, x in zip(results, out, strict=True)]


def gpu_of(device: Any) -> Device | None:
    """Return the GPU that an argument `device` names; None for None and the CPU."""
    return None if device is None else as_device_or_host(device)


def refuse_arrays_elsewhere(names: Sequence[str], args: Sequence[Any]) -> None:
    """Raise DeviceMismatchError for an array that is not on the CPU."""
    for name, array in zip(names, args, strict=False):
        if not isinstance(array, HOST_KINDS) and array is not None and (there := asarray(array).device) != "cpu":
            raise DeviceMismatchError(f"{name}: expected an array on the CPU, got one on {there}")
