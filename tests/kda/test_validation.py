"""What fwd refuses, with which error; after a refusal nothing has happened."""

import numpy as np
import pytest
from kda.inputs import BF16, draw

import madspace
from madspace import kda
from madspace.errors import ClosedError, DeviceMismatchError, DTypeError, ShapeError, WorkspaceError


@pytest.fixture
def call(place):
    """Return a function that runs a small call there, with other or more arguments than usual."""

    def run(**changes):
        return kda.fwd(**place.put(draw(b=2, t=5, hk=2, hv=4) | changes))

    return run


def bf16(*shape):
    return np.zeros(shape, BF16)


def f32(*shape):
    return np.zeros(shape, np.float32)


def i32(*numbers):
    return np.array(numbers, np.int32)


SNAPSHOTS = {
    "intermediate_state": f32(3, 4, 64, 64),
    "intermediate_tokens": i32(16, 32, 16),
    "intermediate_offsets": i32(0, 2, 3),
}
PACKED = {n: x[:1] if x.ndim > 1 else x for n, x in draw(b=2, t=5, hk=2).items() if isinstance(x, np.ndarray)} | {
    "A_log": f32(2),
    "dt_bias": f32(2, 64),
}
CASES = {
    "q-dtype": (DTypeError, "q: expected dtype bfloat16, got float32", {"q": f32(2, 5, 2, 64)}),
    "beta-dtype": (DTypeError, "beta: expected dtype bfloat16, got float16", {"beta": np.zeros((2, 5, 4), "f2")}),
    "out-dtype": (DTypeError, "out: expected dtype bfloat16, got float32", {"out": f32(2, 5, 4, 64)}),
    "A_log-dtype": (DTypeError, "A_log: expected dtype float32, got float64", {"A_log": np.zeros(4)}),
    "q-rank": (ShapeError, r"q: expected shape \[B, T, HK, D\], got \(2, 5, 64\)", {"q": bf16(2, 5, 64)}),
    "v-rank": (ShapeError, r"v: expected shape \[B, T, HV, D\], got \(5,\)", {"v": bf16(5)}),
    "k-shape": (ShapeError, r"k: expected shape \(2, 5, 2, 64\), got \(2, 5, 4, 64\)", {"k": bf16(2, 5, 4, 64)}),
    "g-shape": (ShapeError, r"g: expected shape \(2, 5, 4, 64\), got", {"g": bf16(2, 5, 2, 64)}),
    "v-channels": (ShapeError, r"v: expected shape \(2, 5, 4, 64\), got", {"v": bf16(2, 5, 4, 32)}),
    "beta-shape": (ShapeError, r"beta: expected shape \(2, 5, 4\), got \(2, 5, 4, 1\)", {"beta": bf16(2, 5, 4, 1)}),
    "heads": (ShapeError, "v: expected heads that are a multiple of q's 2 .*, got 3", {"v": bf16(2, 5, 3, 64)}),
    "no-heads": (ShapeError, "q: expected 1 to .* heads, got 0", {"q": bf16(2, 5, 0, 64)}),
    "channels": (ShapeError, "q: expected .* channels.*, got 320", {"q": bf16(2, 5, 2, 320)}),
    "out-shape": (ShapeError, r"out: expected shape \(2, 5, 4, 64\)", {"out": bf16(2, 5, 2, 64)}),
    "A_log-shape": (ShapeError, r"A_log: expected shape \(4,\), got \(2,\)", {"A_log": f32(2)}),
    "dt_bias-shape": (ShapeError, r"dt_bias: expected shape \(4, 64\), got \(256,\)", {"dt_bias": f32(256)}),
    "state-dtype": (DTypeError, "initial_state: expected dtype bfloat16 or float32", {"initial_state": np.zeros(3)}),
    "state-shape": (
        ShapeError,
        r"initial_state: expected shape \(2, 4, 64, 64\), got \(3, 4, 64, 64\)",
        {"initial_state": f32(3, 4, 64, 64)},
    ),
    "state-dtypes": (
        DTypeError,
        "final_state: expected the dtype of initial_state, float32, got bfloat16",
        {"initial_state": f32(2, 4, 64, 64), "final_state": bf16(2, 4, 64, 64)},
    ),
    "pools": (
        ShapeError,
        r"final_state: expected shape \(5, 4, 64, 64\), got \(6, 4",
        {"initial_state": f32(5, 4, 64, 64), "final_state": f32(6, 4, 64, 64), "state_slots": i32(0, 1)},
    ),
    "slots-shape": (
        ShapeError,
        r"state_slots: expected shape \(2,\), got \(3,\)",
        {"final_state": f32(5, 4, 64, 64), "state_slots": i32(0, 1, 2)},
    ),
    "slots-dtype": (
        DTypeError,
        "state_slots: expected dtype int32 or int64, got int16",
        {"final_state": f32(5, 4, 64, 64), "state_slots": np.zeros(2, np.int16)},
    ),
    "slots-alone": (TypeError, "state_slots: expected initial_state or final_state", {"state_slots": i32(0, 1)}),
    "batches": (ShapeError, "q: expected B = 1 with cu_seqlens, got 2", {"cu_seqlens": i32(0, 5)}),
    "offsets-dtype": (
        DTypeError,
        "cu_seqlens: expected dtype int32 or int64, got float32",
        PACKED | {"cu_seqlens": f32(2)},
    ),
    "offsets-rank": (
        ShapeError,
        r"cu_seqlens: expected shape \[N \+ 1\], got \(1, 2\)",
        PACKED | {"cu_seqlens": i32(0, 5)[None]},
    ),
    "no-offsets": (
        ShapeError,
        r"cu_seqlens: expected shape \[N \+ 1\], got \(0,\)",
        PACKED | {"cu_seqlens": i32()},
    ),
    "marks-alone": (
        TypeError,
        "intermediate_state: expected an array, since",
        {"intermediate_tokens": i32(16), "intermediate_offsets": i32(0, 1, 1)},
    ),
    "marks-shape": (
        ShapeError,
        r"intermediate_tokens: expected shape \(3,\)",
        SNAPSHOTS | {"intermediate_tokens": i32(16)},
    ),
    "marks-offsets": (
        ShapeError,
        r"intermediate_offsets: expected shape \(3,\)",
        SNAPSHOTS | {"intermediate_offsets": i32(0, 3)},
    ),
    "marks-dtypes": (
        DTypeError,
        "intermediate_offsets: expected the dtype of intermediate_tokens, int32, got int64",
        SNAPSHOTS | {"intermediate_offsets": np.array([0, 2, 3])},
    ),
    "scale-nan": (ValueError, "scale: expected a finite number, got nan", {"scale": float("nan")}),
    "scale-large": (ValueError, "scale: expected a finite number", {"scale": 1e300}),
    "scale-type": (TypeError, "scale: expected a number, got 'one'", {"scale": "one"}),
    "scale-text": (TypeError, "scale: expected a number, got '1'", {"scale": "1"}),
    "bound-low": (ValueError, "lower_bound: expected a number from -5 to below 0, got -5.5", {"lower_bound": -5.5}),
    "bound-zero": (ValueError, "lower_bound: .* got 0.0", {"lower_bound": 0.0}),
    "bound-nan": (ValueError, "lower_bound: .* got nan", {"lower_bound": float("nan")}),
    "none": (TypeError, "beta: expected an array", {"beta": None}),
    "no-array": (TypeError, "g: expected an array", {"g": 3.0}),
    "activated": (TypeError, "A_log: expected None with gate_activated=True, got ", {"gate_activated": True}),
}


