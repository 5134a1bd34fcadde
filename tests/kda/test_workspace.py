"""Workspaces of fwd: sizes, kinds, checks, order; and that none is needed."""

import numpy as np
import pytest
from kda import oracle
from kda.inputs import draw

import madspace
from madspace import Stream, Workspace, kda
from madspace.errors import DeviceMismatchError, DTypeError, ShapeError, WorkspaceError

OUT = 4e-3


def test_sizes():
    assert type(kda.get_workspace_size(256, 1)) is int
    sizes = [kda.get_workspace_size(t, 8) for t in (0, 1, 16, 2048)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 128
    assert kda.get_workspace_size(T_total=2048, H=8, N=4) == kda.get_workspace_size(2048, 8, 4)
    assert kda.get_workspace_size(8192, 96) == kda.get_workspace_size(8192, 8, 100) == 128
    assert kda.get_workspace_size(1 << 40, 1) > 1 << 50


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((-1, 1), ValueError, "T_total: expected 0 to"),
        ((1, 1 << 63), ValueError, "H: expected 0 to"),
        ((1, 1, 1.5), TypeError, "N: expected an int, got 1.5"),
        ((1 << 60, 1 << 60), ShapeError, "64 bits"),
        ((1, 1 << 30, 1 << 30), ShapeError, "64 bits"),
    ],
)
def test_sizes_that_are_none(arguments, error, message):
    with pytest.raises(error, match=message):
        kda.get_workspace_size(*arguments)


def test_allocated_like_the_arrays(place):
    x = place.put(draw(t=40, hk=2))
    workspace = kda.allocate_workspace(x["q"])
    assert type(workspace) is type(x["q"])
    assert (tuple(workspace.shape), workspace.dtype) == ((kda.get_workspace_size(40, 2),), np.uint8)
    packed = kda.allocate_workspace(x["q"], place.put(np.array([0, 10, 40])))
    assert packed.nbytes == kda.get_workspace_size(40, 2, 2)
    assert oracle.relative_l2(place.get(kda.fwd(**x, workspace=workspace)), oracle.kda(**draw(t=40, hk=2)).out) < OUT


def test_allocation_refuses_nonsense(place):
    q = place.put(draw(b=2, t=3)["q"])
    offsets = place.put(np.array([0, 3]))
    with pytest.raises(TypeError, match="q: expected an array"):
        kda.allocate_workspace(3)
    with pytest.raises(DTypeError, match="q: expected dtype bfloat16"):
        kda.allocate_workspace(place.put(np.zeros((1, 2, 3, 64), np.float32)))
    with pytest.raises(ShapeError, match="q: expected shape"):
        kda.allocate_workspace(q[0])
    with pytest.raises(ShapeError, match="q: expected B = 1 with cu_seqlens, got 2"):
        kda.allocate_workspace(q, offsets)
    with pytest.raises(ShapeError, match="cu_seqlens: expected shape"):
        kda.allocate_workspace(q[:1], offsets.reshape((1, 2)))


def test_allocation_refuses_offsets_elsewhere(gpu_place):
    with pytest.raises(DeviceMismatchError, match="cu_seqlens: expected a CUDA tensor"):
        kda.allocate_workspace(gpu_place.put(draw()["q"]), np.array([0, 40]))


@pytest.mark.parametrize("kind", ["Workspace", "array", "slice"])
@pytest.mark.parametrize("byte", [0x00, 0x7F, 0xFF])
def test_contents_do_not_matter(place, kind, byte):
    x = draw(t=50, hk=2)
    size = kda.get_workspace_size(50, 2)
    memory = place.put(np.full(size + 4096, byte, np.uint8))
    if place.name == "cpu":
        memory = memory[-memory.ctypes.data % 256 :][: size + 2048]
    workspace = {"Workspace": lambda: Workspace.wrap(memory), "array": lambda: memory, "slice": lambda: memory[128:]}[
        kind
    ]()
    result = kda.fwd(**place.put(x), workspace=workspace)
    assert oracle.relative_l2(place.get(result), oracle.kda(**x).out) < OUT


def test_one_serves_smaller_calls_too(place):
    large = kda.allocate_workspace(place.put(draw(t=64, hk=2)["q"]))
    for t in (64, 3, 17, 0, 64):
        x = draw(t=t, hk=2)
        result = kda.fwd(**place.put(x), workspace=large)
        assert oracle.relative_l2(place.get(result), oracle.kda(**x).out) < OUT


def test_refused(place):
    x = place.put(draw(t=20))
    size = kda.get_workspace_size(20, 1)
    whole = place.put(np.zeros(2 * size + 512, np.uint8))
    start = -whole.ctypes.data % 128 if place.name == "cpu" else 0
    cases = [
        (whole[start : start + size - 1], f"workspace: too small: expected at least {size} bytes, got {size - 1}"),
        (whole[: 2 * size : 2], "workspace: expected contiguous memory"),
        (place.put(np.zeros(size, np.int8)), "workspace: expected dtype uint8, got int8"),
        (whole[start + 8 :], "workspace: expected an address aligned to"),
    ]
    for workspace, message in cases:
        with pytest.raises(WorkspaceError, match=message):
            kda.fwd(**x, workspace=workspace)
    with pytest.raises(TypeError, match="workspace: expected an array"):
        kda.fwd(**x, workspace=3)


