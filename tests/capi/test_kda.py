"""Kimi Delta Attention through the C API: the same bits as madspace.kda.fwd, and its errors."""

import ctypes

import numpy as np
import pytest
from capi.kda_calls import FIELDS, Args
from capi_table import refused
from kda.inputs import BF16, FP32, packed, upstream
from kda.places import problem_of_kernels, register_kernels

import madspace


@pytest.fixture(scope="module")
def kernels(real_gpu):
    """Make the kernels launchable."""
    if not real_gpu:
        import fake_driver

        register_kernels(fake_driver.load())


@pytest.fixture(params=["cpu", "cuda"])
def place(request, api, cpu, gpu, kernels):
    """Return a device's name and handle."""
    yield request.param, cpu if request.param == "cpu" else gpu
    if request.param == "cuda":
        assert problem_of_kernels() == ""


def put(array, name):
    """Return an array on the device of that name."""
    return array if name == "cpu" or not isinstance(array, np.ndarray) else madspace.asarray(array, device="cuda")


def address(array):
    """Return where an array's elements begin."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.ptr


def arguments_of(inputs):
    """Return ms_kda_args for inputs by the names of kda.fwd."""
    args = Args(size=ctypes.sizeof(Args))
    b, t, hk, d = inputs["q"].shape
    args.batches, args.tokens, args.key_heads, args.value_heads, args.channels = b, t, hk, inputs["v"].shape[2], d
    for name, field in FIELDS.items():
        if inputs.get(name) is not None:
            setattr(args, field, address(inputs[name]))
    for name in ("q", "k", "v", "g", "beta"):
        x = inputs[name]
        steps = [step // 2 for step in x.strides[:3]] if isinstance(x, np.ndarray) else x.strides[:3]
        for field, step in zip(("batch", "token", "head"), steps, strict=True):
            setattr(getattr(args, f"{name}_strides"), field, step)
    args.scale, args.lower_bound = inputs["scale"], inputs.get("lower_bound") or 0.0
    constants = {
        "initial_state": (BF16, 1),
        "final_state": (BF16, 1),
        "intermediate_state": (BF16, 2),
        "cu_seqlens": (np.int64, 4),
        "state_slots": (np.int64, 8),
        "intermediate_tokens": (np.int64, 16),
    }
    for name, (dtype, flag) in constants.items():
        if inputs.get(name) is not None and inputs[name].dtype == dtype:
            args.flags |= flag
    args.flags |= 0 if inputs.get("use_qk_l2norm", True) else 32
    args.flags |= 64 if inputs.get("gate_activated") else 0
    if inputs.get("cu_seqlens") is not None:
        args.sequences = inputs["cu_seqlens"].shape[0] - 1
    if inputs.get("state_slots") is not None:
        args.n_slots = (
            inputs["initial_state"] if inputs.get("initial_state") is not None else inputs["final_state"]
        ).shape[0]
    if inputs.get("intermediate_state") is not None:
        args.n_snapshots = inputs["intermediate_state"].shape[0]
    return args


def without_gate(inputs):
    return {n: x for n, x in inputs.items() if n not in ("A_log", "dt_bias", "lower_bound")} | {"gate_activated": True}


def pooled(inputs):
    return inputs | {"state_slots": np.array([2, 0, -1], np.int32), "initial_state": np.ones((4, 2, 64, 64), FP32)}


def snapshots(inputs):
    return inputs | {
        "intermediate_state": np.zeros((3, 2, 64, 64), BF16),
        "intermediate_tokens": np.array([16, 32, 16]),
        "intermediate_offsets": np.array([0, 2, 2, 3]),
    }


def strided(inputs):
    q = np.zeros((1, 40, 5, 64), BF16)
    q[:, :, 1:3] = inputs["q"]
    return inputs | {"q": q[:, :, 1:3]}


CASES = {
    "tokens": lambda: upstream(40, 2, D=64),
    "batches": lambda: upstream(20, 2, batches=2, D=128),
    "many heads": lambda: upstream(17, 40, D=64),
    "decode": lambda: upstream(1, 3, batches=3, D=64),
    "grouped": lambda: upstream(20, 4, key_heads=2, D=64),
    "packed": lambda: packed([20, 0, 33], 2, D=64),
    "pooled": lambda: pooled(packed([20, 3, 9], 2, np.int32, D=64)),
    "snapshots": lambda: snapshots(packed([40, 3, 20], 2, D=64)),
    "strided": lambda: strided(upstream(40, 2, D=64)),
    "activated": lambda: without_gate(upstream(20, 2, D=64, gate=-1.0)),
    "no norm": lambda: upstream(20, 2, D=64) | {"use_qk_l2norm": False},
    "empty": lambda: upstream(0, 2, D=64),
}


def outputs_for(inputs, name):
    """Return arrays for the results, spoiled."""
    n = inputs["v"].shape[0] if inputs.get("cu_seqlens") is None else len(inputs["cu_seqlens"]) - 1
    if inputs.get("initial_state") is not None:
        n = len(inputs["initial_state"])
    heads, d = inputs["v"].shape[2:]
    made = {
        "out": np.full(inputs["v"].shape, 3, BF16),
        "final_state": np.full((n, heads, d, d), 3, FP32),
    }
    if "intermediate_state" in inputs:
        made["intermediate_state"] = np.full(inputs["intermediate_state"].shape, 3, BF16)
    return {key: put(x, name) for key, x in made.items()}


def host(array):
    return (array if isinstance(array, np.ndarray) else array.numpy()).tobytes()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("lent", [True, False], ids=["workspace", "none"])
def test_the_same_bits_as_from_python(api, place, device, case, lent):
    name, handle = place
    inputs = {key: put(x, name) for key, x in CASES[case]().items()}
    stream = api.make("device_stream", handle) if name == "cuda" else None
    wanted, got = outputs_for(CASES[case](), name), outputs_for(CASES[case](), name)
    madspace.kda.fwd(**inputs | wanted)
    args = arguments_of(inputs | got)
    if lent:
        nbytes = api.number(
            "kda_workspace_size",
            args.batches * args.tokens,
            args.value_heads,
            args.sequences or args.batches,
            kind=ctypes.c_size_t,
        )
        assert nbytes == madspace.kda.get_workspace_size(
            args.batches * args.tokens, args.value_heads, args.sequences or args.batches
        )
        args.workspace, args.workspace_nbytes = api.make("alloc", handle, nbytes, stream), nbytes
    api.kda_forward(handle, ctypes.byref(args), stream)
    if name == "cuda":
        api.stream_synchronize(stream)
    for key in wanted:
        assert host(got[key]) == host(wanted[key]), key
    if lent:
        api.free(handle, args.workspace, stream)
    if stream:
        api.stream_release(stream)


def test_compact_arrays_need_no_strides(api, cpu):
    inputs = CASES["batches"]()
    wanted, got = outputs_for(inputs, "cpu"), outputs_for(inputs, "cpu")
    madspace.kda.fwd(**inputs | wanted)
    args = arguments_of(inputs | got)
    for name in ("q", "k", "v", "g", "beta"):
        strides = getattr(args, f"{name}_strides")
        strides.batch = strides.token = strides.head = 0
    api.kda_forward(cpu, ctypes.byref(args), None)
    assert host(got["out"]) == host(wanted["out"])


def test_in_a_graph(api, gpu, queue, kernels, device):
    inputs = {key: put(x, "cuda") for key, x in CASES["tokens"]().items()}
    wanted, got = outputs_for(CASES["tokens"](), "cuda"), outputs_for(CASES["tokens"](), "cuda")
    madspace.kda.fwd(**inputs | wanted)
    device.synchronize()
    args = arguments_of(inputs | got)
    api.kda_forward(gpu, ctypes.byref(args), queue)
    api.stream_synchronize(queue)
    capture = api.make("capture_begin", queue)
    api.kda_forward(gpu, ctypes.byref(args), queue)
    graph = api.make("capture_end", capture)
    api.fill(gpu, args.out, 0, 40 * 2 * 64 * 2, queue)
    api.graph_launch(graph, queue)
    api.stream_synchronize(queue)
    assert host(got["out"]) == host(wanted["out"])
    api.graph_release(graph)


def spoil(**fields):
    def change(args):
        for name, value in fields.items():
            setattr(args, name, value)

    return change


@pytest.mark.parametrize(
    ("change", "name", "told"),
    [
        (spoil(size=8), "MS_ERROR_ARGUMENT", "size"),
        (spoil(size=1 << 40), "MS_ERROR_ARGUMENT", "size"),
        (spoil(flags=1 << 20), "MS_ERROR_ARGUMENT", "flags"),
        (spoil(reserved=1), "MS_ERROR_ARGUMENT", "reserved"),
        (spoil(scale=float("nan")), "MS_ERROR_ARGUMENT", "scale"),
        (spoil(lower_bound=0.0), "MS_ERROR_ARGUMENT", "lower_bound"),
        (spoil(lower_bound=-5.1), "MS_ERROR_ARGUMENT", "lower_bound"),
        (spoil(a_log=None), "MS_ERROR_ARGUMENT", "a_log"),
        (spoil(flags=64), "MS_ERROR_ARGUMENT", "a_log"),
        (spoil(q=None), "MS_ERROR_ARGUMENT", "q:"),
        (spoil(out=None), "MS_ERROR_ARGUMENT", "out"),
        (spoil(v=1), "MS_ERROR_SHAPE", "v: expected data aligned"),
        (spoil(channels=0), "MS_ERROR_SHAPE", "channels"),
        (spoil(channels=257), "MS_ERROR_SHAPE", "channels"),
        (spoil(key_heads=0), "MS_ERROR_SHAPE", "key_heads"),
        (spoil(key_heads=3), "MS_ERROR_SHAPE", "value_heads"),
        (spoil(tokens=-1), "MS_ERROR_SHAPE", "tokens"),
        (spoil(tokens=1 << 62), "MS_ERROR_SHAPE", "64 bits"),
        (spoil(batches=1 << 40, tokens=1 << 40), "MS_ERROR_SHAPE", "batches, tokens"),
        (spoil(sequences=3), "MS_ERROR_SHAPE", "sequences"),
        (spoil(n_slots=9), "MS_ERROR_SHAPE", "n_slots"),
        (spoil(n_snapshots=1), "MS_ERROR_ARGUMENT", "snapshots"),
        (spoil(n_snapshots=-1), "MS_ERROR_SHAPE", "n_snapshots"),
        (spoil(snapshot_tokens=64), "MS_ERROR_ARGUMENT", "snapshot_offsets"),
        (spoil(workspace=64, workspace_nbytes=8), "MS_ERROR_WORKSPACE", "too small"),
        (spoil(workspace=8, workspace_nbytes=1 << 40), "MS_ERROR_WORKSPACE", "aligned"),
    ],
)
def test_arguments_are_checked(api, cpu, change, name, told):
    inputs = CASES["tokens"]()
    args = arguments_of(inputs | outputs_for(inputs, "cpu"))
    change(args)
    assert told in refused(name, api.kda_forward, cpu, ctypes.byref(args), None)


def test_a_gpu_wants_aligned_rows(api, gpu, queue, kernels):
    inputs = CASES["tokens"]()
    args = arguments_of(inputs | outputs_for(inputs, "cpu"))
    args.q = 1 << 20 | 2
    assert "aligned to 16" in refused("MS_ERROR_SHAPE", api.kda_forward, gpu, ctypes.byref(args), queue)
    args.q, args.q_strides.token = 1 << 20, 129
    assert "q_strides" in refused("MS_ERROR_SHAPE", api.kda_forward, gpu, ctypes.byref(args), queue)
    args.channels = 32
    assert "64 or 128" in refused("MS_ERROR_SHAPE", api.kda_forward, gpu, ctypes.byref(args), queue)


def test_longer_structures_of_later_versions(api, cpu):
    inputs = CASES["tokens"]()
    wanted, got = outputs_for(inputs, "cpu"), outputs_for(inputs, "cpu")
    madspace.kda.fwd(**inputs | wanted)
    args = arguments_of(inputs | got)
    args.size += 16
    longer = ctypes.create_string_buffer(bytes(args) + bytes(16))
    api.kda_forward(cpu, longer, None)
    assert host(got["out"]) == host(wanted["out"])
    longer[ctypes.sizeof(Args) + 3] = b"\1"
    assert "newer" in refused("MS_ERROR_UNSUPPORTED", api.kda_forward, cpu, longer, None)


def test_workspace_sizes_are_checked(api):
    room = ctypes.byref(ctypes.c_size_t())
    for sizes in ((-1, 1, 1), (1, -1, 1), (1, 1, -1)):
        refused("MS_ERROR_ARGUMENT", api.kda_workspace_size, *sizes, room)
    refused("MS_ERROR_SHAPE", api.kda_workspace_size, 1 << 60, 1 << 10, 1, room)


def test_second_launch_fails(api, gpu, queue, kernels, fake, device):
    inputs = {key: put(x, "cuda") for key, x in CASES["tokens"]().items()}
    outputs = outputs_for(CASES["tokens"](), "cuda")
    args = arguments_of(inputs | outputs)
    api.kda_forward(gpu, ctypes.byref(args), queue)
    before = device.pool.stats().current_bytes
    with fake.failing("cuLaunchKernelEx", code=999):
        refused("MS_ERROR_DRIVER", api.kda_forward, gpu, ctypes.byref(args), queue)
    assert device.pool.stats().current_bytes == before  # the workspace of the call went back
