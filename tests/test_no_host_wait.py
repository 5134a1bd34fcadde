"""No public call waits on the host but those that return host data or say so; each of the others fits into a capture.

Every public function and method has an entry here, in one of the tables: a new one without an entry fails.
"""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from program_points import function_of

import madspace
from madspace import kda

N = 1024
MODES = ("global", "thread_local", "relaxed")
BF16 = np.dtype(ml_dtypes.bfloat16)

# Return host data, or are there to wait, or look on the host at what they check.
WAITS = {
    "Buffer.copy_to_host",
    "Context.save_globals",
    "Device.synchronize",
    "Event.elapsed_since",
    "Event.query",
    "Event.synchronize",
    "PinnedBuffer.numpy",
    "PinnedBuffer.query",
    "PinnedBuffer.synchronize",
    "PinnedBuffer.trim",
    "Stream.query",
    "Stream.synchronize",
    "Tensor.numpy",
}
# Make, end or describe something on the host; no device work, and no part of a capture.
HOST_ONLY = {
    *("compile", "compile_image", "device_count", "get_include", "get_num_threads", "is_available", "memory_stats"),
    *("set_allocator", "set_num_threads", "statistics.clear", "statistics.records", "statistics.report"),
    *("statistics.__call__", "MemoryStats.count", "MemoryStats.index", "TPropagatorMapping.random_dim", "capture"),
    *("TPropagatorMapping.build_forward_impl", "TPropagatorMapping.build_inverse_impl"),
    *("WorkspaceLayout.offset", "WorkspaceLayout.reserve", "WorkspaceLayout.size", "kda.get_workspace_size"),
    *("BoundKernel.set", "Kernel.allow_large_clusters", "Kernel.attributes", "Kernel.occupancy"),
    *("Kernel.set_max_dynamic_shared", "Kernel.set_shared_carveout", "Module.get", "Stream.from_handle"),
    *("Module.close", "MemoryPool.close", "Stream.close", "Event.close", "Graph.close", "GraphExec.close"),
    *("PinnedBuffer.close", "Workspace.close", "GraphExec.set_kernel", "GraphExec.update", "Tensor.torch"),
    *("MemoryPool.reset_peaks", "MemoryPool.stats", "MemoryPool.trim"),
    *(f"Graph.{name}" for name in ("add_alloc", "add_child", "add_condition", "add_copy", "add_fill", "add_free")),
    *(f"Graph.{name}" for name in ("add_if", "add_kernel", "add_while", "clone", "debug_dot", "instantiate")),
    *("Graph.node_counts", "Graph.nodes"),
    *(f"Context.{name}" for name in ("array", "device", "global_exists", "global_names", "global_requires_grad")),
    *("Context.load_matrix_element", "Context.matrix_element", "default_context"),
}
# Device work that a capture refuses; outside of one it does not wait.
NEVER_CAPTURED = {
    "asarray": lambda e: madspace.asarray(e.host, device=e.device, stream=e.stream),
    "Context.load_globals": lambda e: madspace.Context(e.device).load_globals(e.folder),
    "Buffer.copy_from_host": lambda e: e.words.copy_from_host(bytes(4 * N), stream=e.stream),
    "GraphExec.launch": lambda e: e.executable.launch(e.stream),
    "GraphExec.upload": lambda e: e.executable.upload(e.stream),
    "Kernel.load": lambda e: e.module["ms_test_spin"].load(),
    "preload": lambda e: madspace.preload(e.device),
    "Tensor.copy_from (host)": lambda e: e.tensor.copy_from(e.host, stream=e.stream),
    "Workspace.require": lambda e: e.workspace.require(e.workspace.nbytes + 1, stream=e.stream),
}
# Return new memory.
ALLOCATES = {
    "Context.define_global": lambda e: inside(e, lambda: e.context.define_global("new", madspace.float, [2])),
    "MemoryPool.allocate": lambda e: e.device.pool.allocate(64, stream=e.stream),
    "Tensor.astype": lambda e: e.tensor.astype(np.float32),
    "Tensor.__dlpack__ (copy)": lambda e: e.tensor.__dlpack__(stream=e.stream.handle, copy=True),
    "Tensor.copy": lambda e: e.tensor.copy(stream=e.stream),
    "empty": lambda e: madspace.empty(3, device=e.device, stream=e.stream),
    "zeros": lambda e: madspace.zeros(3, device=e.device, stream=e.stream),
    "random.uniform": lambda e: madspace.random.uniform((8, 2), seed=1, device=e.device, stream=e.stream),
    "FunctionRuntime.call (new results)": lambda e: e.runtime.call(e.inputs[:2], stream=e.stream),
    "FunctionRuntime.call (random numbers)": lambda e: e.runtime.call([None, e.inputs[0]], stream=e.stream, seed=1),
    "kda.allocate_workspace": lambda e: kda.allocate_workspace(e.kda["q"]),
    "kda.fwd (new out)": lambda e: kda.fwd(**e.kda | {"out": None}, stream=e.stream),
    "TPropagatorMapping.map_forward (new outputs)": lambda e: e.mapping.map_forward(e.inputs, stream=e.stream),
}
CALLS = {
    "BoundKernel.__call__": lambda e: e.bound(stream=e.stream),
    "BoundKernel.launch": lambda e: e.bound.launch(stream=e.stream),
    "Buffer.close": lambda e: e.spare.close(),
    "Buffer.copy_from": lambda e: e.words.copy_from(e.other, stream=e.stream),
    "Context.copy_globals_from": lambda e: e.context.copy_globals_from(e.context_2),
    "Context.delete_global": lambda e: e.context_2.delete_global("g"),
    "Context.get_global": lambda e: e.context.get_global("g"),
    "Buffer.fill": lambda e: e.words.fill(1, stream=e.stream),
    "Event.record": lambda e: e.event.record(e.stream),
    "Kernel.bind": lambda e: e.kernel.bind(1, 32, e.words, 7, N, stream=e.stream),
    "Kernel.launch": lambda e: e.kernel.launch(1, 32, e.words, 7, N, stream=e.stream),
    "PinnedBuffer.copy_from": lambda e: e.pinned.copy_from(e.words, stream=e.stream),
    "PinnedBuffer.copy_to": lambda e: e.pinned.copy_to(e.words, stream=e.stream),
    "Stream.record": lambda e: e.stream.record(e.event),
    "Stream.wait": lambda e: e.stream.wait(e.stream),
    "TPropagatorMapping.map_forward": lambda e: e.mapping.map_forward(e.inputs, out=e.outputs, stream=e.stream),
    "TPropagatorMapping.release_inputs": lambda e: e.mapping.release_inputs(),
    "Tensor.copy_from": lambda e: e.tensor.copy_from(e.tensor_2, stream=e.stream),
    "Tensor.fill": lambda e: e.tensor.fill(2.0, stream=e.stream),
    "Tensor.reshape": lambda e: e.tensor.reshape((N, 1)),
    "Tensor.__cuda_array_interface__ (export)": lambda e: e.tensor.__cuda_array_interface__,
    "Tensor.__dlpack__ (export)": lambda e: e.tensor.__dlpack__(stream=e.stream.handle, max_version=(1, 3)),
    "Tensor.__getitem__ (view)": lambda e: e.tensor[1:7:2],
    "Workspace.after": lambda e: bracket(e),
    "Workspace.before": lambda e: bracket(e),
    "Workspace.carve": lambda e: e.untouched.carve(e.layout),
    "Workspace.check": lambda e: e.workspace.check(e.device, 16, e.stream),
    "Workspace.tensor": lambda e: e.untouched.tensor(),
    "Workspace.wrap": lambda e: madspace.Workspace.wrap(e.bytes),
    "fork_streams": lambda e: madspace.join_streams(e.stream, madspace.fork_streams(e.stream, 2)),
    "FunctionRuntime.call (out)": lambda e: e.runtime.call(e.inputs[:2], out=[e.outputs[5]], stream=e.stream),
    "FunctionRuntime.call (globals)": lambda e: e.with_globals.call(e.inputs[:1], out=[e.outputs[5]], stream=e.stream),
    "from_dlpack": lambda e: madspace.from_dlpack(e.tensor, stream=e.stream),
    "get_stream": lambda e: madspace.get_stream(),
    "join_streams": lambda e: madspace.join_streams(e.stream, madspace.fork_streams(e.stream, 2)),
    "kda.fwd": lambda e: kda.fwd(**e.kda, stream=e.stream),
    "release_inputs": lambda e: madspace.release_inputs(),
    "set_stream": lambda e: (madspace.set_stream(e.stream), madspace.set_stream(None)),
    "stream": lambda e: inside(e, lambda: e.words.fill(3)),
}


