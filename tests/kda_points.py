"""Inputs of KDA tests, and a small float64 recurrence to compare with."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np

BF16 = ml_dtypes.bfloat16
ARRAYS = ("q", "k", "v", "g", "beta")


def draw(b=1, t=40, hk=1, hv=None, d=64, seed=1):
    """Draw the arrays of a call: float32 values that are bfloat16 numbers, and the three gate parameters."""
    hv = hk if hv is None else hv
    rng = np.random.default_rng(seed)
    shapes = {"q": (b, t, hk, d), "k": (b, t, hk, d), "v": (b, t, hv, d), "g": (b, t, hv, d), "beta": (b, t, hv)}
    arrays = {name: rng.standard_normal(shape).astype(BF16) for name, shape in shapes.items()}
    return arrays | {
        "scale": d**-0.5,
        "A_log": rng.random(hv).astype(np.float32),
        "dt_bias": rng.random((hv, d)).astype(np.float32),
        "lower_bound": -5.0,
    }


def reference(inputs, states=None, lengths=None, normalize=True, activated=False, marks=()):
    """Run the recurrence in float64, one token and sequence at a time.

    states: (N, HV, D, D) or None. lengths: of packed sequences. marks: numbers of tokens after which states are kept.
    Gives `out`, `states` and `kept`, a dict (sequence, mark): state.
    """
    x = {name: np.asarray(inputs[name], np.float64) for name in ARRAYS}
    b, t, hv, d = x["v"].shape
    group = hv // x["q"].shape[2]
    if lengths is None:
        spans = [(i, 0, t) for i in range(b)]
    else:
        ends = np.cumsum(lengths)
        spans = [(0, end - n, end) for end, n in zip(ends, lengths, strict=True)]
    s = np.zeros((len(spans), hv, d, d)) if states is None else np.array(states, np.float64)
    out, kept = np.zeros((b, t, hv, d)), {}
    for n, (i, first, last) in enumerate(spans):
        for token in range(first, last):
            for h in range(hv):
                q, k = x["q"][i, token, h // group], x["k"][i, token, h // group]
                if normalize:
                    q, k = (y / np.sqrt(y @ y + 1e-6) for y in (q, k))
                a = x["g"][i, token, h]
                if activated:
                    a = np.clip(a, -5.0, 0.0)
                else:
                    rate = np.exp(float(inputs["A_log"][h]))
                    a = inputs["lower_bound"] / (1 + np.exp(-rate * (a + inputs["dt_bias"][h])))
                state = s[n, h] * np.exp(a)
                error = (x["v"][i, token, h] - state @ k) / (1 + np.exp(-x["beta"][i, token, h]))
                s[n, h] = state + np.outer(error, k)
                out[i, token, h] = inputs["scale"] * (s[n, h] @ q)
            if token + 1 - first in marks:
                kept[n, token + 1 - first] = s[n].copy()
    return SimpleNamespace(out=out, states=s, kept=kept)


def relative_error(result, expected):
    """Return the relative root-mean-square error of a result."""
    result, expected = np.asarray(result, np.float64), np.asarray(expected, np.float64)
    return np.linalg.norm(result - expected) / (np.linalg.norm(expected) + 1e-30)