@pytest.mark.parametrize(("error", "message", "changes"), CASES.values(), ids=CASES)
def test_refused(call, error, message, changes):
    with pytest.raises(error, match=message):
        call(**changes)


@pytest.mark.parametrize(
    ("name", "base", "view"),
    [
        ("q", bf16(2, 5, 2, 128), np.s_[..., ::2]),
        ("out", bf16(2, 5, 8, 64), np.s_[:, :, ::2]),
        ("A_log", f32(8), np.s_[::2]),
        ("dt_bias", f32(4, 128), np.s_[:, :64]),
        ("initial_state", f32(2, 4, 64, 128), np.s_[..., :64]),
        ("final_state", f32(4, 4, 64, 64), np.s_[::2]),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_must_be_contiguous(call, place, name, base, view):
    with pytest.raises(ShapeError, match=f"{name}: expected .*contiguous"):
        call(**{name: place.put(base)[view]})


@pytest.mark.parametrize("name", ["cu_seqlens", "state_slots", "intermediate_tokens", "intermediate_offsets"])
def test_integers_must_be_contiguous(place, name):
    x = PACKED | {"scale": 1.0, "lower_bound": -5.0, "cu_seqlens": i32(0, 3, 5), "final_state": f32(2, 2, 64, 64)}
    x |= {"state_slots": i32(0, 1), "intermediate_state": f32(2, 2, 64, 64)}
    x = place.put(x | {"intermediate_tokens": i32(16, 16), "intermediate_offsets": i32(0, 1, 2)})
    kda.fwd(**x, validate=True)
    x[name] = place.put(np.repeat(place.get(x[name]), 2))[::2]
    with pytest.raises(ShapeError, match=f"{name}: expected contiguous memory"):
        kda.fwd(**x)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((), "3 required positional arguments: 'A_log', 'dt_bias', and 'lower_bound'"),
        (("A_log",), "2 required positional arguments: 'dt_bias' and 'lower_bound'"),
        (("A_log", "lower_bound"), "1 required positional argument: 'dt_bias'"),
    ],
    ids=["three", "two", "one"],
)
def test_missing_gate_parameters_are_named_as_python_does(given, told):
    x = draw()
    for name in {"A_log", "dt_bias", "lower_bound"} - set(given):
        del x[name]
    with pytest.raises(TypeError, match=rf"^fwd\(\) missing {told}$"):
        kda.fwd(**x)