def bracket(e):
    e.workspace.before(e.stream)
    e.workspace.after(e.stream)


def inside(e, call):
    with madspace.stream(e.stream):
        call()


# Functions and what they are made of: device work is in the calls of FunctionRuntime alone.
MODULES = ["builder", "function", "generator", "graph", "mapping", "program", "runtime", "types", "values"]
ON_THE_CPU = {f"madspace.phasespace.{name}" for name in MODULES}


def is_on_the_cpu(thing):
    """Tell whether a class or method knows of no device."""
    return getattr(thing, "__module__", None) in ON_THE_CPU and getattr(thing, "__name__", None) != "release_inputs"


def public_names():
    """Yield the names of all that can be called, by functions and by the methods of public classes."""
    spaces = {"": (madspace, [*madspace.__all__, "compile"])}
    spaces |= {
        f"{space.__name__.removeprefix('madspace.')}.": (space, space.__all__) for space in (kda, madspace.random)
    }
    for prefix, (space, names) in spaces.items():
        for name in names:
            thing = getattr(space, name)
            if is_on_the_cpu(thing):
                continue
            if isinstance(thing, type):
                if not issubclass(thing, BaseException):
                    for call in dir(thing):
                        method = getattr(thing, call)
                        if not call.startswith("_") and callable(method) and not is_on_the_cpu(method):
                            yield f"{name}.{call}"
                    if "__call__" in vars(thing):
                        yield f"{name}.__call__"
            elif callable(thing):
                yield f"{prefix}{name}"


