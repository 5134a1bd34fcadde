"""Inputs of KDA tests, as NumPy arrays by the argument names of ``madspace.kda.fwd``."""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
FP32 = np.dtype(np.float32)
LOWER_BOUND = -5.0
ARRAYS = ("q", "k", "v", "g", "beta")  # those with tokens
# Random numbers are made for some tokens and heads and used again, moved, for more: a large call costs a copy only.
BASE_HEADS = 8
BASE_TOKENS = (1021, 8191)  # primes, so that no two heads of a call are the same


def bf16(x):
    """Return an array as bfloat16."""
    return np.asarray(x, np.float32).astype(BF16)


def offsets(lengths, dtype=np.int64):
    """Return cu_seqlens of sequences of these lengths."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)


def draw(b=1, t=40, hk=1, hv=None, d=64, seed=1):
    """Draw the arrays of a call: standard normal bfloat16, and the three gate parameters."""
    hv = hk if hv is None else hv
    rng = np.random.default_rng(seed)
    shapes = {"q": (b, t, hk, d), "k": (b, t, hk, d), "v": (b, t, hv, d), "g": (b, t, hv, d), "beta": (b, t, hv)}
    arrays = {name: rng.standard_normal(shape).astype(BF16) for name, shape in shapes.items()}
    return arrays | {
        "scale": d**-0.5,
        "A_log": rng.random(hv).astype(np.float32),
        "dt_bias": rng.random((hv, d)).astype(np.float32),
        "lower_bound": LOWER_BOUND,
    }


def _spread(base, tokens, heads):
    """Return [tokens, heads, ...]: head h is head h % n of the base, moved by 37 h tokens."""
    n_tokens, n_heads = base.shape[:2]
    out = np.empty((tokens, heads, *base.shape[2:]), base.dtype)
    for h in range(heads):
        out[:, h] = base[(np.arange(tokens) + 37 * h) % n_tokens, h % n_heads]
    return out


@functools.lru_cache(maxsize=4)
def _upstream_base(tokens, heads, key_heads, D, seed):
    """Return what the inputs of `upstream` are made of: arrays by name, ``A_log`` and ``dt_bias``."""
    rng = np.random.default_rng(seed)

    def normal(n_heads, channels=D, unit=False):
        base = rng.standard_normal((tokens, min(n_heads, BASE_HEADS), channels), np.float32)
        if unit:
            base /= np.sqrt((base * base).sum(-1, keepdims=True))
        return bf16(base)

    bases = {
        "q": normal(key_heads, unit=True),
        "k": normal(key_heads, unit=True),
        "v": normal(heads),
        "g": normal(heads),
        "beta": normal(heads, 1)[..., 0],
    }
    return bases, rng.random(heads, np.float32), rng.random((heads, D), np.float32)


def upstream(tokens, heads, *, batches=1, key_heads=None, D=128, seed=0, cu_seqlens=None, gate=None):
    """Return the inputs of upstream's full test: unit normal q and k, normal v, g and beta, uniform gate parameters.

    Parameters
    ----------
    tokens : int
        Per batch.
    gate : float, optional
        The same logit everywhere, with zero ``A_log`` and ``dt_bias``.
    """
    key_heads = key_heads or heads
    base_tokens = BASE_TOKENS[batches * tokens > BASE_TOKENS[0]]
    bases, A_log, dt_bias = _upstream_base(base_tokens, heads, key_heads, D, seed)
    n_heads = {"q": key_heads, "k": key_heads, "v": heads, "g": heads, "beta": heads}
    inputs = {
        name: _spread(base, batches * tokens, n_heads[name]).reshape(batches, tokens, n_heads[name], *base.shape[2:])
        for name, base in bases.items()
    }
    inputs |= {"scale": D**-0.5, "A_log": A_log.copy(), "dt_bias": dt_bias.copy(), "lower_bound": LOWER_BOUND}
    if gate is not None:
        inputs["g"] = np.full_like(inputs["g"], gate)
        inputs["A_log"][:] = inputs["dt_bias"][:] = 0
    if cu_seqlens is not None:
        inputs["cu_seqlens"] = np.asarray(cu_seqlens)
    return inputs


def packed(lengths, heads, dtype=np.int64, **options):
    """Return `upstream` inputs of packed sequences."""
    return upstream(sum(lengths), heads, cu_seqlens=offsets(lengths, dtype), **options)


def arange_state(n, heads, D=128, dtype=FP32):
    """Return upstream's initial state: 0, 1, 2, ... (up to 1.5e6 for 96 heads)."""
    return np.arange(n * heads * D * D, dtype=np.float32).reshape(n, heads, D, D).astype(dtype)


