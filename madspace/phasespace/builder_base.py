"""What every instruction of a `FunctionBuilder` goes through: types, constants, common subexpressions."""

import inspect
import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any, Generic, SupportsIndex, TypeVar, cast, overload

from madspace.errors import ShapeError, UnsupportedOpError
from madspace.phasespace import arithmetic
from madspace.phasespace.graph import Instruction, InstructionCall
from madspace.phasespace.opcodes import Group, catalogue
from madspace.phasespace.signatures import result_types
from madspace.phasespace.types import BatchSize, DataType, Type
from madspace.phasespace.values import NamedTypes, Value, ValueLike, as_value

__all__ = ["BuilderBase", "OpMethod"]

_INSTRUCTIONS = {name: Instruction(opcode) for name, opcode in catalogue().items()}


class BuilderBase:
    """Records instructions; `FunctionBuilder` adds the methods that users call."""

    def __init__(self, input_types: NamedTypes, output_types: NamedTypes) -> None:
        for name, types in (("input_types", input_types), ("output_types", output_types)):
            if not isinstance(types, NamedTypes):
                raise TypeError(f"{name}: expected NamedTypes, got {types!r}")
        self._input_names = input_types.keys()
        self._output_names = output_types.keys()
        self._output_types = output_types.values()
        self._locals: list[Value] = []
        self._inputs = [self._new_local(type) for type in input_types]
        self._outputs: list[Value | None] = [None] * len(self._output_types)
        self._globals: dict[str, Value] = {}
        self._calls: list[InstructionCall] = []
        self._known: dict[tuple[Any, ...], list[Value]] = {}
        self._constants: dict[tuple[Any, ...], int] = {}
        self._sources: dict[int, InstructionCall] = {}
        self._stream_index = 0

    def _new_local(self, type: Type) -> Value:
        value = Value.local(len(self._locals), type)
        self._locals.append(value)
        return value

    def _number_of(self, value: Value) -> int:
        """Return the number of a value of this graph; a constant gets one at its first use."""
        if value.local_index >= 0:
            return value.local_index
        kind = "q" if value.type.dtype is DataType.int else "d"
        key = (kind, *value.type.shape, *(struct.pack(kind, x) for x in value.elements()))
        if key not in self._constants:
            self._constants[key] = len(self._locals)
            self._locals.append(value)
        return self._constants[key]

    def _check_origin(self, values: Sequence[Value]) -> None:
        for value in values:
            index = value.local_index
            if index >= 0 and (index >= len(self._locals) or self._locals[index] is not value):
                raise ValueError(f"{value}: expected a value of this builder, got one of another")

    def _call(self, name: str, arguments: Sequence[ValueLike]) -> list[Value]:
        """Add an instruction, unless its results are known, and return its results."""
        opcode = catalogue()[name]
        if opcode.group is Group.REFUSED:
            raise UnsupportedOpError(f"{name}: this operation cannot be used: {opcode.reason}")
        inputs = [as_value(argument) for argument in arguments]
        self._check_origin(inputs)
        types = result_types(opcode, inputs)
        if opcode.group is Group.ELEMENT:
            known = self._simplified(name, inputs, types[0])
            if known is not None:
                return [known]
        key = (name, *map(self._number_of, inputs))
        if key not in self._known:
            outputs = [self._new_local(type) for type in types]
            call = InstructionCall(_INSTRUCTIONS[name], inputs, outputs, self._stream_index)
            self._calls.append(call)
            self._known[key] = outputs
            self._sources.update((value.local_index, call) for value in outputs)
        return list(self._known[key])

    def _simplified(self, name: str, inputs: list[Value], type: Type) -> Value | None:
        """Return what an elementwise operation gives, where no instruction is needed."""
        literals = [x.literal_value for x in inputs]
        numbers = [x if isinstance(x, int | float) else None for x in literals]
        if all(x is not None for x in numbers):
            result = arithmetic.evaluate(name, [x for x in numbers if x is not None])
            if result is not None:
                return Value(int(result) if type.dtype is DataType.int else result)
        same = arithmetic.same_as(name, numbers)
        # A value that all events share must not take the place of one per event.
        if same is not None and inputs[same].type == type:
            return inputs[same]
        if name == "square" and inputs[0].local_index in self._sources:
            source = self._sources[inputs[0].local_index]
            if source.instruction.name == "sqrt":
                return source.inputs[0]
        return None

    def _live_calls(self) -> list[InstructionCall]:
        """Return the instructions that the outputs need."""
        needed = {value.local_index for value in self._outputs if value is not None}
        live = []
        for call in reversed(self._calls):
            if any(value.local_index in needed for value in call.outputs):
                live.append(call)
                needed.update(value.local_index for value in call.inputs)
        return live[::-1]

    def _check_output(self, position: int, value: Value) -> None:
        """Check a result against its declared type; what all events share may stand for one per event."""
        wanted = self._output_types[position]
        size = value.type.batch_size
        fits = size in (wanted.batch_size, BatchSize.one)
        lists_fit = value.type.batch_size_list == wanted.batch_size_list
        if (value.type.dtype, value.type.shape) != (wanted.dtype, wanted.shape) or not (fits and lists_fit):
            raise ShapeError(f"output {position}: expected type {wanted}, got {value.type}")


