"""Context: named arrays that functions read."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from madspace.core.creation import asarray
from madspace.core.tensor import Tensor
from madspace.errors import DTypeError, ShapeError, UnsupportedOpError
from madspace.phasespace.types import DataType

__all__ = ["Context", "default_context"]

_DTYPES: dict[DataType, Any] = {DataType.int: np.int32, DataType.float: np.float64}


class Context:
    """The globals of functions, on the CPU.

    Parameters
    ----------
    device : "cpu" or int, optional
        The device; the CPU is the only one. An integer is `thread_count`, as in MadSpace 0.2.1.
    thread_count : int
        Kept for compatibility, without effect: all contexts share the threads of `madspace.set_num_threads`.

    Raises
    ------
    UnsupportedOpError
        `device` is not the CPU.
    """

    def __init__(self, device: Any = "cpu", thread_count: SupportsIndex = -1) -> None:
        if not isinstance(device, int) and device != "cpu":
            raise UnsupportedOpError(f"device: functions run on the CPU in this version, got {device!r}")
        self._arrays: dict[str, NDArray[Any]] = {}
        self._requires_grad: dict[str, bool] = {}

    def device(self) -> str:
        """Return ``"cpu"``."""
        return "cpu"

    def define_global(
        self, name: str, dtype: DataType, shape: Sequence[SupportsIndex], requires_grad: bool = False
    ) -> Tensor:
        """Make an array of zeros of shape ``(1, *shape)`` and return it; a name that is there raises ValueError."""
        if name in self._arrays:
            raise ValueError(f"name: expected a new global, got {name!r} again")
        if dtype not in _DTYPES:
            raise DTypeError(f"dtype: expected float or int, got {dtype}")
        self._arrays[name] = np.zeros((1, *(extent.__index__() for extent in shape)), _DTYPES[dtype])
        self._requires_grad[name] = requires_grad
        return self.get_global(name)

    def get_global(self, name: str) -> Tensor:
        """Return the array of that name; it shares the memory that functions read."""
        return asarray(self._known(name))

    def global_exists(self, name: str) -> bool:
        """Tell whether there is an array of that name."""
        return name in self._arrays

    def global_names(self) -> list[str]:
        """Return the names, sorted."""
        return sorted(self._arrays)

    def global_requires_grad(self, name: str) -> bool:
        """Tell whether the array was defined with ``requires_grad``."""
        self._known(name)
        return self._requires_grad[name]

    def delete_global(self, name: str) -> None:
        """Forget an array."""
        self._known(name)
        del self._arrays[name], self._requires_grad[name]

    def copy_globals_from(self, context: "Context") -> None:
        """Overwrite each array that the other context has as well."""
        for name in self._arrays.keys() & context._arrays.keys():
            np.copyto(self._arrays[name], context._arrays[name], casting="no")

    def save_globals(self, dir: str) -> None:
        """Write each array to ``dir/NAME.npy``."""
        folder = Path(dir)
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in self._arrays.items():
            np.save(folder / f"{name}.npy", array)

    def load_globals(self, dir: str) -> None:
        """Define a global from each ``.npy`` file of a folder, named after the file."""
        for path in sorted(Path(dir).glob("*.npy")):
            array = np.load(path, allow_pickle=False)
            dtype = {np.dtype(np.int32): DataType.int, np.dtype(np.float64): DataType.float}.get(array.dtype)
            if dtype is None:
                raise DTypeError(f"{path.name}: expected float64 or int32, got {array.dtype}")
            if array.ndim == 0 or array.shape[0] != 1:
                raise ShapeError(f"{path.name}: expected a leading axis of 1, got shape {array.shape}")
            self.define_global(path.stem, dtype, array.shape[1:])
            self._arrays[path.stem][...] = array

    def load_matrix_element(self, file: str, param_card: str) -> NoReturn:
        """Raise UnsupportedOpError: there are no matrix elements in this version."""
        raise UnsupportedOpError("load_matrix_element: matrix elements are not part of this version")

    def matrix_element(self, index: SupportsIndex) -> NoReturn:
        """Raise UnsupportedOpError: there are no matrix elements in this version."""
        raise UnsupportedOpError("matrix_element: matrix elements are not part of this version")

    def array(self, name: str, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the array that a function reads, after checking its type; a missing one raises ValueError."""
        array = self._known(name)
        if array.dtype != dtype:
            raise DTypeError(f"{name}: expected a global of {dtype}, got {array.dtype}")
        if array.shape != (1, *shape):
            raise ShapeError(f"{name}: expected a global of shape {(1, *shape)}, got {array.shape}")
        return array

    def _known(self, name: str) -> NDArray[Any]:
        if name not in self._arrays:
            raise ValueError(f"name: expected a global of the context, got {name!r}")
        return self._arrays[name]


@functools.cache
def default_context() -> Context:
    """Return the context that functions use if none is given."""
    return Context()
