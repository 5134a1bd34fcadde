"""FunctionGenerator: what builds a function from named arguments to named results."""

from collections.abc import Sequence
from typing import Any

from madspace.errors import ShapeError, UnsupportedOpError
from madspace.phasespace.builder import FunctionBuilder
from madspace.phasespace.function import Function
from madspace.phasespace.values import NamedTypes, NamedValues, Value, ValueLike, as_value

__all__ = ["FunctionGenerator", "build"]


class FunctionGenerator:
    """Base of what can emit a function. Subclasses override `build_function_impl`.

    Parameters
    ----------
    name : str
        What it is called.
    arg_types, return_types : NamedTypes
        Names and types of arguments and results.

    Examples
    --------
    >>> from madspace import FunctionGenerator, NamedTypes, NamedValues, batch_float
    >>> class Square(FunctionGenerator):
    ...     def __init__(self):
    ...         super().__init__("square", NamedTypes([("x", batch_float)]), NamedTypes([("y", batch_float)]))
    ...
    ...     def build_function_impl(self, builder, args):
    ...         return NamedValues([("y", builder.square(args["x"]))])
    >>> Square().function().instructions
    [%1 = square(%0)]
    """

    def __init__(self, name: str, arg_types: NamedTypes, return_types: NamedTypes) -> None:
        self._name = name
        self._arg_types = arg_types
        self._return_types = return_types
        self._function: Function | None = None

    def arg_types(self) -> NamedTypes:
        """Return names and types of the arguments."""
        return self._arg_types

    def return_types(self) -> NamedTypes:
        """Return names and types of the results."""
        return self._return_types

    def build_function_impl(self, builder: FunctionBuilder, args: NamedValues) -> NamedValues:
        """Add the instructions to a builder and return the results; to be overridden."""
        raise UnsupportedOpError(f"{self._name}: build_function_impl is not implemented")

    def build_function(self, builder: FunctionBuilder, args: NamedValues | Sequence[ValueLike]) -> NamedValues:
        """Add the instructions to a builder and return the results by name."""
        return self.build_function_impl(builder, named_values("args", self._arg_types, args))

    def function(self) -> Function:
        """Return a function of its own."""
        return build(self._arg_types, self._return_types, self.build_function)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run the function; see `Function`."""
        if self._function is None:
            self._function = self.function()
        return self._function(*args, **named)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"


def named_values(what: str, types: NamedTypes, values: NamedValues | Sequence[ValueLike]) -> NamedValues:
    """Return values under the names of their types; ShapeError if there are too many or too few."""
    if isinstance(values, NamedValues):
        return values
    if len(values) != len(types):
        raise ShapeError(f"{what}: expected {len(types)} values ({', '.join(types.keys())}), got {len(values)}")
    return NamedValues(types.keys(), [as_value(value) for value in values])


def build(arg_types: NamedTypes, return_types: NamedTypes, fill: Any) -> Function:
    """Return the function that `fill` makes of a builder and its inputs."""
    builder = FunctionBuilder(arg_types, return_types)
    inputs: list[Value] = builder.input_range(0, len(arg_types))
    results = fill(builder, NamedValues(arg_types.keys(), inputs))
    for i, name in enumerate(return_types.keys()):
        builder.output(i, results[name])
    return builder.function()
