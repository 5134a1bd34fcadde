"""Types of the values in a compute graph: element type, symbolic batch size, shape of one event."""

import enum
import itertools
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex, overload

from madspace.errors import ShapeError

__all__ = [
    "BatchSize",
    "DataType",
    "Type",
    "batch_float",
    "batch_float_array",
    "batch_four_vec",
    "batch_four_vec_array",
    "batch_int",
    "batch_size",
    "multichannel_batch_size",
    "single_float",
    "single_int",
]


class DataType(enum.Enum):
    """Element type of a value.

    ``int`` is int32 and ``float`` is float64; ``batch_sizes`` marks a value that stands for sizes of batches.
    """

    int = 0
    float = 1
    batch_sizes = 2

    @classmethod
    def _missing_(cls, value: object) -> "DataType | None":
        return cls.__members__.get(value) if isinstance(value, str) else None

    def __str__(self) -> str:
        return f"DataType.{self.name}"

    def __index__(self) -> Any:
        return self.value

    __int__ = __index__


_anonymous = itertools.count()


class BatchSize:
    """Symbolic size of the batch axis: ``one``, a named size, or a sum of sizes with integer factors.

    Parameters
    ----------
    name : str, optional
        Name of the size; without it the size is a new symbol, equal to no other.
    """

    __slots__ = ("_terms",)

    one: "BatchSize"

    def __init__(self, name: str | None = None) -> None:
        self._terms: tuple[tuple[str, int], ...] = ((f"${next(_anonymous)}" if name is None else name, 1),)

    @classmethod
    def of_terms(cls, terms: Sequence[tuple[str, int]]) -> "BatchSize":
        """Return the sum of named sizes times their factors; no terms are ``one``."""
        merged: dict[str, int] = {}
        for name, factor in terms:
            merged[name] = merged.get(name, 0) + factor
        size = cls("")
        size._terms = tuple((name, factor) for name, factor in merged.items() if factor)
        return size

    @property
    def terms(self) -> tuple[tuple[str, int], ...]:
        """Names and factors, empty for ``one``."""
        return self._terms

    def __add__(self, other: "BatchSize") -> "BatchSize":
        return BatchSize.of_terms([*self._terms, *other._terms])

    def __sub__(self, other: "BatchSize") -> "BatchSize":
        return BatchSize.of_terms([*self._terms, *((name, -factor) for name, factor in other._terms)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BatchSize) and dict(self._terms) == dict(other._terms)

    def __hash__(self) -> int:
        return hash(frozenset(self._terms))

    def __repr__(self) -> str:
        text = ""
        for name, factor in self._terms:
            sign = "-" if factor < 0 else "+" if text else ""
            text += sign + (name if abs(factor) == 1 else f"{abs(factor)}*{name}")
        return text or "1"


BatchSize.one = BatchSize.of_terms([])


class Type:
    """Type of a value: ``(batch_size, *shape)`` elements of one `DataType`, or a list of batch sizes.

    Parameters
    ----------
    dtype : DataType or sequence of BatchSize
        Element type; a sequence of sizes makes a ``batch_sizes`` type, without the other two.
    batch_size : BatchSize
        ``BatchSize.one`` for a value that all events share.
    shape : sequence of int
        Shape of one event.

    Raises
    ------
    ShapeError
        If an extent is negative.
    """

    __slots__ = ("_batch_size", "_batch_sizes", "_dtype", "_shape")

    @overload
    def __init__(self, dtype: DataType, batch_size: BatchSize, shape: Sequence[SupportsIndex]) -> None: ...
    @overload
    def __init__(self, dtype: Sequence[BatchSize]) -> None: ...
    def __init__(
        self,
        dtype: DataType | Sequence[BatchSize],
        batch_size: BatchSize | None = None,
        shape: Sequence[SupportsIndex] = (),
    ) -> None:
        self._batch_sizes: tuple[BatchSize, ...] = ()
        if isinstance(dtype, DataType):
            if batch_size is None:
                raise TypeError("batch_size: expected a BatchSize, got nothing")
            self._dtype = dtype
            self._batch_size = batch_size
        else:
            self._dtype = DataType.batch_sizes
            self._batch_size = BatchSize.one
            self._batch_sizes = tuple(dtype)
        self._shape = tuple(operator.index(extent) for extent in shape)
        if any(extent < 0 for extent in self._shape):
            raise ShapeError(f"shape: expected extents of 0 and more, got {list(self._shape)}")

    @property
    def dtype(self) -> DataType:
        """Element type."""
        return self._dtype

    @property
    def batch_size(self) -> BatchSize:
        """Symbolic size of the batch axis."""
        return self._batch_size

    @property
    def batch_size_list(self) -> list[BatchSize]:
        """Sizes that a ``batch_sizes`` value stands for."""
        return list(self._batch_sizes)

    @property
    def shape(self) -> list[int]:
        """Shape of one event."""
        return list(self._shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self._dtype, self._batch_size, self._batch_sizes, self._shape

    def __repr__(self) -> str:
        if self._dtype is DataType.batch_sizes:
            return "{" + ", ".join(map(str, self._batch_sizes)) + "}"
        return f"{self._dtype.name}[{', '.join(map(str, (self._batch_size, *self._shape)))}]"


batch_size = BatchSize("batch_size")
batch_float = Type(DataType.float, batch_size, [])
batch_int = Type(DataType.int, batch_size, [])
batch_four_vec = Type(DataType.float, batch_size, [4])
single_float = Type(DataType.float, BatchSize.one, [])
single_int = Type(DataType.int, BatchSize.one, [])


def batch_float_array(count: SupportsIndex) -> Type:
    """Return the type of `count` float64 numbers per event."""
    return Type(DataType.float, batch_size, [count])


def batch_four_vec_array(count: SupportsIndex) -> Type:
    """Return the type of `count` four-vectors (E, px, py, pz) per event."""
    return Type(DataType.float, batch_size, [count, 4])


def multichannel_batch_size(count: SupportsIndex) -> Type:
    """Return the type of the sizes of `count` channels that share one batch."""
    sizes = [BatchSize(f"channel_size_{i}") for i in range(operator.index(count) - 1)]
    rest = batch_size
    for size in sizes:
        rest = rest - size
    return Type([*sizes, rest])
