"""Context: named arrays that functions read."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from madspace.core.creation import zeros
from madspace.core.device import Device, as_device_or_host
from madspace.core.tensor import Tensor
from madspace.errors import DeviceMismatchError, DTypeError, ShapeError, UnsupportedOpError
from madspace.phasespace.types import DataType

__all__ = ["Context", "default_context"]

_DTYPES: dict[DataType, Any] = {DataType.int: np.int32, DataType.float: np.float64}


class Context:
    """The globals of functions, all of them on one device.

    Parameters
    ----------
    device : "cpu", "cuda", "cuda:<i>" or Device, optional
        Where the globals are, and so the functions run that read them. An integer is `thread_count`, as in MadSpace
        0.2.1.
    thread_count : int
        Kept for compatibility, without effect: all contexts share the threads of `madspace.set_num_threads`.

    Raises
    ------
    ValueError, TypeError
        `device` is something else.
    DriverNotFoundError, DriverError, ForkError
        As from ``Device``.

    Notes
    -----
    There is one memory of each global, the tensor that `get_global` returns: functions read it in place, and a change
    to it is seen by every call that comes after the change on its stream, or on any stream where the change was made
    through this package (`Tensor.copy_from`, `Tensor.fill`). What torch writes into ``get_global(name).torch()`` is in
    order with calls on the same stream of torch. Nothing is copied at a call, so arguments on another device than the
    globals raise DeviceMismatchError.
    """

    def __init__(self, device: Any = "cpu", thread_count: SupportsIndex = -1) -> None:
        self._device = None if isinstance(device, int) else as_device_or_host(device)
        self._tensors: dict[str, Tensor] = {}
        self._requires_grad: dict[str, bool] = {}

    def device(self) -> Device | Literal["cpu"]:
        """Return where the globals are: ``"cpu"`` or a Device."""
        return "cpu" if self._device is None else self._device

    def define_global(
        self, name: str, dtype: DataType, shape: Sequence[SupportsIndex], requires_grad: bool = False
    ) -> Tensor:
        """Make an array of zeros of shape ``(1, *shape)`` and return it; a name that is there raises ValueError."""
        if name in self._tensors:
            raise ValueError(f"name: expected a new global, got {name!r} again")
        if dtype not in _DTYPES:
            raise DTypeError(f"dtype: expected float or int, got {dtype}")
        self._tensors[name] = zeros((1, *shape), _DTYPES[dtype], device=self._device)
        self._requires_grad[name] = requires_grad
        return self._tensors[name]

    def get_global(self, name: str) -> Tensor:
        """Return the array of that name; it is the memory that functions read."""
        if name not in self._tensors:
            raise ValueError(f"name: expected a global of the context, got {name!r}")
        return self._tensors[name]

    def global_exists(self, name: str) -> bool:
        """Tell whether there is an array of that name."""
        return name in self._tensors

    def global_names(self) -> list[str]:
        """Return the names, sorted."""
        return sorted(self._tensors)

    def global_requires_grad(self, name: str) -> bool:
        """Tell whether the array was defined with ``requires_grad``."""
        self.get_global(name)
        return self._requires_grad[name]

    def delete_global(self, name: str) -> None:
        """Forget an array."""
        self.get_global(name)
        del self._tensors[name], self._requires_grad[name]

    def copy_globals_from(self, context: "Context") -> None:
        """Overwrite each array that the other context has as well.

        Between contexts on one device, and from the CPU to a device, nothing is waited for; otherwise the call waits
        for the data. Arrays of another shape or type raise ShapeError or DTypeError.
        """
        for name in self._tensors.keys() & context._tensors.keys():
            source = context._tensors[name]
            self._tensors[name].copy_from(source if context._device in (None, self._device) else source.numpy())

    def save_globals(self, dir: str) -> None:
        """Write each array to ``dir/NAME.npy``, after waiting for it."""
        folder = Path(dir)
        folder.mkdir(parents=True, exist_ok=True)
        for name, tensor in self._tensors.items():
            np.save(folder / f"{name}.npy", tensor.numpy())

    def load_globals(self, dir: str) -> None:
        """Define a global from each ``.npy`` file of a folder, named after the file."""
        for path in sorted(Path(dir).glob("*.npy")):
            array = np.load(path, allow_pickle=False)
            dtype = {np.dtype(np.int32): DataType.int, np.dtype(np.float64): DataType.float}.get(array.dtype)
            if dtype is None:
                raise DTypeError(f"{path.name}: expected float64 or int32, got {array.dtype}")
            if array.ndim == 0 or array.shape[0] != 1:
                raise ShapeError(f"{path.name}: expected a leading axis of 1, got shape {array.shape}")
            self.define_global(path.stem, dtype, array.shape[1:]).copy_from(array)

    def load_matrix_element(self, file: str, param_card: str) -> NoReturn:
        """Raise UnsupportedOpError: there are no matrix elements in this version."""
        raise UnsupportedOpError("load_matrix_element: matrix elements are not part of this version")

    def matrix_element(self, index: SupportsIndex) -> NoReturn:
        """Raise UnsupportedOpError: there are no matrix elements in this version."""
        raise UnsupportedOpError("matrix_element: matrix elements are not part of this version")

    def array(self, name: str, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the array that a function reads on the CPU, after checking it; a missing one raises ValueError."""
        tensor = self.get_global(name)
        if self._device is not None:
            raise DeviceMismatchError(
                f"{name}: expected a global on the CPU, as the arguments, got one on {self._device}"
            )
        if tensor.dtype != dtype:
            raise DTypeError(f"{name}: expected a global of {dtype}, got {tensor.dtype}")
        if tensor.shape != (1, *shape):
            raise ShapeError(f"{name}: expected a global of shape {(1, *shape)}, got {tensor.shape}")
        return tensor.numpy()


@functools.cache
def default_context() -> Context:
    """Return the context that functions use if none is given."""
    return Context()
