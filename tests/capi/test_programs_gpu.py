"""Programs of the C API on a GPU: the same numbers as on the CPU, in any layout, in a graph, without the GIL."""

import numpy as np
import pytest
import warp_machine
from capi.test_programs import DATA, Array
from capi_table import refused

import madspace
from madspace import Function, FunctionRuntime

N = 67


@pytest.fixture(scope="module", autouse=True)
def program_kernels(real_gpu):
    """Make the interpreter launchable, and the fused kernels that come with the package."""
    if not real_gpu:
        import fake_driver
        from program_points import fuse_programs

        warp_machine.register(fake_driver.load(), "phasespace")
        shipped = "".join(text.partition("namespace madspace;")[2] for _, text in fuse_programs.sources())
        warp_machine.register_fused(fake_driver.load(), shipped)
    yield
    assert real_gpu or warp_machine.problem() == ""


def arrays_for(program, n, seed=3):
    """Return NumPy arrays for the inputs of a program, and spoiled ones for its outputs."""
    rng = np.random.default_rng(seed)
    inputs = [
        rng.random((n, *x.shape)) if x.dtype == np.float64 else rng.integers(0, 2, (n, *x.shape), np.int32)
        for x in program.inputs
    ]
    return inputs, [np.full((n, *x.shape), 77, x.dtype) for x in program.outputs]


def described(arrays, broadcast=()):
    """Return ms_program_array for NumPy arrays or tensors."""
    made = []
    for i, x in enumerate(arrays):
        address = x.ctypes.data if isinstance(x, np.ndarray) else x.ptr
        steps = x.strides if isinstance(x, np.ndarray) else [s * x.dtype.itemsize for s in x.strides]
        made.append(Array(address, 0 if i in broadcast else steps[0], 0))
    return (Array * max(1, len(made)))(*made)


def on_both(api, cpu, gpu, queue, program, n, broadcast=()):
    """Run a program on the CPU and on the GPU; return the results of each."""
    handle = api.make("program_from_object", program)
    inputs, outputs = arrays_for(program, n)
    api.program_run(handle, cpu, n, described(inputs, broadcast), described(outputs), None)
    ins, outs = ([madspace.asarray(x, device="cuda") for x in arrays] for arrays in (inputs, arrays_for(program, n)[1]))
    mine = api.make("device_stream", gpu)
    api.stream_wait(queue, mine)
    api.program_run(handle, gpu, n, described(ins, broadcast), described(outs), queue)
    api.stream_synchronize(queue)
    api.stream_release(mine)
    api.program_release(handle)
    return outputs, [x.numpy() for x in outs]


@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("*_*.json")))
def test_the_same_numbers_as_on_the_cpu(api, cpu, gpu, queue, device, name):
    runtime = FunctionRuntime(Function.load(str(DATA / f"{name}.json")))
    for program in runtime.programs:
        for wanted, got in zip(*on_both(api, cpu, gpu, queue, program, N), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9, equal_nan=True)


def test_one_event_for_all(api, cpu, gpu, queue, device):
    program = FunctionRuntime(Function.load(str(DATA / "power_forward.json"))).programs[-1]
    for wanted, got in zip(*on_both(api, cpu, gpu, queue, program, N, broadcast=(0,)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, equal_nan=True)


def test_components_apart(api, cpu, gpu, queue, device):
    program = FunctionRuntime(Function.load(str(DATA / "event_forward.json"))).programs[-1]
    handle = api.make("program_from_object", program)
    inputs, wanted = arrays_for(program, N)
    api.program_run(handle, cpu, N, described(inputs), described(wanted), None)
    # Component by component, each of all events.
    ins = [madspace.asarray(np.ascontiguousarray(x.reshape(N, -1).T), device="cuda") for x in inputs]
    outs = [madspace.asarray(np.ascontiguousarray(x.reshape(N, -1).T * 0), device="cuda") for x in wanted]
    places = [
        (Array * len(side))(*(Array(x.ptr, x.dtype.itemsize, N * x.dtype.itemsize) for x in side))
        for side in (ins, outs)
    ]
    device.synchronize()
    api.program_run(handle, gpu, N, *places, queue)
    api.stream_synchronize(queue)
    for expected, got in zip(wanted, outs, strict=True):
        np.testing.assert_allclose(got.numpy(), expected.reshape(N, -1).T, rtol=1e-9, atol=1e-9)
    api.program_release(handle)


def test_in_a_graph(api, gpu, queue, device):
    program = FunctionRuntime(Function.load(str(DATA / "log_forward.json"))).programs[-1]
    handle = api.make("program_from_object", program)
    inputs, outputs = ([madspace.asarray(x, device="cuda") for x in side] for side in arrays_for(program, N))
    device.synchronize()
    arguments = handle, gpu, N, described(inputs), described(outputs), queue
    api.program_run(*arguments)
    api.stream_synchronize(queue)
    wanted = [x.numpy() for x in outputs]
    capture = api.make("capture_begin", queue)
    api.program_run(*arguments)
    graph = api.make("capture_end", capture)
    for x in outputs:
        x.fill(0)
    device.synchronize()
    api.graph_launch(graph, queue)
    api.stream_synchronize(queue)
    for x, expected in zip(outputs, wanted, strict=True):
        np.testing.assert_array_equal(x.numpy(), expected)
    api.graph_release(graph)
    api.program_release(handle)


def test_what_is_wrong(api, gpu, queue, device):
    program = FunctionRuntime(Function.load(str(DATA / "log_forward.json"))).programs[-1]
    handle = api.make("program_from_object", program)
    inputs, outputs = ([madspace.asarray(x, device="cuda") for x in side] for side in arrays_for(program, N))
    ins, outs = described(inputs), described(outputs)
    refused("MS_ERROR_HANDLE", api.program_run, handle, gpu, N, ins, outs, None)
    refused("MS_ERROR_ARGUMENT", api.program_run, handle, gpu, 1 << 40, ins, outs, queue)
    api.program_run(handle, gpu, 0, ins, outs, queue)
    ins[0].data += 4
    refused("MS_ERROR_ARGUMENT", api.program_run, handle, gpu, N, ins, outs, queue)
    ins[0].data = None
    assert "inputs[0].data" in refused("MS_ERROR_ARGUMENT", api.program_run, handle, gpu, N, ins, outs, queue)
    api.program_release(handle)


def test_a_failed_launch(api, gpu, queue, device, fake):
    program = FunctionRuntime(Function.load(str(DATA / "log_forward.json"))).programs[-1]
    handle = api.make("program_from_object", program)
    inputs, outputs = ([madspace.asarray(x, device="cuda") for x in side] for side in arrays_for(program, N))
    with fake.failing("cuLaunchKernel", code=999):
        refused("MS_ERROR_DRIVER", api.program_run, handle, gpu, N, described(inputs), described(outputs), queue)
    api.program_release(handle)