def test_read_only_memory():
    workspace = np.zeros(1 << 20, np.uint8)
    workspace.flags.writeable = False
    with pytest.raises(WorkspaceError, match="workspace: expected writable memory"):
        kda.fwd(**draw(t=20), workspace=workspace)


def test_memory_of_the_wrong_place(gpu_place):
    x, here = gpu_place.put(draw(t=20)), np.zeros(1 << 20, np.uint8)
    with pytest.raises(WorkspaceError, match="workspace: expected a CUDA tensor"):
        kda.fwd(**x, workspace=here)
    with pytest.raises(WorkspaceError, match="workspace: expected memory of the CPU"):
        kda.fwd(**draw(t=20), workspace=gpu_place.put(here))


def test_the_size_does_not_depend_on_what_the_call_uses(place):
    """Few tokens need no memory; too small a workspace is refused all the same, on any device and for any D."""
    for d in (64, 128):
        x = place.put(draw(t=2, d=d))
        with pytest.raises(WorkspaceError, match="too small"):
            kda.fwd(**x, workspace=place.put(np.zeros(kda.get_workspace_size(2, 1) - 1, np.uint8)))


def test_calls_on_two_streams_take_turns(gpu_place, device, delay):
    x = [draw(t=50, seed=seed) for seed in (1, 2)]
    there = [gpu_place.put(y) for y in x]
    workspace = Workspace(kda.get_workspace_size(50, 1), device)
    streams = [Stream(device), Stream(device)]
    delay(streams[0], 50)
    results = [kda.fwd(**y, workspace=workspace, stream=stream) for y, stream in zip(there, streams, strict=True)]
    for result, y in zip(results, x, strict=True):
        assert oracle.relative_l2(result.numpy(), oracle.kda(**y).out) < OUT


def test_a_workspace_knows_what_was_asked_of_it(gpu_place, device):
    workspace = Workspace(128, device)
    x = gpu_place.put(draw(t=50))
    with pytest.raises(WorkspaceError, match="too small"):
        kda.fwd(**x, workspace=workspace)
    assert workspace.largest_request == kda.get_workspace_size(50, 1)
    workspace.require(workspace.largest_request)
    kda.fwd(**x, workspace=workspace)


def test_poisoned_between_calls(run_python):
    done = run_python(
        """
import fake_driver
fake_driver.load()
from kda import oracle
from kda.inputs import draw
from madspace import Workspace, kda
x = draw(t=50)
workspace = Workspace(kda.get_workspace_size(50, 1), "cpu")
for _ in range(2):
    print(oracle.relative_l2(kda.fwd(**x, workspace=workspace), oracle.kda(**x).out) < 4e-3)
""",
        env={"MADSPACE_POISON": "1"},
    )
    assert done.stdout == "True\nTrue\n", done.stderr


@pytest.mark.parametrize("t", [2, 50], ids=["decode", "chunks"])
def test_a_call_with_memory_is_launches_and_nothing_else(fake, gpu_place, device, t):
    x = gpu_place.put(draw(t=t))
    state = madspace.zeros((1, 1, 64, 64), np.float32, device=device)
    options = {"out": madspace.zeros((1, t, 1, 64), x["q"].dtype, device=device)}
    options |= {"workspace": Workspace(kda.get_workspace_size(t, 1), device)}
    options |= {"initial_state": state, "final_state": state}
    kda.fwd(**x, **options)
    fake.clear_log()
    kda.fwd(**x, **options)
    allowed = {"cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent", "cuStreamIsCapturing"}
    calls = [name for name in fake.names() if name.removesuffix("_v2") not in allowed]
    assert calls == ["cuLaunchKernel"] + ([] if t == 2 else ["cuLaunchKernelEx"])


def test_without_memory_a_call_allocates_and_gives_back(fake, gpu_place, device):
    x = gpu_place.put(draw(t=50))
    out = madspace.zeros((1, 50, 1, 64), x["q"].dtype, device=device)
    kda.fwd(**x, out=out)
    before = fake.counts()
    fake.clear_log()
    kda.fwd(**x, out=out)
    names = fake.names()
    assert sum("MemAlloc" in name for name in names) == sum("MemFree" in name for name in names) == 1
    assert not any("Synchronize" in name or "Memcpy" in name for name in names)
    device.synchronize()
    assert fake.counts() == before


def test_a_failed_launch_leaks_nothing(fake, gpu_place, device):
    x = gpu_place.put(draw(t=50))
    workspace = Workspace(kda.get_workspace_size(50, 1), device)
    kda.fwd(**x)
    kda.fwd(**x, workspace=workspace)
    device.synchronize()
    before = fake.counts()
    for options in ({}, {"workspace": workspace}):
        for name in ("cuLaunchKernel", "cuLaunchKernelEx"):
            with fake.failing(name, code=701), pytest.raises(madspace.DriverError, match=name):
                kda.fwd(**x, **options)
    assert fake.counts() == before
    assert oracle.relative_l2(kda.fwd(**x, workspace=workspace).numpy(), oracle.kda(**draw(t=50)).out) < OUT


def test_shared_memory_is_allowed_once(fake, kda_kernels, device):
    fake.clear_log()
    x = draw(t=30, hk=33)
    there = {n: madspace.asarray(a, device=device) if isinstance(a, np.ndarray) else a for n, a in x.items()}
    for _ in range(3):
        kda.fwd(**there)
    assert len(fake.log("cuKernelSetAttribute")) <= 1
    shared = [call.args["shared"] for call in fake.log("cuLaunchKernel")]
    assert min(shared) > 48 * 1024
