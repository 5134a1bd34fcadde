"""Types of an instruction's results from those of its arguments."""

import functools
import re
from collections.abc import Callable, Sequence

from madspace.errors import DTypeError, ShapeError
from madspace.phasespace.opcodes import Opcode
from madspace.phasespace.types import BatchSize, DataType, Type
from madspace.phasespace.values import Value

__all__ = ["result_types"]

_DTYPES = {"f": DataType.float, "i": DataType.int}


class _Pattern:
    """One type of the catalogue's notation."""

    def __init__(self, text: str) -> None:
        found = re.fullmatch(r"([fi])(?:\[(.*)\])?(1?)", text)
        if found is None:
            raise ValueError(f"type: expected the notation of opcodes.py, got {text!r}")
        self.dtype = _DTYPES[found[1]]
        axes = found[2].split(",") if found[2] else []
        self.has_leading_axes = axes[:1] == ["..."]
        self.axes = axes[1:] if self.has_leading_axes else axes
        self.is_single = found[3] == "1"


_pattern = functools.cache(_Pattern)


class _Sizes:
    """The sizes that letters stand for, as far as they are known."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.letters: dict[str, int] = {}
        self.leading: list[int] | None = None

    def extent(self, axis: str) -> int | None:
        """Return the extent of an axis such as ``4``, ``n`` or ``3n-4``, None where the letter is not known yet."""
        factor, letter, offset = _linear(axis)
        if not letter:
            return offset
        return None if letter not in self.letters else factor * self.letters[letter] + offset

    def match(self, where: str, pattern: _Pattern, type: Type) -> None:
        """Check a type against its pattern and learn from it."""
        if type.dtype is not pattern.dtype:
            raise DTypeError(f"{where}: expected dtype {pattern.dtype.name}, got {type.dtype.name}")
        if pattern.is_single and type.batch_size != BatchSize.one:
            raise ShapeError(f"{where}: cannot have batch dimension")
        shape, n_axes = type.shape, len(pattern.axes)
        if pattern.has_leading_axes:
            n_leading = len(shape) - n_axes
            if n_leading < 0:
                raise ShapeError(f"{where}: expected dimension of at least {n_axes}, got {len(shape)}")
            leading = shape[:n_leading]
            if self.leading is None:
                self.leading = leading
            elif len(self.leading) != n_leading:
                raise ShapeError(f"{where}: expected dimension {len(self.leading) + n_axes}, got {len(shape)}")
            for i, (wanted, got) in enumerate(zip(self.leading, leading, strict=True)):
                if wanted != got:
                    raise ShapeError(f"{where}, dimension {i}: expected size {wanted}, got {got}")
        elif len(shape) != n_axes:
            raise ShapeError(f"{where}: expected dimension {n_axes}, got {len(shape)}")
        for i, axis in enumerate(pattern.axes):
            self.match_axis(where, len(shape) - n_axes + i, axis, shape[len(shape) - n_axes + i])

    def match_axis(self, where: str, position: int, axis: str, got: int) -> None:
        factor, letter, offset = _linear(axis)
        wanted = self.extent(axis)
        if wanted is None:
            size, rest = divmod(got - offset, factor)
            if rest or size < 0:
                raise ShapeError(f"{where}, dimension {position}: expected size {axis} for some {letter}, got {got}")
            self.letters[letter] = size
        elif wanted != got:
            raise ShapeError(f"{where}, dimension {position}: expected size {wanted}, got {got}")


@functools.cache
def _linear(axis: str) -> tuple[int, str, int]:
    """Return factor, letter and offset of ``3n-4``; a plain number has no letter."""
    found = re.fullmatch(r"(\d*)([a-z])([+-]\d+)?", axis)
    if found is None:
        return 0, "", int(axis)
    return int(found[1] or 1), found[2], int(found[3] or 0)


def result_types(opcode: Opcode, arguments: Sequence[Value]) -> list[Type]:
    """Check the arguments of an instruction and return the types of its results.

    Raises
    ------
    DTypeError
        An argument is float64 where int32 is wanted, or the reverse.
    ShapeError
        An argument has a wrong shape or batch size, or there are too many or too few.
    """
    rule = _RULES.get(opcode.name)
    if rule is not None:
        return rule(opcode.name, arguments)
    if len(arguments) != len(opcode.inputs):
        raise ShapeError(f"{opcode.name}: expected {len(opcode.inputs)} arguments, got {len(arguments)}")
    sizes = _Sizes(opcode.name)
    for i, (text, value) in enumerate(zip(opcode.inputs, arguments, strict=True)):
        where = f"{opcode.name}, argument {i + 1}"
        if text.startswith("#"):
            if not isinstance(value.literal_value, int) or value.literal_value < 1:
                raise ShapeError(f"{where}: expected integer constant, got {value}")
            sizes.letters[text[1:]] = value.literal_value
        else:
            sizes.match(where, _pattern(text), value.type)
    size = common_batch_size(opcode.name, arguments)
    results = []
    for text in opcode.outputs:
        pattern = _pattern(text)
        extents = [sizes.extent(axis) for axis in pattern.axes]
        shape = [*(sizes.leading or [] if pattern.has_leading_axes else []), *(x for x in extents if x is not None)]
        results.append(Type(pattern.dtype, size, shape))
    return results


def common_batch_size(name: str, arguments: Sequence[Value]) -> BatchSize:
    """Return the batch size of the results: that of all arguments that have one."""
    size = BatchSize.one
    for i, value in enumerate(arguments):
        if value.type.batch_size == BatchSize.one:
            continue
        if size not in (BatchSize.one, value.type.batch_size):
            raise ShapeError(f"{name}, argument {i + 1}: expected batch size {size}, got {value.type.batch_size}")
        size = value.type.batch_size
    return size


def _arrays(name: str, arguments: Sequence[Value]) -> None:
    for i, value in enumerate(arguments):
        if value.type.dtype is DataType.batch_sizes:
            raise DTypeError(f"{name}, argument {i + 1}: expected dtype float or int, got batch_sizes")


def _stack(name: str, arguments: Sequence[Value]) -> list[Type]:
    _at_least(name, arguments, 1)
    first = arguments[0].type
    for value in arguments:
        if (value.type.dtype, value.type.shape) != (first.dtype, first.shape):
            raise ShapeError(f"{name}: all arguments must have the same shape and dtype, got {first} and {value.type}")
    return [Type(first.dtype, common_batch_size(name, arguments), [len(arguments), *first.shape])]


def _cat(name: str, arguments: Sequence[Value]) -> list[Type]:
    _at_least(name, arguments, 1)
    first = arguments[0].type
    for i, value in enumerate(arguments):
        if not value.type.shape:
            raise ShapeError(f"{name}, argument {i + 1}: arguments must be at least 1-dimensional")
        if (value.type.dtype, value.type.shape[1:]) != (first.dtype, first.shape[1:]):
            raise ShapeError(f"{name}: all arguments must have the same shape and dtype, got {first} and {value.type}")
    length = sum(value.type.shape[0] for value in arguments)
    return [Type(first.dtype, common_batch_size(name, arguments), [length, *first.shape[1:]])]


def _rows(name: str, arguments: Sequence[Value]) -> Type:
    """Return the type of the only argument, which must have an axis."""
    if len(arguments) != 1:
        raise ShapeError(f"{name}: expected 1 argument, got {len(arguments)}")
    if not arguments[0].type.shape:
        raise ShapeError(f"{name}, argument 1: expected dimension of at least 1, got 0")
    return arguments[0].type


def _unstack(name: str, arguments: Sequence[Value]) -> list[Type]:
    type = _rows(name, arguments)
    return [Type(type.dtype, type.batch_size, type.shape[1:])] * type.shape[0]


def _pop(name: str, arguments: Sequence[Value]) -> list[Type]:
    type = _rows(name, arguments)
    if type.dtype is not DataType.float:
        raise DTypeError(f"{name}, argument 1: expected dtype float, got {type.dtype.name}")
    if type.shape[0] == 0:
        raise ShapeError(f"{name}, argument 1, dimension 0: expected size 1 or more, got 0")
    rest = Type(type.dtype, type.batch_size, [type.shape[0] - 1, *type.shape[1:]])
    return [rest, Type(type.dtype, type.batch_size, type.shape[1:])]


def _squeeze(name: str, arguments: Sequence[Value]) -> list[Type]:
    type = _rows(name, arguments)
    if type.shape[0] != 1:
        raise ShapeError(f"{name}, argument 1, dimension 0: expected size 1, got {type.shape[0]}")
    return [Type(type.dtype, type.batch_size, type.shape[1:])]


def _unsqueeze(name: str, arguments: Sequence[Value]) -> list[Type]:
    if len(arguments) != 1:
        raise ShapeError(f"{name}: expected 1 argument, got {len(arguments)}")
    _arrays(name, arguments)
    type = arguments[0].type
    return [Type(type.dtype, type.batch_size, [1, *type.shape])]


def _batch_size(name: str, arguments: Sequence[Value]) -> list[Type]:
    _at_least(name, arguments, 1)
    _arrays(name, arguments)
    return [Type([common_batch_size(name, arguments)])]


def _full(name: str, arguments: Sequence[Value]) -> list[Type]:
    _at_least(name, arguments, 2)
    fill, size, *extents = arguments
    if fill.literal_value is None or fill.type.shape:
        raise ShapeError(f"{name}, argument 1: expected constant, got {fill}")
    sizes = size.type.batch_size_list
    if len(sizes) != 1:
        raise ShapeError(f"{name}, argument 2: must be single batch size, got {size.type}")
    shape = []
    for i, extent in enumerate(extents):
        if not isinstance(extent.literal_value, int):
            raise ShapeError(f"{name}, argument {i + 3}: expected integer constant, got {extent}")
        shape.append(extent.literal_value)
    return [Type(fill.type.dtype, sizes[0], shape)]


def _at_least(name: str, arguments: Sequence[Value], count: int) -> None:
    if len(arguments) < count:
        raise ShapeError(f"{name}: expected at least {count} arguments, got {len(arguments)}")


_RULES: dict[str, Callable[[str, Sequence[Value]], list[Type]]] = {
    "stack": _stack,
    "cat": _cat,
    "unstack": _unstack,
    "pop": _pop,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "batch_size": _batch_size,
    "full": _full,
}