def test_upstreams_errors_are_runtime_errors(call):
    for changes in ({"q": f32(2, 5, 2, 64)}, {"k": bf16(1)}, {"workspace": np.zeros(1, np.uint8)}):
        with pytest.raises(RuntimeError):
            call(**changes)


@pytest.mark.parametrize("name", ["out", "final_state", "intermediate_state"])
def test_read_only_outputs(name):
    array = {"out": bf16(2, 5, 4, 64), "final_state": f32(2, 4, 64, 64), "intermediate_state": f32(3, 4, 64, 64)}[name]
    array.flags.writeable = False
    marks = {n: a for n, a in SNAPSHOTS.items() if name == "intermediate_state"}
    with pytest.raises(ValueError, match=f"{name}: expected a writable array"):
        kda.fwd(**(draw(b=2, t=5, hk=2, hv=4) | marks | {name: array}))


@pytest.mark.parametrize("name", ["out", "A_log", "initial_state", "final_state"])
def test_arrays_on_another_device(gpu_place, name):
    x = gpu_place.put(draw(t=5))
    here = {"out": bf16(1, 5, 1, 64), "A_log": f32(1)}.get(name, f32(1, 1, 64, 64))
    with pytest.raises(DeviceMismatchError, match=f"{name}: expected a CUDA tensor on cuda:0 .*, got one on the CPU"):
        kda.fwd(**(x | {name: here}))
    with pytest.raises(DeviceMismatchError, match=f"{name}: expected an array on the CPU .*, got one on cuda:0"):
        kda.fwd(**(draw(t=5) | {name: madspace.asarray(here, device="cuda")}))


def test_channels_of_a_gpu(gpu_place):
    with pytest.raises(ShapeError, match="q: expected 64 or 128 channels on a GPU, got 32"):
        kda.fwd(**gpu_place.put(draw(d=32)))


