"""No function that need not takes the GIL; leaving and forks are silent."""

import ctypes

import numpy as np
import pytest
import warp_machine
from capi.clients import compile_client, import_from
from capi.test_kda import CASES, arguments_of, outputs_for, put
from capi_table import HEADER, fill, structure_of
from kda.places import register_kernels

from madspace import FunctionBuilder, FunctionRuntime, NamedTypes, batch_float

Array = structure_of(HEADER.read_text(), "ms_program_array")
N = 1000


class Work(ctypes.Structure):
    """What the client works on; client.c has the same fields."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ["cpu", "gpu", "stream", "other", "event", "kernel", "graph", "program"]),
        *(
            (name, ctypes.c_void_p)
            for name in ["kda_on_cpu", "kda_on_gpu", "inputs", "outputs", "inputs_on_gpu", "outputs_on_gpu"]
        ),
        ("batch", ctypes.c_int64),
        ("words", ctypes.c_void_p),
        ("failed", ctypes.c_int),
        ("status", ctypes.c_int),
        ("message", ctypes.c_char * 256),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of the compiled client."""
    folder = tmp_path_factory.mktemp("client")
    compile_client("client", folder, HEADER.parent.parent)
    return folder


@pytest.fixture
def client(folder):
    """Return the client."""
    return import_from("client", folder)


@pytest.fixture
def work(api, cpu, gpu, queue, fill_kernel, memory, real_gpu, device):
    """Return a Work, and what it points to."""
    if not real_gpu:
        import fake_driver

        register_kernels(fake_driver.load())
        warp_machine.register(fake_driver.load(), "phasespace")
    work = Work(cpu=cpu, gpu=gpu, stream=queue, kernel=fill_kernel, words=memory, batch=N)
    work.other, work.event = api.make("stream_create", gpu, 0), api.make("event_create", gpu, 0)
    fill(api, fill_kernel, queue, memory, 1)
    capture = api.make("capture_begin", queue)
    fill(api, fill_kernel, queue, memory, 2)
    work.graph = api.make("capture_end", capture)
    builder = FunctionBuilder(NamedTypes([("x", batch_float)]), NamedTypes([("y", batch_float)]))
    builder.output(0, builder.sqrt(builder.input(0)))
    work.program = api.make("program_from_object", FunctionRuntime(builder.function()))
    x, y = np.random.default_rng(1).random(N), np.zeros(N)
    arrays = [(Array * 1)(Array(a.ctypes.data, 8, 0)) for a in (x, y)]
    work.inputs, work.outputs = map(ctypes.addressof, arrays)
    there = [put(a, "cuda") for a in (x, y)]
    arrays += [(Array * 1)(Array(a.ptr, 8, 0)) for a in there]
    work.inputs_on_gpu, work.outputs_on_gpu = map(ctypes.addressof, arrays[2:])
    kept = [x, y, arrays]
    for name, field in (("cpu", "kda_on_cpu"), ("cuda", "kda_on_gpu")):
        inputs = {key: put(a, name) for key, a in CASES["tokens"]().items()}
        outputs = outputs_for(CASES["tokens"](), name)
        args = arguments_of(inputs | outputs)
        setattr(work, field, ctypes.addressof(args))
        kept += [inputs, outputs, args]
    device.synchronize()
    api.kda_forward(gpu, work.kda_on_gpu, queue)  # loads its kernels
    api.program_run(work.program, gpu, N, work.inputs_on_gpu, work.outputs_on_gpu, queue)
    yield work
    np.testing.assert_array_equal(y, np.sqrt(x))
    np.testing.assert_allclose(there[1].numpy(), y, rtol=1e-15)
    for kind, handle in (
        ("graph", work.graph),
        ("program", work.program),
        ("event", work.event),
        ("stream", work.other),
    ):
        getattr(api, f"{kind}_release")(handle)
    del kept


@pytest.mark.parametrize("n", [1, 4])
def test_hot_calls_do_not_take_the_gil(client, work, n):
    # This thread keeps the GIL until the other ones are done: one that asked for it would wait for ever.
    assert client.hot_calls(ctypes.addressof(work), n), "a call waits for the GIL"
    assert (work.failed, work.status, work.message) == (0, 0, b"")


def test_a_pending_exception_survives(client):
    with pytest.raises(KeyError, match="mine"):
        client.clean_up()


