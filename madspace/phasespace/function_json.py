"""Functions as JSON text, in the format of MadSpace 0.2.1."""

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from madspace.phasespace.graph import Graph
from madspace.phasespace.opcodes import catalogue
from madspace.phasespace.types import BatchSize, DataType, Type
from madspace.phasespace.values import NamedTypes, Value

if TYPE_CHECKING:
    from madspace.phasespace.builder import FunctionBuilder
    from madspace.phasespace.function import Function

__all__ = ["dumps", "loads"]


def dumps(graph: Graph) -> str:
    """Return a graph as one line of JSON."""
    document = {
        "inputs": [_input(name, value) for name, value in zip(graph.inputs.keys(), graph.inputs.values(), strict=True)],
        "outputs": [
            {"name": name, "local": _reference(value), "dtype": value.type.dtype.name, "shape": value.type.shape}
            for name, value in zip(graph.outputs.keys(), graph.outputs.values(), strict=True)
        ],
        "globals": [
            {"name": name, "local": value.local_index, "dtype": value.type.dtype.name, "shape": value.type.shape}
            for name, value in graph.globals
        ],
        "instructions": [
            {
                "name": call.instruction.name,
                "inputs": [_reference(value) for value in call.inputs],
                "outputs": [value.local_index for value in call.outputs],
                "stream_index": call.stream_index,
            }
            for call in graph.instructions
        ],
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _input(name: str, value: Value) -> dict[str, Any]:
    type = value.type
    common = {"name": name, "local": value.local_index, "dtype": type.dtype.name}
    if type.dtype is DataType.batch_sizes:
        return common | {"batch_sizes": [_size(size) for size in type.batch_size_list]}
    return common | {"batch_size": _size(type.batch_size), "shape": type.shape}


def _size(size: BatchSize) -> Any:
    terms = size.terms
    if not terms:
        return 1
    if len(terms) == 1 and terms[0][1] == 1:
        return terms[0][0]
    return [{"batch_size": [name], "factor": factor} for name, factor in terms]


def _reference(value: Value) -> Any:
    literal = value.literal_value
    if literal is None:
        return value.local_index
    data = [_number(x) for x in literal[1]] if isinstance(literal, tuple) else _number(literal)
    return {"data": data, "dtype": value.type.dtype.name, "shape": value.type.shape}


def _number(x: float) -> float | str:
    """Return a number, or the word that stands for what JSON cannot say."""
    return x if math.isfinite(x) else f"{x:+}" if math.isinf(x) else "nan"


def loads(text: str, new_builder: "Callable[[NamedTypes, NamedTypes], FunctionBuilder]") -> "Function":
    """Return the function that JSON text describes, rebuilt with a new builder.

    Raises
    ------
    ValueError
        The text is not the JSON of a function, or an instruction is unknown.
    UnsupportedOpError
        An instruction is of those that this version lacks.
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"file: expected the JSON of a function, got something else: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"file: expected the JSON of a function, an object, got {type(document).__name__}")
    try:
        return _Reader(document, new_builder).function()
    except KeyError as error:
        raise ValueError(f"file: expected the JSON of a function, got something without {error}") from error
    except (TypeError, AttributeError) as error:
        raise ValueError(f"file: expected the JSON of a function, got something else: {error}") from error


class _Reader:
    """Replays the instructions of a file; values get new numbers."""

    def __init__(self, document: Any, new_builder: "Callable[[NamedTypes, NamedTypes], FunctionBuilder]") -> None:
        self.document = document
        self.new_builder = new_builder
        self.values: dict[int, Value] = {}

    def function(self) -> "Function":
        inputs = NamedTypes((entry["name"], _type(entry)) for entry in self.document["inputs"])
        # The file does not say whether an output is shared by all events: a first pass finds out.
        names = [entry["name"] for entry in self.document["outputs"]]
        results = self.replay(self.new_builder(inputs, NamedTypes()))
        builder = self.new_builder(inputs, NamedTypes(names, [value.type for value in results]))
        builder.output_range(0, self.replay(builder))
        return builder.function()

    def replay(self, builder: "FunctionBuilder") -> list[Value]:
        self.values = {entry["local"]: builder.input(i) for i, entry in enumerate(self.document["inputs"])}
        for entry in self.document["globals"]:
            dtype = DataType(entry["dtype"])
            self.values[entry["local"]] = builder.get_global(entry["name"], dtype, entry["shape"])
        for entry in self.document["instructions"]:
            self.add(builder, entry)
        return [self.value(entry["local"]) for entry in self.document["outputs"]]

    def add(self, builder: "FunctionBuilder", entry: Any) -> None:
        name = entry["name"]
        if name not in catalogue():
            raise ValueError(f"instruction: expected one of MadSpace 0.2.1, got {name!r}")
        builder.set_current_stream(entry.get("stream_index", 0))
        results = builder._call(name, [self.value(reference) for reference in entry["inputs"]])
        if len(results) != len(entry["outputs"]):
            raise ValueError(f"{name}: expected {len(results)} outputs, got {len(entry['outputs'])}")
        self.values.update(zip(entry["outputs"], results, strict=True))

    def value(self, reference: Any) -> Value:
        if not isinstance(reference, dict):
            if reference not in self.values:
                raise ValueError(f"local: expected the number of an earlier value, got {reference}")
            return self.values[reference]
        dtype, shape, data = DataType(reference["dtype"]), reference["shape"], reference["data"]
        return Value.constant(dtype, shape, data if shape else [data])


def _type(entry: Any) -> Type:
    if entry["dtype"] == "batch_sizes":
        return Type([_read_size(size) for size in entry["batch_sizes"]])
    return Type(DataType(entry["dtype"]), _read_size(entry["batch_size"]), entry["shape"])


def _read_size(size: Any) -> BatchSize:
    if isinstance(size, str):
        return BatchSize(size)
    if isinstance(size, list):
        return BatchSize.of_terms([(term["batch_size"][0], term["factor"]) for term in size])
    if size != 1:
        raise ValueError(f"batch_size: expected 1, a name or a sum, got {size!r}")
    return BatchSize.one
