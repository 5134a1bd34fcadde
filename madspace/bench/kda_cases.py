"""Calls of KDA that benchmarks time: their shapes, inputs, least traffic, and the check before anything is timed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import madspace
from madspace.bench.kda_reference import recurrence, relative_l2
from madspace.bench.latency_cases import matches
from madspace.bench.timing import COPY_BANDWIDTH

RANDOM_HEADS = 8  # a large call then costs a copy only
LOWER_BOUND = -5.0  # of the logarithm of a token's decay
GATES = {"fast": None, "slow": -8.0}  # logits: normal ones forget within 16 tokens, -8 keeps 0.97 of everything there


# The positional parameters of ``madspace.kda.fwd``.
ORDER = (
    *("q", "k", "v", "g", "beta", "scale", "out", "A_log", "dt_bias", "lower_bound", "initial_state", "final_state"),
    *("cu_seqlens", "workspace"),
)


@dataclass(frozen=True)
class Case:
    """One shape; `lengths` of packed sequences or nothing."""

    name: str
    tokens: int
    heads: int
    batches: int = 1
    lengths: tuple[int, ...] = ()
    channels: int = 128

    @property
    def n_sequences(self) -> int:
        """Sequences, each with a state per head."""
        return len(self.lengths) or self.batches

    @property
    def state_shape(self) -> tuple[int, int, int, int]:
        """Shape of the initial and of the final state."""
        return self.n_sequences, self.heads, self.channels, self.channels

    def nbytes(self, state_itemsize: int = 4) -> int:
        """Bytes that every implementation moves: inputs and output once, states in and out."""
        per_token_head = 5 * 2 * self.channels + 2  # q, k, v, g, out; beta
        states = 2 * self.n_sequences * self.channels**2 * state_itemsize
        return self.heads * (self.batches * self.tokens * per_token_head + states)

    def floor(self) -> float:
        """Microseconds that these bytes take at the bandwidth of a copy."""
        return self.nbytes() / COPY_BANDWIDTH * 1e6

    def flashkda_workspace(self) -> int:
        """Bytes that FlashKDA's formula asks for: 13824 per tile of 16 tokens and head, and a prefix of the tiles."""
        tiles = -(-self.batches * self.tokens // 16) + self.n_sequences
        return self.heads * tiles * 13824 + -(-4 * (self.n_sequences + 1) // 128) * 128


def packed(name: str, lengths: tuple[int, ...], heads: int) -> Case:
    """Return the case of packed sequences."""
    return Case(name, sum(lengths), heads, lengths=lengths)


MIXED = (1300, 547, 2048, 963, 271, 3063)
CASES = (
    Case("fixed-t8192-h96", 8192, 96),
    Case("fixed-t8192-h64", 8192, 64),
    Case("fixed-t8192-h32", 8192, 32),
    packed("varlen-mix-h96", MIXED, 96),
    packed("varlen-1024x8-h96", (1024,) * 8, 96),
    Case("fixed-t2048-h8", 2048, 8),
    Case("batched-b4-t512-h8", 512, 8, batches=4),
    packed("varlen-17-33-65-257-h4", (17, 33, 65, 257), 4),
    Case("fixed-t256-h1", 256, 1),
    Case("decode-b64-t1-h32", 1, 32, batches=64),
    # Beside the one of 2048: times of the same heads against T.
    Case("fixed-t256-h8", 256, 8),
    Case("fixed-t512-h8", 512, 8),
    Case("fixed-t8192-h8", 8192, 8),
)
SMALL = ("fixed-t256-h1", "varlen-17-33-65-257-h4", "decode-b64-t1-h32")
WORKSPACE_CASES = (
    "fixed-t256-h1",
    "fixed-t2048-h8",
    "batched-b4-t512-h8",
    "varlen-17-33-65-257-h4",
    "fixed-t8192-h32",
)


def chosen(patterns: str | None, default: tuple[str, ...]) -> list[Case]:
    """Return cases by name, in the order of `CASES`; the default ones where nothing is asked for."""
    return [case for case in CASES if (case.name in default if patterns is None else matches(case.name, patterns))]


def host_inputs(case: Case, gate: str, seed: int = 0) -> dict[str, Any]:
    """Return the arguments of ``madspace.kda.fwd`` as NumPy arrays, with an initial state.

    Parameters
    ----------
    gate : str
        One of `GATES`.
    seed : int
        Of the random numbers: q, k, v, beta and fast gates are normal, q and k of unit length.
    """
    inputs = dict(_random_inputs(case, seed))
    if (logit := GATES[gate]) is not None:
        inputs["g"] = np.full_like(inputs["g"], logit)
    return inputs


@lru_cache(maxsize=1)  # both gates of a case come one behind the other, and no call writes to its inputs
def _random_inputs(case: Case, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    shape = (case.batches, case.tokens, case.heads, case.channels)

    def normal(*extents: int, unit: bool = False) -> Any:
        """Fill bfloat16 [B, T, heads, ...]: a few heads are random, others are the same moved by some tokens."""
        base = rng.standard_normal((*extents[:2], min(extents[2], RANDOM_HEADS), *extents[3:]), np.float32)
        if unit:
            base /= np.sqrt((base * base).sum(-1, keepdims=True))
        base = base.astype(bfloat16)
        made = [np.roll(base[:, :, h % RANDOM_HEADS], 37 * h, axis=1) for h in range(extents[2])]
        return np.stack(made, axis=2)

    inputs = {
        "q": normal(*shape, unit=True),
        "k": normal(*shape, unit=True),
        "v": normal(*shape),
        "g": normal(*shape),
        "beta": normal(*shape[:3]),
        "scale": case.channels**-0.5,
        "A_log": np.zeros(case.heads, np.float32),
        "dt_bias": np.zeros((case.heads, case.channels), np.float32),
        "lower_bound": LOWER_BOUND,
        "initial_state": rng.standard_normal(case.state_shape, np.float32),
    }
    if case.lengths:
        inputs["cu_seqlens"] = np.cumsum([0, *case.lengths], dtype=np.int64)
    return inputs


class Reference:
    """The right answer for two heads of a case, computed once."""

    def __init__(self, inputs: dict[str, Any], heads: int) -> None:
        self.heads = sorted({0, heads - 1})
        self.out, self.final = recurrence(inputs, self.heads)

    def check(self, out: np.ndarray, final: np.ndarray, limit: float = 6e-3) -> tuple[float, float]:
        """Return the relative L2 errors of output and final state; refuse to time a wrong answer."""
        errors = relative_l2(out[:, :, self.heads], self.out), relative_l2(final[:, self.heads], self.final)
        if not max(errors) <= limit:
            raise RuntimeError(f"wrong answer: relative L2 {errors[0]:.2e} of the output, {errors[1]:.2e} of the state")
        return errors


class Call:
    """One call with all its memory: on the device, or on the host (device "cpu")."""

    def __init__(self, inputs: dict[str, Any], device: str, own_workspace: bool = True, put: Any = None) -> None:
        def default(x: Any) -> Any:
            if not isinstance(x, np.ndarray) or device == "cpu":
                return x
            return madspace.asarray(x, device=device)

        put = put or default
        state = inputs["initial_state"]
        self.arguments = {name: put(x) for name, x in inputs.items()}
        self.out = self.arguments["out"] = put(np.zeros(inputs["v"].shape, inputs["v"].dtype))
        self.final = self.arguments["final_state"] = put(np.zeros_like(state))
        if own_workspace:
            self.arguments["workspace"] = madspace.kda.allocate_workspace(
                self.arguments["v"], self.arguments.get("cu_seqlens")
            )
        self.in_order: Any = tuple(self.arguments.get(name) for name in ORDER)

    def __call__(self, **options: Any) -> Any:
        """Enqueue the call."""
        return madspace.kda.fwd(*self.in_order, **options)

    def bound(self, **options: Any) -> Callable[[], Any]:
        """Return the call as a function of nothing, with no Python of its own."""
        return partial(madspace.kda.fwd, *self.in_order, **options)

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """Return output and final state as NumPy arrays."""
        out, final = (
            x if isinstance(x, np.ndarray) else x.numpy() if isinstance(x, madspace.Tensor) else x.float().numpy()
            for x in (self.out, self.final)
        )
        return out, final

    def copy(self) -> "Call":
        """Return the same call in memory of its own."""
        other = object.__new__(Call)
        other.arguments = {
            name: x.copy() if isinstance(x, np.ndarray | madspace.Tensor) else x for name, x in self.arguments.items()
        }
        other.in_order = tuple(other.arguments.get(name) for name in ORDER)
        other.out, other.final = other.arguments["out"], other.arguments["final_state"]
        return other
