"""The answer that KDA benchmarks check against: the recurrence token by token in float64, for some heads.

Per sequence and head, with the state S (rows: channels of v, columns: channels of k) and the log decays a:
S <- S diag(exp(a)), e = beta (v - S k), S <- S + e k^T, o = scale S q.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
EPSILON = 1e-6  # inside the root of the norms of q and k


def recurrence(inputs: dict[str, Any], heads: list[int]) -> tuple[Array, Array]:
    """Return output [B, T, heads, D] and final states [N, heads, D, D] in float64.

    Parameters
    ----------
    inputs : dict
        Arguments of ``madspace.kda.fwd`` as `kda_cases.host_inputs` makes them.
    heads : list of int
        Which ones to compute.
    """

    def chosen(name: str) -> Array:
        return np.asarray(inputs[name][:, :, heads], np.float64)

    q, k, v, g, beta = (chosen(name) for name in ("q", "k", "v", "g", "beta"))
    q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + EPSILON) for x in (q, k))
    rate, bias = (np.asarray(inputs[name][heads], np.float64) for name in ("A_log", "dt_bias"))
    decay = np.exp(inputs["lower_bound"] * _sigmoid(np.exp(rate)[:, None] * (g + bias)))
    beta = _sigmoid(beta)
    out = np.empty(v.shape)
    final = np.array(inputs["initial_state"][:, heads], np.float64)

    def run(states: Array, batch: slice, tokens: range) -> None:
        """Take some sequences of one length through all their tokens."""
        for t in tokens:
            key = k[batch, t]
            states *= decay[batch, t][..., None, :]
            error = beta[batch, t][..., None] * (v[batch, t] - _times(states, key))
            states += error[..., :, None] * key[..., None, :]
            out[batch, t] = inputs["scale"] * _times(states, q[batch, t])

    if "cu_seqlens" not in inputs:
        run(final, slice(None), range(v.shape[1]))
    else:
        offsets = [int(x) for x in inputs["cu_seqlens"]]
        for n, (begin, end) in enumerate(pairwise(offsets)):
            run(final[n : n + 1], slice(0, 1), range(begin, end))
    return out, final


def relative_l2(x: Array, reference: Array) -> float:
    """Return |x - reference| / |reference|; infinite where x is not finite."""
    difference = np.asarray(x, np.float64) - reference
    if not np.isfinite(difference).all():
        return np.inf
    return float(np.linalg.norm(difference.ravel()) / np.linalg.norm(reference.ravel()))


def _sigmoid(x: Array) -> Array:
    y: Array = 1 / (1 + np.exp(-x))
    return y


def _times(matrices: Array, vectors: Array) -> Array:
    product: Array = matrices @ vectors[..., None]
    return product[..., 0]