@pytest.fixture
def env(device, stream, module, tmp_path):
    """Return what the calls are made with."""
    contexts = [madspace.Context(device) for _ in range(2)]
    for context in contexts:
        with madspace.stream(stream):
            context.define_global("g", madspace.float, [])
    contexts[0].save_globals(tmp_path)
    scaled = function_of([madspace.batch_float], lambda b, x: [b.mul(x, b.get_global("g", madspace.float, []))])
    madspace.preload(device)
    zeros = madspace.zeros
    kernel = module["ms_test_fill"]
    kernel.load()
    words, other, spare = (device.pool.allocate(4 * N, stream=stream) for _ in range(3))
    mapping = madspace.TPropagatorMapping([0, 1])
    graph = madspace.Graph(device)
    graph.add_fill(words, 1)
    heads = (1, 16, 2, 64)
    given = {name: zeros(heads, BF16, device=device, stream=stream) for name in ("q", "k", "v", "g", "out")}
    given |= {"beta": zeros(heads[:3], BF16, device=device, stream=stream), "scale": 0.125}
    given |= {"A_log": zeros(2, np.float32, device=device, stream=stream), "lower_bound": -5.0}
    given |= {"dt_bias": zeros((2, 64), np.float32, device=device, stream=stream)}
    given |= {"workspace": madspace.Workspace(kda.get_workspace_size(16, 2), device, stream=stream)}
    layout = madspace.WorkspaceLayout()
    layout.reserve(64)
    stream.synchronize()
    return SimpleNamespace(
        device=device,
        stream=stream,
        module=module,
        kernel=kernel,
        words=words,
        other=other,
        spare=spare,
        host=np.zeros(N, np.float32),
        tensor=zeros(N, np.float32, device=device, stream=stream),
        tensor_2=zeros(N, np.float32, device=device, stream=stream),
        bytes=zeros(64, np.uint8, device=device, stream=stream),
        event=madspace.Event(device),
        pinned=madspace.PinnedBuffer(4 * N),
        bound=kernel.bind(1, 32, words, 7, N, stream=stream),
        executable=graph.instantiate(),
        workspace=madspace.Workspace(64, device, stream=stream),
        untouched=madspace.Workspace(256, device, stream=stream),
        layout=layout,
        mapping=mapping,
        runtime=madspace.FunctionRuntime(function_of([madspace.batch_float] * 2, lambda b, x, y: [b.add(x, y)])),
        context=contexts[0],
        context_2=contexts[1],
        folder=tmp_path,
        with_globals=madspace.FunctionRuntime(scaled, contexts[0]),
        inputs=[zeros(8, device=device, stream=stream) for _ in range(9)],
        outputs=[
            *(zeros((8, 4), device=device, stream=stream) for _ in range(5)),
            zeros(8, device=device, stream=stream),
        ],
        kda=given,
    )