RESTLESS = """
import atexit, ctypes, os, sys, time
sys.path.insert(0, {folder!r})
import fake_driver
fake = fake_driver.Fake(os.environ["MADSPACE_DRIVER_LIBRARY"])
atexit.register(lambda: (time.sleep(0.05), fake.deinitialise()))
import madspace, client
from capi_table import Table
api = Table(madspace._C_API)
gpu = api.make("device_get", 2, 0)
class Work(ctypes.Structure):
    _fields_ = [("cpu", ctypes.c_void_p), ("gpu", ctypes.c_void_p)]
work = Work(None, gpu)
client.start_restless(ctypes.addressof(work), 3)
sys.kept = work
time.sleep(0.2)
{more}
"""


@pytest.mark.parametrize("more", ["", "sys.exit(0)", "kept = [api.make('stream_create', gpu, 0) for _ in range(9)]"])
def test_threads_of_c_at_exit(run_python, folder, more):
    done = run_python(RESTLESS.format(folder=str(folder), more=more))
    assert (done.returncode, done.stdout, done.stderr, done.faults) == (0, "", "", [])


FORK = """
import ctypes, os, sys
import madspace
from capi_table import Table, refused
api = Table(madspace._C_API)
gpu, cpu = api.make("device_get", 2, 0), api.make("device_get", 1, 0)
stream, event = api.make("stream_create", gpu, 0), api.make("event_create", gpu, 0)
address = api.make("alloc", gpu, 64, stream)
assert api.is_alive() == 1
child = os.fork()
if child == 0:
    assert api.is_alive() == 0
    room = ctypes.byref(ctypes.c_void_p())
    for call in (
        (api.stream_synchronize, stream), (api.event_record, event, stream), (api.free, gpu, address, stream),
        (api.alloc, gpu, 64, stream, room), (api.stream_create, gpu, 0, room), (api.device_synchronize, gpu),
        (api.copy, gpu, address, address, 64, stream),
    ):
        assert "forked" in refused("MS_ERROR_FORK", *call)
    api.free(cpu, api.make("alloc", cpu, 64, None), None)
    api.stream_release(stream)
    api.event_release(event)
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
api.free(gpu, address, stream)
"""


@pytest.mark.needs("fork")
def test_a_forked_child_is_told(run_python):
    done = run_python(FORK, args=("-W", "ignore::DeprecationWarning"))
    assert (done.returncode, done.stdout, done.stderr, done.faults) == (0, "", "", [])


AFTER = """
import ctypes, os
import madspace
from capi_table import Table, refused
api = Table(madspace._C_API)
gpu, cpu = api.make("device_get", 2, 0), api.make("device_get", 1, 0)
stream = api.make("stream_create", gpu, 0)
address = api.make("alloc", gpu, 64, stream)
room = ctypes.byref(ctypes.c_void_p())
def last(api, refused, gpu, cpu, stream, address, room, write):
    refused("MS_ERROR_SHUTDOWN", api.stream_synchronize, stream)
    refused("MS_ERROR_SHUTDOWN", api.alloc, gpu, 64, stream, room)
    refused("MS_ERROR_SHUTDOWN", api.free, gpu, address, stream)
    refused("MS_ERROR_SHUTDOWN", api.stream_create, gpu, 0, room)
    refused("MS_ERROR_SHUTDOWN", api.stream_release, stream)
    assert api.is_alive() == 0
    api.free(cpu, api.make("alloc", cpu, 64, None), None)
    write(1, b"seen")
class Last:
    # A global goes when the interpreter does, behind all exit hooks.
    def __del__(self, last=last, things=(api, refused, gpu, cpu, stream, address, room, os.write)):
        last(*things)
keep = Last()
"""


def test_calls_after_the_exit_hooks(run_python):
    done = run_python(AFTER)
    assert (done.returncode, done.stdout, done.stderr, done.faults) == (0, "seen", "", [])


NO_DRIVER = """
import ctypes, madspace
from capi_table import Table, refused
api = Table(madspace._C_API)
assert api.number("device_count") == 0
refused("MS_ERROR_NO_DRIVER", api.device_get, 2, 0, ctypes.byref(ctypes.c_void_p()))
cpu = api.make("device_get", 1, 0)
api.free(cpu, api.make("alloc", cpu, 64, None), None)
"""


@pytest.mark.needs("no_driver")
def test_without_a_driver(run_python):
    done = run_python(NO_DRIVER, driver=None)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
