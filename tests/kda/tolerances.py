"""How far an implementation may be from the float64 recurrence, as relative L2 norms: one table for all tests."""

from typing import NamedTuple

import numpy as np
from kda.oracle import relative_l2


class Tolerance(NamedTuple):
    """Limits of one family of inputs."""

    out: float
    state: float  # float32

    def state_of(self, dtype):
        """Return the limit for a final state or a snapshot of a type."""
        # Rounding to bfloat16 (8 bits) is 1.65e-3 of relative L2 for mantissas without preference.
        return self.state if dtype == np.float32 else (self.state**2 + 1.8e-3**2) ** 0.5


TOLERANCES = {
    "default": Tolerance(out=4e-3, state=3e-3),
    # Decays near 1 keep everything that was ever rounded.
    "slow gate": Tolerance(out=4.5e-3, state=5e-3),
    # The same for thousands of tokens with small steps.
    "slow decay": Tolerance(out=6e-3, state=5e-3),
    # Upstream's states 0, 1, 2, ...: up to 1.5e6, with rows so even that their products with a query cancel. Rounding a
    # state to bfloat16 once costs 2e-3 of the terms, and a few tokens are all of the output's norm.
    "huge state": Tolerance(out=1.5e-2, state=3e-3),
    # Inputs made to break things.
    "stress": Tolerance(out=1e-2, state=1e-2),
    # Keys that are all the same: the state's other directions are small differences of large numbers.
    "collinear": Tolerance(out=1e-2, state=6e-2),
}


FEW = 1000  # rows of an output, below which their errors have not averaged


def check_out(out, reference, kind="default"):
    """Compare an output with the oracle's, [..., D]."""
    error, limit = relative_l2(out, reference), TOLERANCES[kind].out
    n_rows = max(1, out.size // out.shape[-1])
    if n_rows < FEW:
        limit *= 1 + 2 / n_rows**0.5
    assert error <= limit, f"out: relative L2 {error:.3e} > {limit:.1e} ({kind})"


def check_state(state, reference, kind="default", name="final_state"):
    """Compare a final state or a snapshot with the oracle's."""
    error, limit = relative_l2(state, reference), TOLERANCES[kind].state_of(state.dtype)
    assert error <= limit, f"{name}: relative L2 {error:.3e} > {limit:.1e} ({kind}, {state.dtype})"