def refuse_waits(fake, name, *, allocations=True):
    """Fail where the log has a wait on the host, a question to the device, or memory taken."""
    bad = [call for call in fake.names() if "Synchronize" in call or "Query" in call]
    if not allocations:
        bad += [call for call in fake.names() if "MemAlloc" in call or "MemHostAlloc" in call]
    assert not bad, f"{name}: {bad}"


def test_every_public_call_has_an_entry():
    entries = [WAITS, HOST_ONLY, NEVER_CAPTURED, ALLOCATES, CALLS]
    listed = [name for table in entries for name in table if " (" not in name]
    assert sorted(set(public_names()) - set(listed)) == [], "no entry in this file"
    assert sorted(set(listed) - set(public_names())) == [], "no such call any more"
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [*CALLS, *ALLOCATES])
def test_a_call_fits_into_a_capture(device, env, mode, name):
    with madspace.capture(env.stream, mode):
        (CALLS | ALLOCATES)[name](env)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [*CALLS, *ALLOCATES])
def test_a_captured_call_asks_and_waits_for_nothing(fake, device, env, mode, name):
    with madspace.capture(env.stream, mode):
        fake.clear_log()
        (CALLS | ALLOCATES)[name](env)
        refuse_waits(fake, name, allocations=name in ALLOCATES)


@pytest.mark.parametrize("name", [*CALLS, *ALLOCATES, *NEVER_CAPTURED])
def test_no_call_waits(fake, device, env, delay, name):
    call = (CALLS | ALLOCATES | NEVER_CAPTURED)[name]
    delay(env.stream)
    fake.clear_log()
    call(env)
    waits = [entry for entry in fake.names() if "Synchronize" in entry]
    assert not waits, f"{name}: {waits}"
    env.stream.synchronize()


@pytest.mark.parametrize("mode", MODES)
def test_what_an_object_tells_fits_into_a_capture(fake, device, env, mode):
    things = [env.device, env.device.pool, env.stream, env.event, env.words, env.tensor, env.pinned, env.kernel]
    things += [env.module, env.bound, env.workspace, env.executable, env.mapping, env.layout]
    with madspace.capture(env.stream, mode):
        for thing in things:
            for name, member in vars(type(thing)).items():
                if isinstance(member, property) or type(member).__name__ == "getset_descriptor":
                    fake.clear_log()
                    getattr(thing, name, None)
                    refuse_waits(fake, f"{type(thing).__name__}.{name}", allocations=False)
            repr(thing)
