"""What ms_kda_forward refuses is what madspace.kda.fwd refuses, and it names the same argument."""

import numpy as np
import pytest
from capi.kda_calls import ARENA, FIELDS, ROWS, SPACING, Arenas, Call, compact, named, sharer
from kda.inputs import BF16
from kda.places import problem_of_kernels, register_host_kernels

EVERYTHING = (
    "cu_seqlens",
    "initial_state",
    "final_state",
    "state_slots",
    "intermediate_tokens",
    "intermediate_offsets",
    "intermediate_state",
)
SIZES = {"q", "shape", "batches", "tokens", "key_heads", "value_heads", "channels", "sequences", "n_slots", "v"}


@pytest.fixture(params=["cpu", "cuda"])
def where(request):
    """Return the name of a device."""
    return request.param


@pytest.fixture
def arenas(where, api, cpu, gpu, device, stream, real_gpu):
    """Return where calls have their memory."""
    if where == "cpu":
        yield Arenas(where, cpu)
        return
    if not real_gpu:
        import fake_driver

        register_host_kernels(fake_driver.load())
    queue = api.make("stream_from_object", stream, gpu)
    yield Arenas(where, gpu, stream, queue)
    device.synchronize()
    api.stream_release(queue)
    assert problem_of_kernels() == ""


def changed(function, **sizes):
    """Return a call that a function has changed."""

    def make():
        call = Call(**sizes)
        function(call)
        return call

    return make


def everything(function):
    return changed(function, sequences=2, extras=EVERYTHING)


def moved(name, nbytes):
    return everything(lambda call: call.move(name, nbytes))


def without(*names):
    return everything(lambda call: call.drop(*names))


def number(**numbers):
    return changed(lambda call: call.numbers.update(numbers))


def steps(name, **strides):
    def change(call):
        new = list(call.arrays[name].strides)
        for axis, step in strides.items():
            new[("batch", "token", "head").index(axis)] = step
        call.change(name, strides=tuple(new))

    return changed(change, batches=2)


def shared(name, other, nbytes=0):
    return everything(lambda call: call.change(name, offset=call.arrays[other].offset + nbytes))


def spread(**sizes):
    """Return a call of huge sizes, whose rows all lie in one place."""

    def change(call):
        for name in (*ROWS, "out"):
            x = call.arrays[name]
            call.change(name, strides=(*[0] * 3, *x.strides[3:]) if name != "out" else compact(x.shape))

    return changed(change, **sizes)


def pool(n):
    def change(call):
        for name in ("initial_state", "final_state"):
            call.put(name, "f32", (n, *call.arrays[name].shape[1:]))

    return everything(change)


def work(offset, nbytes):
    def change(call):
        call.workspace = offset, nbytes

    return changed(change)


def activated(*dropped):
    def change(call):
        call.drop(*dropped)
        call.numbers["gate_activated"] = True

    return changed(change)