R = TypeVar("R", covariant=True)


def described(name: str) -> str:
    """Return the help of an instruction's method: what it takes and gives, by type, or why it is refused."""
    opcode = catalogue()[name]
    if opcode.reason:
        return f"Raise `UnsupportedOpError`: {opcode.reason}."
    taken = ", ".join(
        f"{argument} ({told})" for argument, told in zip(opcode.arguments, opcode.inputs, strict=False)
    ) or ", ".join(opcode.arguments)
    given = ", ".join(opcode.outputs) or "nothing"
    return (
        f"Add the instruction ``{name}`` and return its results as `Value`s.\n\n"
        f"Takes {taken or 'nothing'}; gives {given}: f is float64, i int32, in brackets the shape of an event.\n"
        "Numbers and earlier results are taken for arguments; energies, masses and momenta are in one unit, GeV say,\n"
        "and angles in radians.\n\n"
        "Raises TypeError, DTypeError or ShapeError where an argument does not fit."
    )


class OpMethod(Generic[R]):
    """The method of a builder that adds an instruction: its name is the attribute's, its arguments the catalogue's."""

    def __init__(self) -> None:
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        opcode = catalogue()[name]
        self.arguments = opcode.arguments
        self.is_variadic = opcode.is_variadic
        has_fixed_results = bool(opcode.outputs) and "*" not in opcode.outputs
        self.is_single = len(opcode.outputs) == 1 if has_fixed_results else name in _SINGLE_RESULT
        self._of_the_class = self._function(owner)

    def _function(self, owner: type) -> Callable[..., R]:
        """Return what the class shows: a function with a name, a signature and help."""

        def method(builder: BuilderBase, *args: Any, **named: Any) -> R:
            return BoundOp(builder, self)(*args, **named)

        method.__name__, method.__qualname__ = self.name, f"{owner.__qualname__}.{self.name}"
        method.__module__, method.__doc__ = owner.__module__, described(self.name)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = ("self", *self.arguments)
        vars(method)["__signature__"] = inspect.Signature([inspect.Parameter(name, kind) for name in names])
        return method

    @overload
    def __get__(self, builder: None, owner: type) -> Callable[..., R]: ...
    @overload
    def __get__(self, builder: BuilderBase, owner: type) -> "BoundOp[R]": ...
    def __get__(self, builder: BuilderBase | None, owner: type) -> "Callable[..., R] | BoundOp[R]":
        return self._of_the_class if builder is None else BoundOp(builder, self)


class BoundOp(Generic[R]):
    """An instruction's method of one builder."""

    __slots__ = ("_builder", "_method")

    def __init__(self, builder: BuilderBase, method: OpMethod[R]) -> None:
        self._builder = builder
        self._method = method

    @property
    def __name__(self) -> str:
        return self._method.name

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return described(self._method.name)

    def __repr__(self) -> str:
        return f"<{self._method.name}({', '.join(self._method.arguments)}) of {self._builder!r}>"

    @property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter(name, kind) for name in self._method.arguments])

    def __call__(self, *args: Any, **named: Any) -> R:
        method = self._method
        if named or len(args) != len(method.arguments):
            try:
                args = self.__signature__.bind(*args, **named).args
            except TypeError as error:
                raise TypeError(f"{method.name}({', '.join(method.arguments)}): {error}") from None
        results = self._builder._call(method.name, args[0] if method.is_variadic else args)
        return cast(R, results[0] if method.is_single else results)


# Operations whose types are not in the catalogue and that return one value, not a list.
_SINGLE_RESULT = frozenset({"stack", "cat", "batch_size", "full", "squeeze", "unsqueeze"})


def position_of(index: SupportsIndex, name: str) -> int:
    """Return an index as an int; TypeError where it is none."""
    try:
        return operator.index(index)
    except TypeError:
        raise TypeError(f"{name} index: expected an int, got {index!r}") from None


def positions(start: SupportsIndex, end: SupportsIndex, count: int, name: str) -> range:
    """Return a range of positions; IndexError if it is not inside ``0 .. count``."""
    first, last = position_of(start, name), position_of(end, f"{name} end")
    if not 0 <= first <= count:
        raise IndexError(f"{name} index: expected 0 to {count}, got {first}")
    if not first <= last <= count:
        raise IndexError(f"{name} end index: expected {first} to {count}, got {last}")
    return range(first, last)
