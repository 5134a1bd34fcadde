"""The steps of a program as lines of CUDA source."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["ONE_PASS", "TWO_WAY", "Call", "step_lines"]

# The steps that go both ways, cuda_src/phasespace/two_way.h, and how many inputs they have.
TWO_WAY = {
    "light_cone": 5,
    "t_chain_recoil": 5,
    "t_chain_scatter": 17,
    "t_chain_transfer": 9,
    "t_chain_transfer_fifth": 8,
    "t_chain_transfer_log": 8,
    "t_chain_transfer_uniform": 8,
}
# Steps whose adjoints are one pass: beside those, some that compute nothing.
ONE_PASS = frozenset({*TWO_WAY, "t_chain_start", "t_chain_weight"})
_ZERO = (0.0).hex()


@dataclass(frozen=True)
class Call:
    """A step whose inputs are the expressions that stand for them in the source."""

    op: str
    arguments: tuple[str, ...]
    n_results: int

    def step(self) -> tuple[str, tuple[str, ...]] | None:
        """Return op and inputs of the step whose adjoint this is, if that goes both ways."""
        op = self.op.removesuffix("_vjp")
        if op == self.op or op not in TWO_WAY:
            return None
        return op, self.arguments[self.n_results : self.n_results + TWO_WAY[op]]


def step_lines(calls: Sequence[Call]) -> Iterator[list[str]]:
    """Yield the lines of each step; its results are ``s0``, ``s1``, .. with an index.

    Parameters
    ----------
    calls : sequence of Call
        The steps in order. One that goes both ways is computed once for its results and its adjoint.

    Yields
    ------
    list of str
        What stands for one step.
    """
    steps = {step for step in (call.step() for call in calls) if step is not None}
    names: dict[tuple[str, tuple[str, ...]], str] = {}
    for number, call in enumerate(calls):
        name, step, lines = f"s{number}", call.step(), []
        if step is not None:
            if step not in names:
                names[step] = f"{name}_step"
                lines = [_both(names[step], *step)]
            positions = ", ".join(f"{float.fromhex(x):.0f}" for x in call.arguments[: call.n_results])
            gradients = ", ".join(call.arguments[call.n_results + len(step[1]) :])
            lines.append(f"const auto {name} = {names[step]}.back<{positions}>({gradients});")
        elif (call.op, call.arguments) in steps:
            names[call.op, call.arguments] = name
            lines = [_both(name, call.op, call.arguments)]
        else:
            run = f"program::run<program::op_{call.op}, {call.n_results}>"
            lines = [f"const auto {name} = {run}({', '.join(call.arguments)});"]
        yield lines


def _both(name: str, op: str, arguments: tuple[str, ...]) -> str:
    zeros = sum(1 << i for i, x in enumerate(arguments) if x == _ZERO)
    return f"const program::Both<program::op_{op}, {zeros:#x}> {name}({', '.join(arguments)});"
