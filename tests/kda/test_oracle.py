"""The oracle itself: a loop over single numbers, and the algebra by which 16 tokens become matrix products."""

import itertools

import numpy as np
import pytest
from kda.inputs import arange_state, normal_state, offsets, rotating_keys, upstream
from kda.oracle import kda, log_decay, relative_l2


def test_single_numbers():
    inputs = upstream(5, 2, D=3, seed=1) | {"initial_state": normal_state(1, 2, 3)}
    result = kda(**inputs)
    for h in range(2):
        S = [[float(x) for x in row] for row in inputs["initial_state"][0, h]]
        for t in range(5):
            q, k, v, g = ([float(x) for x in inputs[name][0, t, h]] for name in "qkvg")
            q, k = ([x / (sum(y * y for y in w) + 1e-6) ** 0.5 for x in w] for w in (q, k))
            beta = 1 / (1 + np.exp(-float(inputs["beta"][0, t, h])))
            for j in range(3):
                x = np.exp(float(inputs["A_log"][h])) * (g[j] + float(inputs["dt_bias"][h, j]))
                keep = np.exp(-5 / (1 + np.exp(-x)))
                for i in range(3):
                    S[i][j] *= keep
            error = [beta * (v[i] - sum(S[i][j] * k[j] for j in range(3))) for i in range(3)]
            for i in range(3):
                for j in range(3):
                    S[i][j] += error[i] * k[j]
            out = [3**-0.5 * sum(S[i][j] * q[j] for j in range(3)) for i in range(3)]
            np.testing.assert_allclose(result.out[0, t, h], out, rtol=1e-12)
        np.testing.assert_allclose(result.final[0, h], S, rtol=1e-12)


def test_chunk_form():
    inputs = upstream(16, 1, D=32, seed=2) | {"initial_state": normal_state(1, 1, 32)}
    result = kda(**inputs)
    q, k, v, g = (np.float64(inputs[name][0, :, 0]) for name in "qkvg")
    q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
    beta = 1 / (1 + np.exp(-np.float64(inputs["beta"][0, :, 0])))[:, None]
    G = np.cumsum(log_decay(g[:, None], inputs["A_log"], inputs["dt_bias"], -5.0)[:, 0], axis=0)
    S = np.float64(inputs["initial_state"][0, 0])
    Kd, Qd, Ki, Kr = k * np.exp(G), inputs["scale"] * q * np.exp(G), k * np.exp(-G), k * np.exp(G[-1] - G)
    U = np.linalg.solve(np.eye(16) + np.tril(beta * (Kd @ Ki.T), -1), beta * (v - Kd @ S.T))
    assert relative_l2(Qd @ S.T + np.tril(Qd @ Ki.T) @ U, result.out[0, :, 0]) < 1e-12
    assert relative_l2(S * np.exp(G[-1]) + U.T @ Kr, result.final[0, 0]) < 1e-12


@pytest.mark.parametrize("lengths", [[7, 0, 3, 12], [0, 0], [5]])
def test_packed_is_each_sequence_alone(lengths):
    ends = offsets(lengths)
    state = normal_state(len(lengths), 2, 8)
    inputs = upstream(sum(lengths) + 2, 2, D=8, seed=3)
    result = kda(**inputs, initial_state=state, cu_seqlens=ends)
    assert np.isnan(result.out[0, ends[-1] :]).all()
    for n, (first, last) in enumerate(itertools.pairwise(ends)):
        alone = {name: x[:, first:last] if name in {*"qkvg", "beta"} else x for name, x in inputs.items()}
        alone = kda(**alone, initial_state=state[n : n + 1])
        np.testing.assert_allclose(result.out[0, first:last], alone.out[0], rtol=1e-12, atol=1e-300)
        np.testing.assert_allclose(result.final[n], alone.final[0], rtol=1e-12, atol=1e-300)


def test_grouped_heads_slots_snapshots_and_chosen_heads():
    inputs = upstream(40, 4, key_heads=2, D=8, seed=4) | {"initial_state": arange_state(3, 4, 8)}
    inputs |= {"cu_seqlens": offsets([33, 7]), "state_slots": np.array([2, -1])}
    full = kda(**inputs, intermediate_tokens=np.array([16, 32]), intermediate_offsets=np.array([0, 2, 2]))
    repeated = inputs | {name: np.repeat(inputs[name], 2, axis=2) for name in "qk"}
    np.testing.assert_array_equal(kda(**repeated).out, full.out)
    np.testing.assert_array_equal(kda(**inputs, heads=[3, 1]).out, full.out[:, :, [3, 1]])
    states = np.stack([inputs["initial_state"][2], np.zeros((4, 8, 8))])
    np.testing.assert_array_equal(kda(**inputs | {"initial_state": states, "state_slots": None}).final, full.final)
    for m, tokens in enumerate((16, 32)):
        prefix = kda(**inputs | {"cu_seqlens": np.array([0, tokens, tokens])})
        np.testing.assert_array_equal(prefix.final[0], full.snapshots[m])


def test_the_sums_of_gates_say_nothing_of_what_is_forgotten():
    inputs = rotating_keys()
    sums = log_decay(np.float64(inputs["g"]), inputs["A_log"], inputs["dt_bias"], -5.0).sum(1)
    assert sums.max() < -19.9
    assert np.linalg.norm(kda(**inputs).final[0, 0, 0]) > 0.38