WIDTHS = {"A_log": 4, "dt_bias": 4, "cu_seqlens": 4, "state_slots": 4}
# A bad call, and the arguments of which both must name one, as Python spells them; sizes have names of their own in C.
BAD = {
    "scale is no number": (number(scale=float("nan")), {"scale"}),
    "scale is infinite": (number(scale=float("inf")), {"scale"}),
    "scale is too large for a float": (number(scale=1e300), {"scale"}),
    "no bound": (number(lower_bound=0.0), {"lower_bound"}),
    "a bound too low": (number(lower_bound=-5.5), {"lower_bound"}),
    "a bound that is no number": (number(lower_bound=float("nan")), {"lower_bound"}),
    "activated, with A_log": (activated("dt_bias", "lower_bound"), {"A_log"}),
    "activated, with dt_bias": (activated("A_log", "lower_bound"), {"dt_bias"}),
    "257 channels": (spread(channels=257), SIZES),
    "no channels": (spread(channels=0), SIZES),
    "no key heads": (spread(key_heads=0), SIZES),
    "no heads": (spread(heads=0), SIZES),
    "heads that do not divide": (spread(heads=3), SIZES),
    "fewer heads than those of keys": (spread(key_heads=4, heads=2), SIZES),
    "too many heads": (spread(key_heads=1, heads=1 << 31), SIZES),
    "too many heads of keys": (spread(key_heads=1 << 31, heads=1 << 31), SIZES),
    "too many tokens": (spread(batches=1 << 40, tokens=1 << 40), SIZES),
    "too many bytes": (spread(batches=1 << 30, tokens=1 << 20, heads=4), SIZES),
    "several batches and offsets": (
        changed(lambda call: call.put("cu_seqlens", "i32", (3,)), batches=2),
        {"cu_seqlens", *SIZES},
    ),
    "no offsets": (changed(lambda call: call.put("cu_seqlens", "i32", (0,))), {"cu_seqlens", *SIZES}),
    "slots without states": (without("initial_state", "final_state"), {"state_slots"}),
    "too large a pool": (pool(1 << 46), {"initial_state", "n_slots"}),
    "a pool of more bytes than there are": (pool(1 << 58), {"shape", "n_slots"}),
    "too many snapshots": (
        everything(
            lambda call: [
                call.put("intermediate_state", "f32", (1 << 46, 4, 64, 64)),
                call.put("intermediate_tokens", "i32", (1 << 46,)),
            ]
        ),
        {"intermediate_state", "n_snapshots"},
    ),
    "a small workspace": (work(ARENA // 2, 64), {"workspace"}),
    "a misaligned workspace": (work(ARENA // 2 + 8, ARENA // 4), {"workspace"}),
    "a workspace in v": (work(3 * SPACING, ARENA // 4), {"workspace"}),
    "out is q": (shared("out", "q"), {"out"}),
    "out begins in beta": (shared("out", "beta", 16), {"out"}),
    "states in out": (shared("final_state", "out"), {"final_state"}),
    "states moved by one": (shared("final_state", "initial_state", 64 * 64 * 4), {"final_state"}),
    "states in A_log": (shared("final_state", "A_log"), {"final_state"}),
    "snapshots in the final states": (shared("intermediate_state", "final_state"), {"intermediate_state"}),
    "snapshots in the offsets": (shared("intermediate_state", "cu_seqlens"), {"intermediate_state"}),
}
BAD |= {f"without {name}": (without(name), {name}) for name in (*ROWS, "A_log", "dt_bias")}
BAD |= {
    f"without {name}": (without(name), {name})
    for name in ("intermediate_state", "intermediate_tokens", "intermediate_offsets")
}
BAD |= {f"{name} at an odd address": (moved(name, 1), {name}) for name in FIELDS}
BAD |= {f"{name} in the midst of a number": (moved(name, 2), {name}) for name in FIELDS if name not in (*ROWS, "out")}
BAD |= {
    f"{name}, {axis}: more than 64 bits": (steps(name, **{axis: 1 << 60}), {name})
    for name in ROWS
    for axis in ("batch", "token", "head")
}
BAD |= {"q, backwards: more than 64 bits": (steps("q", token=-(1 << 58)), {"q"})}
# What only the kernels of a GPU cannot do.
ON_GPU = {f"{name} not at 16 bytes": (moved(name, 2), {name}) for name in (*ROWS[:4], "out")}
ON_GPU |= {
    f"{name} not at 16 bytes": (moved(name, 8), {name})
    for name in ("initial_state", "final_state", "intermediate_state")
}
ON_GPU |= {f"{name}, {axis}: no whole pieces": (steps(name, **{axis: 20 * 4 * 68 + 4}), {name})
           for name in ROWS[:4] for axis in ("batch", "token", "head")}  # fmt: skip
ON_GPU |= {f"{d} channels": (spread(channels=d), SIZES) for d in (32, 96, 256)}
ON_GPU |= {"a workspace not at 128 bytes": (work(ARENA // 2 + 64, ARENA // 4), {"workspace"})}


def check_refused(arenas, api, make, names):
    bases = arenas.fill(np.zeros(ARENA, np.uint8))
    in_python, in_c = arenas.both(make(), api, bases)
    assert in_python is not None, f"Python accepts what C refuses: {in_c}"
    assert in_c is not None, f"C accepts what Python refuses: {in_python}"
    assert named(in_python) & names, in_python
    assert named(in_c) & names, in_c
    assert sharer(in_python) == sharer(in_c)
    assert not any(x.any() for x in arenas.read())


@pytest.mark.parametrize(("make", "names"), BAD.values(), ids=BAD)
def test_refused_by_both(arenas, api, make, names):
    check_refused(arenas, api, make, names)


@pytest.mark.parametrize("where", ["cuda"], indirect=True)
@pytest.mark.parametrize(("make", "names"), ON_GPU.values(), ids=ON_GPU)
def test_refused_by_both_on_a_gpu(arenas, api, make, names):
    check_refused(arenas, api, make, names)


@pytest.mark.parametrize("where", ["cpu"], indirect=True)
@pytest.mark.parametrize(("make", "names"), ON_GPU.values(), ids=ON_GPU)
def test_accepted_by_both_on_the_cpu(arenas, api, make, names):
    assert arenas.both(make(), api, arenas.fill(np.zeros(ARENA, np.uint8))) == (None, None)


def drawn(seed):
    """Return a call that nobody chose, with at most one thing wrong with it."""
    rng = np.random.default_rng([6, seed])
    tokens, key_heads = int(rng.integers(0, 20)), int(rng.integers(1, 3))
    sizes = {"tokens": tokens, "key_heads": key_heads, "heads": key_heads * int(rng.integers(1, 3)), "channels": 64}
    packed = rng.random() < 0.5
    extras = [name for name in ("initial_state", "final_state") if rng.random() < 0.6]
    extras += ["state_slots"] if extras and rng.random() < 0.5 else []
    extras += list(EVERYTHING[4:]) if rng.random() < 0.5 else []
    if packed:
        call = Call(**sizes, sequences=int(rng.integers(1, 3)), extras=("cu_seqlens", *extras))
    else:
        call = Call(**sizes, batches=int(rng.integers(0, 3)), extras=extras)
    for name in ("cu_seqlens", "state_slots"):
        if name in call.arrays and rng.random() < 0.5:
            call.change(name, dtype="i64")
    if "intermediate_tokens" in call.arrays and rng.random() < 0.5:
        for name in ("intermediate_tokens", "intermediate_offsets"):
            call.change(name, dtype="i64")
    if rng.random() < 0.5:
        for name in {"initial_state", "final_state"} & call.arrays.keys():
            call.change(name, dtype="bf16")
    if {"initial_state", "final_state"} <= call.arrays.keys() and rng.random() < 0.5:
        call.change("final_state", offset=call.arrays["initial_state"].offset)  # in place
    for name in ROWS:
        if rng.random() < 0.3 and name in call.arrays:
            call.change(name, strides=tuple(int(x) for x in 8 * rng.integers(-20, 20, 3)) + (1,) * (name != "beta"))
            call.move(name, SPACING // 2)
    if rng.random() < 0.3:
        call.numbers["use_qk_l2norm"] = False
    if rng.random() < 0.6:
        name = str(rng.choice(list(call.arrays)))
        call.move(name, int(rng.choice([1, 2, 4, 8, 16, 32, SPACING, -SPACING])))
    if rng.random() < 0.2:
        call.workspace = int(ARENA // 2 + rng.choice([0, 8, 16, 128])), int(rng.choice([0, 1000, ARENA // 4]))
    return call


@pytest.mark.parametrize("seed", range(60))
def test_drawn_calls(arenas, api, seed):
    call = drawn(seed)
    contents = np.random.default_rng(seed).standard_normal(ARENA // 2).astype(BF16)  # read as floats: about the same
    bases = arenas.fill(contents.view(np.uint8))
    in_python, in_c = arenas.both(call, api, bases)
    assert (in_python is None) == (in_c is None), (in_python, in_c)
    first, second = arenas.read()
    if in_python is None and call.workspace is not None:  # what a call leaves there is its own
        for x in (first, second):
            x[call.workspace[0] :][: call.workspace[1]] = 0
    np.testing.assert_array_equal(first, second)
    if in_python is not None:
        assert named(in_python) & named(in_c), (in_python, in_c)
        assert sharer(in_python) == sharer(in_c)
