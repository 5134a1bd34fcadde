"""fwd as callers see it: its signature, what comes back, empty inputs, bad contents, streams and devices."""

import inspect
import itertools

import numpy as np
import pytest
from kda import oracle
from kda.inputs import BF16, draw

import madspace
from madspace import Stream, kda

OUT, STATE = 4e-3, 3e-3


def test_exports():
    from madspace import kda as flash_kda

    assert flash_kda is madspace.kda
    assert kda.__all__ == ["allocate_workspace", "fwd", "get_workspace_size"]


def test_positional_order_is_flashkdas():
    parameters = inspect.signature(kda.fwd).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert " ".join(positional) == (
        "q k v g beta scale out A_log dt_bias lower_bound initial_state final_state cu_seqlens workspace"
    )
    defaults = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert defaults == dict.fromkeys(
        ("state_slots", "intermediate_state", "intermediate_tokens", "intermediate_offsets", "stream")
    ) | {"use_qk_l2norm": True, "gate_activated": False, "validate": False}


def test_all_arguments_by_position(place):
    x = place.put(draw(t=20))
    initial, final = (place.put(np.zeros((1, 1, 64, 64), np.float32)) for _ in range(2))
    out = place.put(np.zeros((1, 20, 1, 64), BF16))
    offsets = place.put(np.array([0, 20]))
    workspace = kda.allocate_workspace(x["q"], offsets)
    head = [x[name] for name in ("q", "k", "v", "g", "beta", "scale")]
    tail = [x[name] for name in ("A_log", "dt_bias", "lower_bound")]
    assert kda.fwd(*head, out, *tail, initial, final, offsets, workspace) is out
    assert oracle.relative_l2(place.get(out), oracle.kda(**draw(t=20)).out) < OUT


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("t", [1, 4, 5, 16, 40])
def test_result(place, t, d):
    x = draw(b=2, t=t, hk=2, hv=4, d=d)
    initial = np.random.default_rng(3).standard_normal((2, 4, d, d)).astype(np.float32)
    final = place.put(np.full_like(initial, np.nan))
    result = kda.fwd(**place.put(x), initial_state=place.put(initial), final_state=final)
    assert type(result) is (np.ndarray if place.name == "cpu" else madspace.Tensor)
    assert (tuple(result.shape), result.dtype) == ((2, t, 4, d), BF16)
    expected = oracle.kda(**x, initial_state=initial)
    assert oracle.relative_l2(place.get(result), expected.out) < OUT
    assert oracle.relative_l2(place.get(final), expected.final) < STATE


def test_many_heads(place):
    """More chains than the kernel for few of them takes."""
    x = draw(b=2, t=20, hk=20)
    assert oracle.relative_l2(place.get(kda.fwd(**place.put(x))), oracle.kda(**x).out) < OUT


@pytest.mark.parametrize("with_initial", [True, False], ids=["initial", "zero"])
@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("lengths", [None, [0], [0, 0], []], ids=["batch", "one", "two", "none"])
def test_no_tokens(place, lengths, dtype, with_initial):
    x = draw(b=2 if lengths is None else 1, t=0, hk=2)
    n = 2 if lengths is None else len(lengths)
    initial = np.random.default_rng(3).standard_normal((n, 2, 64, 64)).astype(dtype)
    final = place.put(np.full_like(initial, np.nan))
    options = {"initial_state": place.put(initial)} if with_initial else {}
    if lengths is not None:
        options["cu_seqlens"] = place.put(np.array([0, *lengths], np.int32))
    result = kda.fwd(**place.put(x), **options, final_state=final)
    assert tuple(result.shape) == (x["v"].shape)
    np.testing.assert_array_equal(place.get(final), initial if with_initial else np.zeros_like(initial))


def test_no_tokens_from_a_pool(place):
    x = place.put(draw(b=3, t=0))
    pool = place.put(np.full((2, 1, 64, 64), 7, np.float32))
    initial = place.put(np.full((2, 1, 64, 64), 3, np.float32))
    kda.fwd(**x, initial_state=initial, final_state=pool, state_slots=place.put(np.array([-1, 1, 2])))
    assert (place.get(pool)[0] == 7).all()
    assert (place.get(pool)[1] == 3).all()


def test_many_sequences_without_tokens_take_no_time(run_python):
    """Nothing is to be written, however many there are; a process of its own, since no signal ends the loop."""
    script = """
import numpy as np, ml_dtypes
from madspace import kda
x = np.empty((2**43, 0, 1, 64), ml_dtypes.bfloat16)
beta = np.empty((2**43, 0, 1), ml_dtypes.bfloat16)
gate = {"A_log": np.ones(1, np.float32), "dt_bias": np.ones((1, 64), np.float32), "lower_bound": -5.0}
print(kda.fwd(q=x, k=x, v=x, g=x, beta=beta, scale=1.0, **gate, out=x.copy()).shape)
"""
    answer = run_python(script, driver=None, timeout=30)
    assert answer.stdout == f"({2**43}, 0, 1, 64)\n", answer.stderr


