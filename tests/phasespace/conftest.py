"""Where a phase-space test runs: on the CPU, and on the device with the same body."""

import ctypes

import numpy as np
import op_calls
import program_reference
import pytest
import warp_machine
from program_points import fuse_programs, upstream

import madspace
from madspace.cpu import _programs
from madspace.cpu._lanes import host_kernel_address
from madspace.phasespace import executor
from madspace.phasespace.compile import compile_graph
from madspace.phasespace.fused import fused_source

KERNELS = [f"t_chain_{order}_{power}" for order in ("0", "10", "01") for power in ("uniform", "fifth", "log", "power")]


class Place:
    """Puts arrays somewhere and brings results back."""

    def __init__(self, name):
        self.name = name

    def put(self, array):
        """Return the array as an input there."""
        array = np.array(array, dtype=np.float64)
        return array if self.name == "cpu" else madspace.asarray(array, device=self.name)

    def empty(self, shape, fill=np.nan):
        """Return an output there, filled so that unwritten elements show."""
        return self.put(np.full(shape, fill))

    def get(self, result):
        """Return results as NumPy arrays."""
        if isinstance(result, tuple | list):
            return [self.get(x) for x in result]
        return np.array(result if self.name == "cpu" else result.numpy())

    def map(self, mapping, randoms, energy, masses, **options):
        """Run map_forward on host arrays (or broadcast numbers); momenta (batch, n, 4) and det."""
        arrays = [self.put(np.atleast_1d(x)) for x in (*randoms, energy, *masses)]
        *momenta, det = self.get(mapping.map_forward(arrays, **options))
        return np.stack(momenta, axis=1), det


def _register_host_kernels():
    """Let the fake driver run the host build of each fused kernel."""
    import fake_driver

    fake = fake_driver.load()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_longlong, ctypes.c_longlong)

    def twin(name):
        run = kind(host_kernel_address(name))

        def launch(params, grid, block):
            n = ctypes.cast(params[0], ctypes.POINTER(ctypes.c_longlong))[0]
            assert (grid[0] - 1) * block[0] < n <= grid[0] * block[0], "the grid must cover the batch without waste"
            run(params[0], 0, n)

        return launch

    for name in KERNELS:
        fake.register(name, twin(name))


@pytest.fixture(scope="session")
def fused_kernels(real_gpu):
    """Make the fused kernels launchable on the driver of the session."""
    if not real_gpu:
        _register_host_kernels()


@pytest.fixture(scope="session")
def program_kernels(real_gpu):
    """Make the kernels of programs launchable on the driver of the session."""
    if not real_gpu:
        import fake_driver

        warp_machine.register(fake_driver.load(), "phasespace")
        for _, text in fuse_programs.sources():
            warp_machine.register_fused(fake_driver.load(), text.partition("namespace madspace;")[2])


@pytest.fixture(autouse=True)
def _no_problem():
    """Fail a test whose kernels did something wrong that no result shows."""
    yield
    assert warp_machine.problem() == ""


@pytest.fixture(params=["cpu", "cuda"])
def where(request, device, program_kernels, monkeypatch):
    """Return the name of a device; single ops run there as well."""
    monkeypatch.setattr(op_calls, "place", request.param)
    return request.param


@pytest.fixture
def fuse(real_gpu, program_kernels, tmp_path, monkeypatch):
    """Return a function that makes a runtime whose kernel on GPUs is compiled for it alone."""
    monkeypatch.setenv("MADSPACE_CACHE_DIR", str(tmp_path / "kernels"))

    def compiled(function, context=None, drawn=(), kernels="compiled"):
        runtime = madspace.FunctionRuntime(function, context)
        runtime._kernels = kernels
        if kernels == "compiled" and not real_gpu:
            import fake_driver

            warp_machine.register_fused(fake_driver.load(), source_of(runtime, drawn))
        return runtime

    return compiled


def source_of(runtime, drawn):
    """Return the source of a function's fused kernels."""
    flags = runtime._is_shared_result
    whole = compile_graph(runtime._function, _programs.op_table())
    programs = [(whole, flags, tuple(drawn))]
    if any(flags):
        programs.append((runtime.programs[0], [True] * len(runtime.programs[0].outputs)))
    return "".join(fused_source(*program) for program in programs)


@pytest.fixture(params=["cpu", "cuda"])
def place(request, device, fused_kernels):
    """Return where to run: the CPU, then device 0."""
    return Place(request.param)


@pytest.fixture
def gpu_place(device, fused_kernels):
    """Return device 0 alone."""
    return Place("cuda")


@pytest.fixture(params=["reference", "cpu"])
def any_executor(request, monkeypatch):
    """Let a function of MadSpace (`name`) run in plain NumPy, and on the executor of this build."""
    chosen = program_reference
    if request.param == "cpu":
        chosen = _programs
        function = upstream(request.node.callspec.params["name"])[0]
        missing = {step.op for step in compile_graph(function).steps} - chosen.op_table().keys()
        if missing:
            pytest.skip(f"needs the ops {', '.join(sorted(missing))} of the executor")
    monkeypatch.setattr(executor, "cpu_executor", lambda: chosen)
    return request.param


@pytest.fixture
def reference_executor(monkeypatch):
    """Let programs run in plain NumPy."""
    monkeypatch.setattr(executor, "cpu_executor", lambda: program_reference)
