"""Kimi Delta Attention token by token in float64: what every implementation is measured against.

Per sequence and head, with the state S (rows: channels of v, columns: channels of k) and the log decays a:
S <- S diag(exp(a)), e = beta (v - S k), S <- S + e k^T, o = scale S q. Nothing is shared with the implementations but
the order of these four steps; the inputs are taken as they are stored, and nothing is rounded on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

EPSILON = 1e-6  # inside the root of the norms of q and k
SLOWEST, FASTEST = 0.0, -5.0  # what a given decay is limited to


@dataclass
class Result:
    """What a call should have given.

    Attributes
    ----------
    out : numpy.ndarray
        float64 [B, T, heads, D]; NaN where a token belongs to no sequence.
    final : numpy.ndarray
        float64 [N, heads, D, D], by sequence, also where slots were given.
    snapshots : numpy.ndarray
        float64 [M, heads, D, D]; NaN where a snapshot belongs to no sequence.
    """

    out: np.ndarray
    final: np.ndarray
    snapshots: np.ndarray


def spans(shape, cu_seqlens=None):
    """Return first row and length of each sequence, rows counted over [B * T]."""
    if cu_seqlens is None:
        batches, tokens = shape[:2]
        return np.arange(batches) * tokens, np.full(batches, tokens)
    offsets = np.asarray(cu_seqlens, np.int64)
    return offsets[:-1], np.diff(offsets)


def log_decay(g, A_log=None, dt_bias=None, lower_bound=None, gate_activated=False):
    """Return the natural logarithms of the decays, [..., HV, D]."""
    if gate_activated:
        return np.clip(g, FASTEST, SLOWEST)
    return lower_bound * sigmoid(np.exp(np.float64(A_log))[:, None] * (g + np.float64(dt_bias)))


def sigmoid(x):
    """Return 1 / (1 + exp(-x)), 0 where exp(-x) is too large."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def start_states(initial_state, state_slots, n_sequences, heads, channels):
    """Return the states that the sequences start from, float64 [N, heads, D, D]."""
    states = np.zeros((n_sequences, len(heads), channels, channels))
    if initial_state is None:
        return states
    slots = np.arange(n_sequences) if state_slots is None else np.asarray(state_slots)
    for n, slot in enumerate(slots):
        if 0 <= slot < len(initial_state):
            states[n] = initial_state[slot][heads]
    return states


def kda(
    q,
    k,
    v,
    g,
    beta,
    scale,
    *,
    A_log=None,
    dt_bias=None,
    lower_bound=None,
    initial_state=None,
    cu_seqlens=None,
    state_slots=None,
    intermediate_tokens=(),
    intermediate_offsets=None,
    use_qk_l2norm=True,
    gate_activated=False,
    heads=None,
):
    """Run the recurrence on NumPy arrays, named as the arguments of ``madspace.kda.fwd``.

    Parameters
    ----------
    heads : sequence of int, optional
        The value heads to compute, all by default.

    Returns
    -------
    Result
    """
    batches, tokens, n_heads, channels = v.shape
    heads = np.arange(n_heads) if heads is None else np.asarray(heads)
    key_heads = heads // (n_heads // q.shape[2])

    def rows(x, chosen):
        return np.asarray(x[:, :, chosen], np.float64).reshape(batches * tokens, len(heads), *x.shape[3:])

    q, k, v, g, beta = rows(q, key_heads), rows(k, key_heads), rows(v, heads), rows(g, heads), rows(beta, heads)
    if use_qk_l2norm:
        q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + EPSILON) for x in (q, k))
    beta = sigmoid(beta)
    gate = (None, None) if gate_activated else (A_log[heads], dt_bias[heads])
    decay = np.exp(log_decay(g, *gate, lower_bound, gate_activated))

    first, lengths = spans((batches, tokens), cu_seqlens)
    states = start_states(initial_state, state_slots, len(lengths), heads, channels)
    wanted = _snapshots_by_token(intermediate_tokens, intermediate_offsets, len(lengths))
    out = np.full((batches * tokens, len(heads), channels), np.nan)
    snapshots = np.full((len(intermediate_tokens), len(heads), channels, channels), np.nan)

    longest_first = np.argsort(-lengths, kind="stable")
    running, begin = states[longest_first], first[longest_first]
    active = len(lengths) - np.searchsorted(np.sort(lengths), np.arange(lengths.max(initial=0)), side="right")
    for t, n in enumerate(active):
        S, now = running[:n], begin[:n] + t
        S *= decay[now][..., None, :]
        error = beta[now][..., None] * (v[now] - _times(S, k[now]))
        S += error[..., :, None] * k[now][..., None, :]
        out[now] = scale * _times(S, q[now])
        for sequence, m in wanted.get(t + 1, ()):
            for place in np.flatnonzero(longest_first[:n] == sequence):  # none where the sequence has ended
                snapshots[m] = S[place]
    states[longest_first] = running
    return Result(out.reshape(batches, tokens, len(heads), channels), states, snapshots)


def _times(matrices, vectors):
    """Return matrix times vector along the leading axes."""
    return (matrices @ vectors[..., None])[..., 0]


def _snapshots_by_token(tokens, offsets, n_sequences):
    """Return the snapshots to take: (sequence, number of the snapshot) by the token after which it is."""
    wanted = {}
    for n in range(n_sequences if len(tokens) else 0):
        for m in range(offsets[n], offsets[n + 1]):
            wanted.setdefault(int(tokens[m]), []).append((n, m))
    return wanted


def relative_l2(x, reference):
    """Return |x - reference| / |reference|; infinite where x is not finite, and 0 for nothing."""
    x, reference = np.asarray(x, np.float64), np.asarray(reference, np.float64)
    assert x.shape == reference.shape, f"{x.shape} against {reference.shape}"
    if x.size == 0:
        return 0.0
    if not np.isfinite(x).all():
        return np.inf
    norm = np.linalg.norm(reference.ravel())
    difference = np.linalg.norm((x - reference).ravel())
    return difference / norm if norm else (np.inf if difference else 0.0)