def test_no_batch(place):
    x = place.put(draw(b=0, t=7))
    assert tuple(kda.fwd(**x).shape) == (0, 7, 1, 64)


LARGE = np.iinfo(np.int64).max


@pytest.mark.parametrize(
    "offsets",
    [[3, 9], [0, 500], [-7, 6], [0, 12, 4, 20], [20, 0], [LARGE, -LARGE, LARGE], [0, 0]],
    ids=str,
)
def test_nothing_outside_is_touched_whatever_the_offsets(place, offsets):
    """Outputs lie between guards; rows of sequences that make sense are right, rows of none are left alone."""
    x = draw(t=20)
    n = len(offsets) - 1
    guarded = place.put(np.full((22, 64), 5, BF16))
    states = place.put(np.full((n + 2, 1, 64, 64), 5, np.float32))
    out = guarded[1:21].reshape((1, 20, 1, 64))
    kda.fwd(**place.put(x), out=out, final_state=states[1 : n + 1], cu_seqlens=place.put(np.array(offsets)))
    rows, final = place.get(guarded), place.get(states)
    assert (rows[[0, -1]] == 5).all()
    assert (final[[0, -1]] == 5).all()
    covered = np.zeros(20, bool)
    for first, last in itertools.pairwise(offsets):
        first = min(max(first, 0), 20)
        covered[first : min(max(last, first), 20)] = True
    assert (rows[1:-1][~covered] == 5).all()
    assert (rows[1:-1][covered] != 5).any(axis=1).all()


@pytest.mark.parametrize("offsets", [[0, 2, 1, 3], [-5, 50, 2, LARGE], [1, 1, 1, 1]], ids=str)
def test_nothing_outside_is_touched_whatever_the_snapshots(place, offsets):
    x = draw(b=3, t=40)
    kept = place.put(np.full((5, 1, 64, 64), 5, np.float32))
    kda.fwd(
        **place.put(x),
        intermediate_state=kept[1:4],
        intermediate_tokens=place.put(np.array([16, LARGE, -16])),
        intermediate_offsets=place.put(np.array(offsets)),
    )
    assert (place.get(kept)[[0, 2, 3, 4]] == 5).all()


@pytest.mark.parametrize("kind", ["object", "handle", "protocol"])
def test_stream_argument_by_any_name(gpu_place, device, kind):
    stream = Stream(device)

    class Protocol:
        def __cuda_stream__(self):
            return (0, stream.handle)

    given = {"object": stream, "handle": stream.handle, "protocol": Protocol()}[kind]
    x = draw(t=20)
    result = kda.fwd(**gpu_place.put(x), stream=given)
    assert oracle.relative_l2(result.numpy(), oracle.kda(**x).out) < OUT


def test_the_call_waits_for_a_slow_producer(gpu_place, device, delay):
    producer, consumer = Stream(device), Stream(device)
    x = draw(t=20)
    sources = gpu_place.put(x)
    late = {n: madspace.zeros(a.shape, a.dtype, device=device) for n, a in x.items() if isinstance(a, np.ndarray)}
    delay(producer, 50)
    for name, array in late.items():
        array.copy_from(sources[name], stream=producer)
    result = kda.fwd(**(x | late), stream=consumer)
    assert oracle.relative_l2(result.numpy(), oracle.kda(**x).out) < OUT


def test_states_go_from_call_to_call_across_streams(gpu_place, device, delay):
    x = draw(t=16)
    state = gpu_place.put(np.zeros((1, 1, 64, 64), np.float32))
    on_device = gpu_place.put(x)
    streams = [Stream(device), Stream(device)]
    delay(streams[0], 50)
    for stream in streams:
        kda.fwd(**on_device, initial_state=state, final_state=state, stream=stream)
    expected = oracle.kda(**x, initial_state=oracle.kda(**x).final)
    assert oracle.relative_l2(state.numpy(), expected.final) < STATE


@pytest.mark.multi_gpu
def test_runs_on_the_device_of_its_inputs(other_device, kda_kernels):
    x = draw(t=20)
    there = {n: madspace.asarray(a, device=other_device) if isinstance(a, np.ndarray) else a for n, a in x.items()}
    result = kda.fwd(**there)
    assert result.device_id == other_device.id
    assert oracle.relative_l2(result.numpy(), oracle.kda(**x).out) < OUT