def test_alignment_on_a_gpu(gpu_place):
    x = gpu_place.put(draw(t=4, hk=1))
    wide = madspace.zeros((1, 4, 1, 68), BF16, device="cuda")
    with pytest.raises(ShapeError, match="q: expected rows aligned to 16 bytes, got strides"):
        kda.fwd(**(x | {"q": wide[..., :64]}))
    with pytest.raises(ShapeError, match="k: expected data aligned to 16 bytes"):
        kda.fwd(**(x | {"k": wide[:, :1, :, 4:]} | {n: x[n][:, :1] for n in ("q", "v", "g", "beta")}))
    pool = madspace.zeros(64 * 64 + 1, np.float32, device="cuda")
    with pytest.raises(ShapeError, match="final_state: expected data aligned to 16 bytes"):
        kda.fwd(**x, final_state=pool[1:].reshape((1, 1, 64, 64)))


def test_a_stream_is_for_gpus(device, kda_kernels):
    with pytest.raises(ValueError, match="stream: expected None for arrays on the CPU"):
        kda.fwd(**draw(), stream=madspace.Stream(device))


def test_sizes_that_64_bits_cannot_count():
    x = draw(t=1, hk=4)
    for name in ("q", "k", "v", "g", "beta"):
        x[name] = np.broadcast_to(x[name], (1 << 30, 1 << 20, *x[name].shape[2:]))
    with pytest.raises(ShapeError, match="whose bytes 64 bits can count"):
        kda.fwd(**x)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cu_seqlens": i32(1, 5)}, "cu_seqlens: expected 0 at the start, got 1"),
        ({"cu_seqlens": i32(0, 4)}, "cu_seqlens: expected T = 5 at the end, got 4"),
        ({"cu_seqlens": i32(0, 4, 2, 5)}, "cu_seqlens: expected nondecreasing numbers, got 4, 2 at 1"),
        (
            {"cu_seqlens": i32(0, 2, 5), "state_slots": i32(3, 3), "final_state": f32(4, 2, 64, 64)},
            "state_slots: expected each slot once, got 3 more than once",
        ),
        (
            {"intermediate_state": f32(1, 2, 64, 64), "intermediate_tokens": i32(8), "intermediate_offsets": i32(0, 1)},
            "intermediate_tokens: expected positive multiples of 16, got 8 at 0",
        ),
        (
            {
                "intermediate_state": f32(2, 2, 64, 64),
                "intermediate_tokens": i32(32, 16),
                "intermediate_offsets": i32(0, 2),
            },
            "intermediate_tokens: expected ascending numbers within a sequence, got 32, 16 at 0",
        ),
        (
            {
                "intermediate_state": f32(1, 2, 64, 64),
                "intermediate_tokens": i32(16),
                "intermediate_offsets": i32(0, 0),
            },
            "intermediate_offsets: expected M = 1 at the end, got 0",
        ),
    ],
    ids=["start", "end", "falls", "slots", "multiples", "ascending", "offsets"],
)
def test_contents_are_checked_on_demand(place, changes, message):
    x = place.put(PACKED | {"scale": 1.0, "lower_bound": -5.0} | changes)
    kda.fwd(**x)
    with pytest.raises(ValueError, match=message):
        kda.fwd(**x, validate=True)


def test_a_refused_call_makes_no_driver_call(fake, gpu_place):
    x = gpu_place.put(draw(t=5))
    kda.fwd(**x)
    bad = gpu_place.put(f32(3, 1, 64, 64))
    counts = fake.counts()
    fake.clear_log()
    with pytest.raises(ShapeError):
        kda.fwd(**x, final_state=bad)
    assert [name for name in fake.names() if "Ctx" not in name] == []
    assert fake.counts() == counts


def test_closed_memory(gpu_place):
    x = gpu_place.put(draw(t=5))
    workspace = madspace.Workspace(kda.get_workspace_size(5, 1), "cuda")
    workspace.close()
    with pytest.raises(ClosedError):
        kda.fwd(**x, workspace=workspace)
    with pytest.raises(WorkspaceError, match="CUDA tensor"):
        kda.fwd(**x, workspace=np.zeros(1 << 20, np.uint8))
