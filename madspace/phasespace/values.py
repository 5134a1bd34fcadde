"""Values of a compute graph, and ordered lists of values or types with names."""

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, NoReturn, SupportsFloat, SupportsIndex, TypeAlias, TypeVar, overload

import numpy as np

from madspace.errors import DTypeError, ShapeError
from madspace.phasespace.types import BatchSize, DataType, Type

__all__ = ["Literal", "NamedTypes", "NamedValues", "Value", "ValueLike", "as_value"]

Literal: TypeAlias = int | float | tuple[list[int], list[int] | list[float]] | None
_INT32 = range(-(2**31), 2**31)


class Value:
    """A value of a compute graph: a constant, or what an input, a global or an instruction gives.

    Parameters
    ----------
    value : int, float or nested sequence of these
        The constant: int32 or float64, the same for all events.

    Raises
    ------
    DTypeError
        If it is neither.
    ValueError
        If an integer does not fit into int32.
    """

    __slots__ = ("_literal", "_local_index", "_type")

    def __init__(self, value: SupportsIndex | SupportsFloat | Sequence[Any]) -> None:
        self._local_index = -1
        self._literal: Literal
        if isinstance(value, float | int) and not isinstance(value, bool):
            self._literal = value  # the common case, without a way through NumPy
            dtype, shape, numbers = _dtype_of(value), [], [value]
        else:
            array = np.asarray(value)
            if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
                raise DTypeError(f"value: expected integers or floats, got {value!r}")
            dtype = DataType.float if array.dtype.kind == "f" else DataType.int
            shape, numbers = list(array.shape), array.ravel().tolist()
            self._literal = (shape, numbers) if shape else numbers[0]
        if dtype is DataType.int and not all(x in _INT32 for x in numbers):
            raise ValueError(f"value: expected integers of 32 bits, got {value!r}")
        self._type = Type(dtype, BatchSize.one, shape)

    @classmethod
    def local(cls, index: int, type: Type) -> "Value":
        """Return the value with number `index` of a graph."""
        value = cls.__new__(cls)
        value._local_index = index
        value._literal = None
        value._type = type
        return value

    @classmethod
    def constant(cls, dtype: DataType, shape: Sequence[int], elements: Sequence[int | float]) -> "Value":
        """Return a constant from its elements, row-major; integers may stand for floats."""
        if math.prod(shape) != len(elements):
            raise ShapeError(f"elements: expected {math.prod(shape)} for shape {list(shape)}, got {len(elements)}")
        numbers: list[Any] = [int(x) if dtype is DataType.int else float(x) for x in elements]
        value = cls(numbers[0] if numbers else 0.0)
        value._literal = (list(shape), numbers) if shape else numbers[0]
        value._type = Type(dtype, BatchSize.one, shape)
        return value

    @property
    def type(self) -> Type:
        """Type of the value."""
        return self._type

    @property
    def local_index(self) -> int:
        """Number of the value in its graph, -1 for a constant."""
        return self._local_index

    @property
    def literal_value(self) -> Literal:
        """The constant as a number or as shape and elements, row-major; None for what is none."""
        return self._literal

    def elements(self) -> list[float]:
        """Return the elements of a constant, row-major."""
        if self._literal is None:
            raise TypeError(f"{self}: expected a constant")
        return list(self._literal[1]) if isinstance(self._literal, tuple) else [self._literal]

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self}: expected no truth value of a value of a graph, which has one for each event")

    def __repr__(self) -> str:
        if self._literal is None:
            return f"%{self._local_index}"
        if isinstance(self._literal, tuple):
            return "{" + ", ".join(map(_number, self._literal[1])) + "}"
        return _number(self._literal)


ValueLike: TypeAlias = Value | SupportsIndex | SupportsFloat | Sequence[Any]


def _dtype_of(number: int | float) -> DataType:
    return DataType.int if isinstance(number, int) else DataType.float


def _number(x: int | float) -> str:
    return str(x) if isinstance(x, int) else f"{x:g}"


def as_value(value: ValueLike) -> Value:
    """Return a value as it is, and anything else as a constant."""
    return value if isinstance(value, Value) else Value(value)


T = TypeVar("T")


class _NamedVector(Generic[T]):
    """A list whose entries have unique names.

    Parameters
    ----------
    keys : sequence of str, or sequence of (str, item)
        Names, or names and entries together.
    values : sequence, optional
        Entries, as many as names.
    """

    __slots__ = ("_index", "_values")

    def __init__(self, keys: Iterable[str] | Iterable[tuple[str, T]] = (), values: Sequence[T] | None = None) -> None:
        self._index: dict[str, int] = {}
        self._values: list[T] = []
        entries: list[Any] = list(keys)
        if values is not None:
            if len(entries) != len(values):
                raise ShapeError(f"values: expected {len(entries)} entries, one per key, got {len(values)}")
            entries = list(zip(entries, values, strict=True))
        for entry in entries:
            if not isinstance(entry, tuple | list) or len(entry) != 2:
                raise TypeError(f"keys: expected (name, item) pairs, or names with values beside them, got {entry!r}")
            self.push_back(*entry)

    def push_back(self, name: str, item: T) -> None:
        """Append an entry; a name that is there already raises ValueError."""
        if not isinstance(name, str):
            raise TypeError(f"name: expected a str, got {name!r}")
        if name in self._index:
            raise ValueError(f"name: expected a new key, got {name!r} again")
        self._index[name] = len(self._values)
        self._values.append(item)

    def keys(self) -> list[str]:
        """Return the names in order."""
        return list(self._index)

    def values(self) -> list[T]:
        """Return the entries in order."""
        return list(self._values)

    def index_map(self) -> dict[str, int]:
        """Return the position of each name."""
        return dict(self._index)

    @overload
    def __getitem__(self, key: str) -> T: ...
    @overload
    def __getitem__(self, key: SupportsIndex) -> T: ...
    def __getitem__(self, key: str | SupportsIndex) -> T:
        if isinstance(key, str):
            if key not in self._index:
                raise IndexError(f"key: expected one of {self.keys()}, got {key!r}")
            return self._values[self._index[key]]
        position = operator.index(key)
        if not 0 <= position < len(self._values):
            raise IndexError(f"key: expected 0 to {len(self._values) - 1}, got {position}")
        return self._values[position]

    def __iter__(self) -> Iterator[T]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        entries = ", ".join(f"{name}={item}" for name, item in zip(self._index, self._values, strict=True))
        return f"{type(self).__name__}({entries})"


class NamedTypes(_NamedVector[Type]):
    """Types with names, in order."""

    __slots__ = ()

    def push_back(self, name: str, item: Type) -> None:
        """Append a type; a name that is there already raises ValueError."""
        if not isinstance(item, Type):
            raise TypeError(f"{name}: expected a Type, batch_float for one, got {item!r}")
        super().push_back(name, item)


class NamedValues(_NamedVector[Value]):
    """Values with names, in order."""

    __slots__ = ()
