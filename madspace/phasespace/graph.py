"""Compute graphs: instructions over values, with named inputs, outputs and globals."""

from collections.abc import Sequence

from madspace.phasespace.opcodes import Opcode
from madspace.phasespace.values import NamedValues, Value

__all__ = ["Graph", "Instruction", "InstructionCall"]


class Instruction:
    """An operation of a compute graph; `FunctionBuilder` has a method for each."""

    __slots__ = ("_opcode",)

    def __init__(self, opcode: Opcode) -> None:
        self._opcode = opcode

    @property
    def name(self) -> str:
        """Name of the operation."""
        return self._opcode.name

    @property
    def opcode(self) -> int:
        """Number of the operation in the catalogue."""
        return self._opcode.number

    @property
    def definition(self) -> Opcode:
        """Its line in the catalogue."""
        return self._opcode

    def __repr__(self) -> str:
        return self._opcode.name


class InstructionCall:
    """One use of an instruction in a graph: the values that it reads and those that it makes."""

    __slots__ = ("_inputs", "_instruction", "_outputs", "_stream_index")

    def __init__(
        self, instruction: Instruction, inputs: Sequence[Value], outputs: Sequence[Value], stream_index: int = 0
    ) -> None:
        self._instruction = instruction
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._stream_index = stream_index

    @property
    def instruction(self) -> Instruction:
        """The operation."""
        return self._instruction

    @property
    def inputs(self) -> list[Value]:
        """Arguments, in the operation's order."""
        return list(self._inputs)

    @property
    def outputs(self) -> list[Value]:
        """Results."""
        return list(self._outputs)

    @property
    def stream_index(self) -> int:
        """The stream that the builder was told to use; a hint, which changes no result."""
        return self._stream_index

    def __repr__(self) -> str:
        results = ", ".join(map(str, self._outputs))
        return f"{results} = {self._instruction}({', '.join(map(str, self._inputs))})"


class Graph:
    """A finished compute graph.

    Parameters
    ----------
    inputs, outputs : NamedValues
        Arguments and results.
    locals : sequence of Value
        All values by number; constants that instructions read or that are results have a number too.
    globals : sequence of (str, Value)
        Named arrays that the graph reads from a context.
    instructions : sequence of InstructionCall
        What computes the results, in order.
    """

    __slots__ = ("_globals", "_inputs", "_instructions", "_locals", "_outputs")

    def __init__(
        self,
        inputs: NamedValues,
        outputs: NamedValues,
        locals: Sequence[Value],
        globals: Sequence[tuple[str, Value]],
        instructions: Sequence[InstructionCall],
    ) -> None:
        self._inputs = inputs
        self._outputs = outputs
        self._locals = tuple(locals)
        self._globals = tuple(globals)
        self._instructions = tuple(instructions)

    @property
    def inputs(self) -> NamedValues:
        """Arguments by name."""
        return NamedValues(self._inputs.keys(), self._inputs.values())

    @property
    def outputs(self) -> NamedValues:
        """Results by name."""
        return NamedValues(self._outputs.keys(), self._outputs.values())

    @property
    def locals(self) -> list[Value]:
        """All values by number."""
        return list(self._locals)

    @property
    def globals(self) -> list[tuple[str, Value]]:
        """Arrays that are read from a context, by name."""
        return list(self._globals)

    @property
    def instructions(self) -> list[InstructionCall]:
        """What computes the results, in order."""
        return list(self._instructions)

    def __repr__(self) -> str:
        lines = ["Inputs:"]
        lines += [f"  {x} : {x.type}={name}" for name, x in zip(self._inputs.keys(), self._inputs, strict=True)]
        lines += ["Globals:"]
        lines += [f"  {x} : {x.type} = {name}" for name, x in self._globals]
        lines += ["Instructions:"]
        lines += [f"  {call}" for call in self._instructions]
        lines += ["Outputs:"]
        lines += [f"  {name}={x} : {x.type}" for name, x in zip(self._outputs.keys(), self._outputs, strict=True)]
        return "\n".join(lines) + "\n"
