"""Mapping: an invertible map that builds one function for each direction."""

from collections.abc import Sequence
from typing import Any, SupportsIndex

from madspace.core._foreign import release_inputs
from madspace.errors import UnsupportedOpError
from madspace.phasespace.builder import FunctionBuilder
from madspace.phasespace.function import Function
from madspace.phasespace.generator import build, named_values
from madspace.phasespace.results import arguments_by_name
from madspace.phasespace.types import batch_float
from madspace.phasespace.values import NamedTypes, NamedValues, Value, ValueLike

__all__ = ["Mapping"]


class Mapping:
    """A map between random numbers and phase-space points. Subclasses override the two ``build_.._impl`` methods.

    Parameters
    ----------
    name : str
        What it is called.
    input_types : NamedTypes
        What the map transforms.
    output_types : NamedTypes
        What it returns, without ``det``.
    condition_types : NamedTypes
        What it needs to know besides, in both directions.

    Examples
    --------
    >>> from madspace import Mapping, NamedTypes, NamedValues, batch_float
    >>> class Scale(Mapping):
    ...     def __init__(self):
    ...         one = NamedTypes([("r", batch_float)]), NamedTypes([("x", batch_float)])
    ...         super().__init__("scale", *one, NamedTypes([("width", batch_float)]))
    ...
    ...     def build_forward_impl(self, builder, inputs, conditions):
    ...         return NamedValues([("x", builder.mul(inputs["r"], conditions["width"]))]), conditions["width"]
    >>> print(Scale().forward_function())
    Inputs:
      %0 : float[batch_size]=r
      %1 : float[batch_size]=width
    Globals:
    Instructions:
      %2 = mul(%0, %1)
    Outputs:
      x=%2 : float[batch_size]
      det=%1 : float[batch_size]
    <BLANKLINE>
    """

    def __init__(
        self, name: str, input_types: NamedTypes, output_types: NamedTypes, condition_types: NamedTypes
    ) -> None:
        self._name = name
        self._input_types = input_types
        self._output_types = output_types
        self._condition_types = condition_types
        self._functions: dict[bool, Function] = {}

    def input_types(self) -> NamedTypes:
        """Return names and types of what the map transforms."""
        return self._input_types

    def output_types(self) -> NamedTypes:
        """Return names and types of what the map returns, without ``det``."""
        return self._output_types

    def condition_types(self) -> NamedTypes:
        """Return names and types of what the map needs to know besides."""
        return self._condition_types

    def build_forward_impl(
        self, builder: FunctionBuilder, inputs: NamedValues, conditions: NamedValues
    ) -> tuple[NamedValues, ValueLike]:
        """Add the map to a builder and return its outputs and its Jacobian; to be overridden."""
        raise UnsupportedOpError(f"{self._name}: build_forward_impl is not implemented")

    def build_inverse_impl(
        self, builder: FunctionBuilder, inputs: NamedValues, conditions: NamedValues
    ) -> tuple[NamedValues, ValueLike]:
        """Add the inverse to a builder and return the recovered inputs and the inverse Jacobian; to be overridden."""
        raise UnsupportedOpError(f"{self._name}: build_inverse_impl is not implemented")

    def build_forward(
        self,
        builder: FunctionBuilder,
        inputs: NamedValues | Sequence[ValueLike],
        conditions: NamedValues | Sequence[ValueLike] = (),
    ) -> NamedValues:
        """Add the map to a builder and return its outputs and ``det`` by name."""
        return self._build(True, builder, inputs, conditions)

    def build_inverse(
        self,
        builder: FunctionBuilder,
        inputs: NamedValues | Sequence[ValueLike],
        conditions: NamedValues | Sequence[ValueLike] = (),
    ) -> NamedValues:
        """Add the inverse to a builder and return the recovered inputs and ``det`` by name."""
        return self._build(False, builder, inputs, conditions)

    def _build(self, is_forward: bool, builder: FunctionBuilder, inputs: Any, conditions: Any) -> NamedValues:
        before, after = self._sides(is_forward)
        implementation = self.build_forward_impl if is_forward else self.build_inverse_impl
        results, det = implementation(
            builder,
            named_values("inputs", before, inputs),
            named_values("conditions", self._condition_types, conditions),
        )
        named = NamedValues(after.keys(), [results[name] for name in after.index_map()])
        named.push_back("det", det if isinstance(det, Value) else Value(det))
        return named

    def _sides(self, is_forward: bool) -> tuple[NamedTypes, NamedTypes]:
        sides = self._input_types, self._output_types
        return sides if is_forward else sides[::-1]

    def _function(self, is_forward: bool) -> Function:
        before, after = self._sides(is_forward)
        arguments = _joined(before, self._condition_types)
        results = _joined(after, NamedTypes([("det", batch_float)]))
        n = len(before)
        return build(
            arguments,
            results,
            lambda builder, values: self._build(is_forward, builder, values.values()[:n], values.values()[n:]),
        )

    def forward_function(self) -> Function:
        """Return the map as a function of the inputs, then the conditions; its last result is ``det``."""
        return self._function(True)

    def inverse_function(self) -> Function:
        """Return the inverse as a function of the outputs, then the conditions; its last result is ``det``."""
        return self._function(False)

    def map_forward(
        self,
        inputs: Sequence[Any] = (),
        conditions: Sequence[Any] = (),
        *,
        out: Sequence[Any] | None = None,
        stream: Any = None,
        device: Any = None,
        seed: SupportsIndex | None = None,
        offset: SupportsIndex = 0,
        n_events: SupportsIndex | None = None,
        **named: Any,
    ) -> Any:
        """Map inputs to outputs.

        Parameters
        ----------
        inputs, conditions : sequence of arrays
            The arguments of `forward_function`; the two lists are read one after the other. See `FunctionRuntime` for
            what arrays may be.
        out, stream, device, offset, n_events : optional
            As of `FunctionRuntime.call`.
        seed : int, optional
            Makes random numbers of the inputs that are None, and of all of them if `inputs` is left out: as
            ``madspace.random.uniform`` does, but where they are used.
        **named : array
            The arguments by name, if both lists are left out.

        Returns
        -------
        Result
            A named tuple of the outputs and ``det``.
        """
        if seed is not None and not inputs and not named:
            inputs = [None] * len(self._input_types)
        options = {"out": out, "stream": stream, "device": device, "seed": seed, "offset": offset, "n_events": n_events}
        return self._map(True, inputs, conditions, named, options)

    def map_inverse(
        self,
        inputs: Sequence[Any] = (),
        conditions: Sequence[Any] = (),
        *,
        out: Sequence[Any] | None = None,
        stream: Any = None,
        device: Any = None,
        **named: Any,
    ) -> Any:
        """Map outputs back to inputs; ``det`` is the reciprocal of the forward one. See `map_forward`."""
        return self._map(False, inputs, conditions, named, {"out": out, "stream": stream, "device": device})

    def vjp(
        self,
        inputs: Sequence[Any] = (),
        conditions: Sequence[Any] = (),
        output_grads: Sequence[Any] = (),
        *,
        input_requires_grad: Sequence[bool] | None = None,
        is_inverse: bool = False,
    ) -> Any:
        """Return the gradients of inputs and conditions from those of the outputs and ``det``.

        Parameters
        ----------
        inputs, conditions : sequence of arrays
            As of `map_forward`.
        output_grads : sequence of (array or None)
            A gradient for each output, that of ``det`` last, of the outputs' shapes; None counts as zeros.
        input_requires_grad : sequence of bool, optional
            For each input, then each condition whether its gradient is wanted; all of float64 if left out.
        is_inverse : bool, optional
            Whether the gradients are those of `map_inverse`.

        Returns
        -------
        Result
            A named tuple of the gradients, None where not wanted; see `FunctionRuntime.vjp`.

        Raises
        ------
        UnsupportedOpError
            A step of the map has no derivative.
        """
        function = self._cached(not is_inverse)
        return function.vjp([*inputs, *conditions], output_grads, input_requires_grad)

    def release_inputs(self, *, wait: bool = False) -> int:
        """Give inputs of other libraries back to their owners, as `madspace.release_inputs` does.

        Parameters
        ----------
        wait : bool, optional
            Whether to wait on the host until the calls that read them are done.

        Returns
        -------
        int
            How many arrays are still held, those of other mappings counted in.
        """
        return release_inputs(wait=wait)

    def _map(
        self,
        is_forward: bool,
        inputs: Sequence[Any],
        conditions: Sequence[Any],
        named: dict[str, Any],
        options: dict[str, Any],
    ) -> Any:
        arguments = [*inputs, *conditions]
        if named:
            before, _ = self._sides(is_forward)
            arguments = arguments_by_name(before.keys() + self._condition_types.keys(), arguments, named)
        return self._cached(is_forward)(*arguments, **options)

    def _cached(self, is_forward: bool) -> Function:
        if is_forward not in self._functions:
            self._functions[is_forward] = self._function(is_forward)
        return self._functions[is_forward]


def _joined(first: NamedTypes, second: NamedTypes) -> NamedTypes:
    return NamedTypes(first.keys() + second.keys(), first.values() + second.values())
