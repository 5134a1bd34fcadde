"""Function: a finished compute graph that can be called, saved and loaded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, SupportsIndex

from madspace.phasespace import function_json
from madspace.phasespace.graph import Graph
from madspace.phasespace.results import arguments_by_name, result_type
from madspace.phasespace.runtime import FunctionRuntime

__all__ = ["Function"]


class Function(Graph):
    """A finished compute graph; `FunctionBuilder.function` makes it.

    Calling it runs it where its arguments are: it is compiled at the first call. See `FunctionRuntime` for what they
    may be.
    """

    __slots__ = ("_make_gradients", "_runtime")

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._runtime: FunctionRuntime | None = None
        self._make_gradients: Any = None

    def __call__(
        self,
        *args: Any,
        out: Sequence[Any] | None = None,
        stream: Any = None,
        device: Any = None,
        seed: SupportsIndex | None = None,
        offset: SupportsIndex = 0,
        n_events: SupportsIndex | None = None,
        **named: Any,
    ) -> Any:
        """Run the function.

        Parameters
        ----------
        *args : array
            The arguments in order.
        **named : array
            The arguments by name instead.
        out, stream, device, seed, offset, n_events : optional
            As of `FunctionRuntime.call`.

        Returns
        -------
        array or Result
            The only result, or a named tuple of all.
        """
        if named:
            args = tuple(arguments_by_name(self._inputs.keys(), args, named))
        results = self._compiled().arrays(
            args, out=out, stream=stream, device=device, seed=seed, offset=offset, n_events=n_events
        )
        if len(results) == 1:
            return results[0]
        return result_type(tuple(self._outputs.keys()))._make(results)

    def vjp(
        self, args: Sequence[Any], output_grads: Sequence[Any], input_requires_grad: Sequence[bool] | None = None
    ) -> Any:
        """Return the gradients of the arguments from those of the results, by name; see `FunctionRuntime.vjp`."""
        gradients = self._compiled().vjp(args, output_grads, input_requires_grad)
        if self._make_gradients is None:
            self._make_gradients = result_type(tuple(self._inputs.keys()))._make
        return self._make_gradients(gradients)

    def _compiled(self) -> FunctionRuntime:
        if self._runtime is None:
            self._runtime = FunctionRuntime(self)
        return self._runtime

    def save(self, file: str) -> None:
        """Write the function to a JSON file; MadSpace 0.2.1 reads it unless it has operations of this package alone."""
        Path(file).write_text(function_json.dumps(self), encoding="utf-8")

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_json, (function_json.dumps(self),)

    @staticmethod
    def load(file: str) -> "Function":
        """Read a function from a JSON file of this package or of MadSpace 0.2.1.

        Raises
        ------
        OSError
            The file cannot be read.
        ValueError
            It is not the JSON of a function, or an instruction is unknown.
        UnsupportedOpError
            It uses an operation that this version lacks.
        """
        return _from_json(Path(file).read_text(encoding="utf-8"))


def _from_json(text: str) -> Function:
    """Return the function of a JSON text."""
    from madspace.phasespace.builder import FunctionBuilder  # which needs this module

    return function_json.loads(text, FunctionBuilder)
