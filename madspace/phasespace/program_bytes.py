"""Programs as bytes: compiled code to be kept, or handed to code without Python's compiler at hand."""

import json
from typing import Any

import numpy as np

from madspace.phasespace.program import Program, ProgramArgument, ProgramStep

__all__ = ["dumps", "loads"]

FORMAT, VERSION = "madspace program", 1
_DTYPES: dict[str, Any] = {"float64": np.dtype(np.float64), "int32": np.dtype(np.int32)}


def dumps(program: Program) -> bytes:
    """Return a program as one line of JSON; ops go by name, constants are exact."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "constants": [number.hex() for number in program.constants.tolist()],
        "n_registers": program.n_registers,
        "inputs": [_argument(x) for x in program.inputs],
        "outputs": [_argument(x) for x in program.outputs],
        "steps": [[step.op, list(step.inputs), list(step.outputs)] for step in program.steps],
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def loads(data: bytes) -> Program:
    """Return the program of `dumps`; its registers are checked by whoever runs it.

    Raises
    ------
    ValueError
        For bytes that are no program, or one of a later version.
    """
    try:
        document = json.loads(data)
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are such
        raise ValueError(f"data: expected a program as bytes, got something else: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError("data: expected a program as bytes, got JSON of another kind")
    if document.get("version") != VERSION:
        raise ValueError(f"data: expected a program of version {VERSION}, got {document.get('version')!r}")
    try:
        return Program(
            np.array([float.fromhex(number) for number in document["constants"]], np.float64),
            _whole(document["n_registers"]),
            tuple(_read_argument(x) for x in document["inputs"]),
            tuple(_read_argument(x) for x in document["outputs"]),
            tuple(ProgramStep(_text(op), _wholes(reads), _wholes(writes)) for op, reads, writes in document["steps"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"data: expected a program as bytes, got a damaged one: {error!r}") from None


def _argument(argument: ProgramArgument) -> dict[str, Any]:
    return {
        "name": argument.name,
        "dtype": argument.dtype.name,
        "shape": list(argument.shape),
        "registers": list(argument.registers),
    }


def _read_argument(document: dict[str, Any]) -> ProgramArgument:
    shape, registers = _wholes(document["shape"]), _wholes(document["registers"])
    if any(length < 0 for length in shape) or int(np.prod(shape, dtype=object)) != len(registers):
        raise ValueError(f"shape {shape} with {len(registers)} registers")
    return ProgramArgument(_text(document["name"]), _DTYPES[document["dtype"]], shape, registers)


def _wholes(numbers: Any) -> tuple[int, ...]:
    return tuple(_whole(number) for number in numbers)


def _whole(number: Any) -> int:
    if type(number) is not int or not -1 <= number < 2**31:
        raise ValueError(f"expected a whole number of 31 bits, got {number!r}")
    return number


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"expected a text, got {text!r}")
    return text