def normal_state(n, heads, D=128, dtype=FP32, seed=5):
    """Return a random initial state."""
    return np.random.default_rng(seed).standard_normal((n, heads, D, D), np.float32).astype(dtype)


# The sweeps over gates of upstream's comparison with fla: (g, dt_bias), each a number or a function of rng and shape.
GATES = {
    "g=-8": (-8.0, 0.0),
    "g=-4": (-4.0, 0.0),
    "g=0": (0.0, 0.0),
    "g=8": (8.0, 0.0),
    "g=uniform": (lambda rng, shape: rng.uniform(-8, 8, shape), 0.0),
    "g=normal": (lambda rng, shape: rng.normal(0, 8, shape), 0.0),
    "bias=-8": (0.0, -8.0),
    "bias=8": (0.0, 8.0),
    "bias=uniform": (0.0, lambda rng, shape: rng.uniform(-8, 8, shape)),
    "bias=normal": (0.0, lambda rng, shape: rng.normal(0, 8, shape)),
}
SLOW_GATES = {"g=-8", "bias=-8"}


def family(gate, tokens=8192, heads=1, lengths=None, D=128, seed=11):
    """Return inputs of upstream's comparison with fla: q, k and v uniform in [0, 1), so keys are alike; normal beta."""
    rng = np.random.default_rng(seed)
    shape = (1, tokens if lengths is None else sum(lengths), heads, D)

    def filled(what, shape):
        return what(rng, shape) if callable(what) else np.full(shape, what)

    g, bias = GATES[gate]
    inputs = {
        "q": bf16(rng.random(shape)),
        "k": bf16(rng.random(shape)),
        "v": bf16(rng.random(shape)),
        "g": bf16(filled(g, shape)),
        "beta": bf16(rng.standard_normal(shape[:3])),
        "scale": D**-0.5,
        "A_log": np.zeros(heads, np.float32),
        "dt_bias": filled(bias, (heads, D)).astype(np.float32),
        "lower_bound": LOWER_BOUND,
        "initial_state": normal_state(1 if lengths is None else len(lengths), heads, D),
    }
    if lengths is not None:
        inputs["cu_seqlens"] = offsets(lengths)
    return inputs


def identical_keys(tokens, heads=2, seed=3):
    """Return one random key for all tokens, which is also the query, with beta near 1 and hardly any decay."""
    inputs = upstream(tokens, heads, seed=seed, gate=-12.0)
    inputs["k"][:] = inputs["k"][:, :1]
    inputs["q"][:] = inputs["k"]
    inputs["beta"][:] = 8.0
    return inputs


def slow_decay(beta, tokens=8192, heads=1, seed=4):
    """Return inputs that keep 0.9999 of the state per 16 tokens, with small or large steps."""
    inputs = upstream(tokens, heads, seed=seed)
    logit = -13.59  # -5 sigmoid(logit) = log(0.9999) / 16
    inputs["g"][:] = logit
    inputs["A_log"][:] = inputs["dt_bias"][:] = 0
    inputs["beta"][:] = beta
    return inputs


def rotating_keys(D=128):
    """Return 16 tokens whose gates sum to -20 in every channel while a third of a unit state survives.

    In window w of 4 tokens channel w of the first 4 decays by exp(-5) per token and the other three hardly; the keys
    turn the state by 22.5 degrees per token out of the channel that will decay next. So no function of the sums of the
    gates says what a state forgets.
    """
    inputs = upstream(16, 1, D=D)
    A = np.zeros((16, D))
    K = np.zeros((16, D))
    A[:] = -5.0
    # beta = 1 makes a token the projection orthogonal to its key; two reflections' worth of projections along an arc
    # carry the state with them, losing cos(22.5 degrees) each time.
    turns = {0: (1, 2), 1: (2, 3), 2: (3, 0)}
    for t in range(16):
        window, step = divmod(t, 4)
        A[t, :4] = 0
        A[t, window] = -5.0
        if window in turns:
            a, b = turns[window]
            angle = np.pi / 8 * (step + 1)
            K[t, a], K[t, b] = -np.sin(angle), np.cos(angle)
        else:
            K[t, D - 1] = 1
    inputs["k"] = bf16(K).reshape(1, 16, 1, D)
    inputs["q"] = bf16(np.eye(D)[np.arange(16) % 4]).reshape(1, 16, 1, D)
    inputs["g"] = bf16(np.where(A == 0, -60, 60)).reshape(1, 16, 1, D)
    inputs["v"][:] = 0
    inputs["beta"][:] = 30
    inputs["A_log"][:] = inputs["dt_bias"][:] = 0
    inputs["scale"] = 1.0
    state = np.zeros((1, 1, D, D), np.float32)
    state[0, 0, :, 1] = 1
    inputs["initial_state"] = state
    return inputs
