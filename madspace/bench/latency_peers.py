"""The operations of the latency benchmark through other libraries, for those that are installed.

Each function returns statements with the names that they use, by the name of the case. The device's context is current.
"""

import ctypes
import importlib
import importlib.util
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from madspace.bench.c_twin import EMPTY_KERNEL
from madspace.bench.latency_cases import MIB, N_GRAPH_NODES, Case, Setup, label
from madspace.bench.timing import Statement

Statements = dict[str, tuple[str, dict[str, Any]]]


def cuda_bindings(s: Setup) -> Statements:
    """cuda.bindings: the driver's calls from Python, on the objects that the C twin works on."""
    driver: Any = importlib.import_module("cuda.bindings.driver")
    _, made = s.graph(N_GRAPH_NODES)
    sizes = [n for n in s.copies if n <= 16 * MIB]
    device, host = s.pool.allocate(max(sizes), stream=s.stream), np.ones(max(sizes), np.uint8)
    context = driver.cuCtxGetCurrent()[1]
    names = {
        "d": driver,
        "kernel": driver.CUfunction(s.twin.kernel.handle),
        "arguments": ((0, 0), (ctypes.c_void_p, ctypes.c_int)),
        "stream": driver.CUstream(s.stream.handle),
        "other": driver.CUstream(s.other.handle),
        "event": driver.CUevent(s.event.handle),
        "first": driver.CUevent(s.first.handle),
        "last": driver.CUevent(s.last.handle),
        "pool": driver.CUmemoryPool(s.pool.handle),
        "graph": driver.CUgraphExec(made.handle),
        "context": context,
        "kept": (made, device, host),
    }
    launch = "d.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, 0)"
    wait = "d.cuStreamSynchronize(stream)"
    found = {
        "launch": launch,
        "launch_and_wait": f"{launch}; {wait}",
        "record_and_wait": "d.cuEventRecord(event, stream); d.cuStreamWaitEvent(other, event, 0)",
        "record_event": "d.cuEventRecord(event, stream)",
        "wait_event": "d.cuStreamWaitEvent(other, event, 0)",
        "query_event": "d.cuEventQuery(event)",
        "elapsed": "d.cuEventElapsedTime(first, last)",
        "launch_graph": "d.cuGraphLaunch(graph, stream)",
        "push_and_pop_context": "d.cuCtxPushCurrent(context); d.cuCtxPopCurrent()",
    }
    for nbytes in (1 << 10, 1 << 24):
        text = f"d.cuMemFreeAsync(d.cuMemAllocFromPoolAsync({nbytes}, pool, stream)[1], stream)"
        found[f"allocate_and_free_{label(nbytes)}"] = text
    for nbytes in sizes:
        ends = f"({device.ptr}, {host.ctypes.data}, {nbytes}, stream)"
        back = f"({host.ctypes.data}, {device.ptr}, {nbytes}, stream)"
        found[f"h2d_pageable_{label(nbytes)}"] = f"d.cuMemcpyHtoDAsync{ends}; {wait}"
        found[f"d2h_pageable_{label(nbytes)}"] = f"d.cuMemcpyDtoHAsync{back}; {wait}"
    return {name: (text, names) for name, text in found.items()}


def cuda_core(s: Setup) -> Statements:
    """cuda.core: its own launch, memory resource, events and graph builder."""
    core: Any = importlib.import_module("cuda.core")
    device = core.Device(0)
    device.set_current()
    stream, other = device.create_stream(), device.create_stream()
    kernel = core.ObjectCode.from_ptx(EMPTY_KERNEL).get_kernel("empty")
    config = core.LaunchConfig(grid=1, block=32)
    event = stream.record()
    builder = device.create_graph_builder()
    builder.begin_building()
    for _ in range(N_GRAPH_NODES):
        core.launch(builder, config, kernel, 0, np.int32(0))
    names = {
        "launch": core.launch,
        "config": config,
        "kernel": kernel,
        "number": np.int32(0),
        "stream": stream,
        "other": other,
        "device": device,
        "event": event,
        "graph": builder.end_building().complete(),
    }
    launch = "launch(stream, config, kernel, 0, number)"
    return {
        "launch": (launch, names),
        "launch_and_wait": (f"{launch}; stream.sync()", names),
        "allocate_and_free_1_kib": (f"device.allocate({1 << 10}, stream=stream).close()", names),
        "allocate_and_free_16_mib": (f"device.allocate({1 << 24}, stream=stream).close()", names),
        "record_and_wait": ("stream.record(event); other.wait(event)", names),
        "record_event": ("stream.record(event)", names),
        "wait_event": ("other.wait(event)", names),
        "query_event": ("event.is_done", names),
        "make_stream": ("device.create_stream().close()", names),
        "launch_graph": ("graph.launch(stream)", names),
    }


def cupy(s: Setup) -> Statements:
    """CuPy: raw kernels, and its pool over the driver's stream-ordered allocator."""
    cp: Any = importlib.import_module("cupy")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.ptx"
        path.write_bytes(EMPTY_KERNEL)
        module = cp.RawModule(path=str(path))
        kernel = module.get_function("empty")
    stream, other = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    stream.use()
    arguments = (np.uint64(0), np.int32(0))
    kernel((1,), (32,), arguments)  # loads it, which a capture would not stand
    stream.begin_capture()
    for _ in range(N_GRAPH_NODES):
        kernel((1,), (32,), arguments)
    names = {
        "cp": cp,
        "module": module,
        "kernel": kernel,
        "arguments": arguments,
        "stream": stream,
        "other": other,
        "event": cp.cuda.Event(disable_timing=True),
        "pool": cp.cuda.MemoryAsyncPool(),
        "graph": stream.end_capture(),
        "device": cp.cuda.Device(0),
    }
    found: Statements = {
        "launch": ("kernel((1,), (32,), arguments)", names),
        "launch_and_wait": ("kernel((1,), (32,), arguments); stream.synchronize()", names),
        "allocate_and_free_1_kib": (f"pool.malloc({1 << 10})", names),
        "allocate_and_free_16_mib": (f"pool.malloc({1 << 24})", names),
        "record_and_wait": ("event.record(stream); other.wait_event(event)", names),
        "record_event": ("event.record(stream)", names),
        "wait_event": ("other.wait_event(event)", names),
        "query_event": ("event.done", names),
        "launch_graph": ("graph.launch(stream)", names),
        "push_and_pop_context": ("with device: pass", names),
    }
    for nbytes in s.copies:
        if nbytes <= 16 * MIB:
            ends = names | {"x": cp.zeros(nbytes, np.uint8), "y": np.ones(nbytes, np.uint8)}
            found[f"h2d_pageable_{label(nbytes)}"] = ("x.set(y, stream); stream.synchronize()", ends)
            found[f"d2h_pageable_{label(nbytes)}"] = ("x.get(stream, out=y)", ends)
    return found | _imports_of_torch(cp.from_dlpack)


def torch(s: Setup) -> Statements:
    """PyTorch: events, graphs, copies; it has no launch of a foreign kernel, and its allocator keeps what is freed."""
    th: Any = importlib.import_module("torch")
    stream, other = th.cuda.Stream(), th.cuda.Stream()
    number = th.zeros(1, device="cuda")
    graph = th.cuda.CUDAGraph()
    with th.cuda.stream(stream):
        number.add_(1)
    th.cuda.synchronize()
    with th.cuda.graph(graph, stream=stream):
        for _ in range(N_GRAPH_NODES):
            number.add_(1)
    event = th.cuda.Event()
    event.record(stream)
    names = {"th": th, "stream": stream, "other": other, "event": event, "graph": graph, "device": th.cuda.device(0)}
    found: Statements = {
        "record_and_wait": ("event.record(stream); other.wait_event(event)", names),
        "record_event": ("event.record(stream)", names),
        "wait_event": ("other.wait_event(event)", names),
        "query_event": ("event.query()", names),
        "launch_graph": ("graph.replay()", names),
        "push_and_pop_context": ("with device: pass", names),
    }
    for nbytes in s.copies:
        if nbytes <= 16 * MIB:
            on_device = th.zeros(nbytes, dtype=th.uint8, device="cuda")
            for kind in ("pinned", "pageable"):
                host = th.ones(nbytes, dtype=th.uint8, pin_memory=kind == "pinned")
                ends = {"x": on_device, "y": host, "stream": th.cuda.current_stream()}
                wait = "stream.synchronize()"
                found[f"h2d_{kind}_{label(nbytes)}"] = (f"x.copy_(y, non_blocking=True); {wait}", ends)
                found[f"d2h_{kind}_{label(nbytes)}"] = (f"y.copy_(x, non_blocking=True); {wait}", ends)
    return found | _imports_of_torch(th.from_dlpack)


def numba(s: Setup) -> Statements:
    """numba-cuda: a configured launch of an empty kernel of two arguments, and events."""
    nb: Any = importlib.import_module("numba.cuda")
    stream, other, event = nb.stream(), nb.stream(), nb.event(timing=False)
    kernel = nb.jit("void(int64, int32)")(lambda pointer, number: None)[1, 32, stream]
    names = {"kernel": kernel, "stream": stream, "other": other, "event": event}
    return {
        "launch": ("kernel(0, 0)", names),
        "launch_and_wait": ("kernel(0, 0); stream.synchronize()", names),
        "record_and_wait": ("event.record(stream); event.wait(other)", names),
        "record_event": ("event.record(stream)", names),
        "wait_event": ("event.wait(other)", names),
        "query_event": ("event.query()", names),
    }


def triton(s: Setup) -> Statements:
    """Triton: a launch of an empty kernel of two arguments, on torch's current stream."""
    tr: Any = importlib.import_module("triton")
    th: Any = importlib.import_module("torch")
    # Its compiler reads the kernel's source from a file, so the kernel needs one.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "madspace_empty_triton.py"
        path.write_text("import triton\n\n\n@triton.jit\ndef empty(pointer, number):\n    pass\n")
        specification = importlib.util.spec_from_file_location(path.stem, path)
        assert specification is not None
        assert specification.loader is not None
        module: Any = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        launcher = module.empty[(1,)]
        names = {"launch": launcher, "x": th.zeros(1, device="cuda"), "stream": th.cuda.current_stream(), "kept": tr}
        launcher(names["x"], 0)
    return {"launch": ("launch(x, 0)", names), "launch_and_wait": ("launch(x, 0); stream.synchronize()", names)}


def jax(s: Setup) -> Statements:
    """JAX: its smallest compiled call, which also makes its result; imports of torch's arrays."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or nothing is left for the others
    jx: Any = importlib.import_module("jax")
    x = jx.device_put(np.zeros(1, np.float32), jx.devices("cuda")[0])
    names = {"call": jx.jit(lambda x: x + 1), "x": x}
    found: Statements = {"launch": ("call(x)", names), "launch_and_wait": ("call(x).block_until_ready()", names)}
    return found | _imports_of_torch(importlib.import_module("jax.dlpack").from_dlpack)


def _imports_of_torch(from_dlpack: Callable[[Any], Any]) -> Statements:
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return {}
    return {"dlpack_in_torch": ("f(x)", {"f": from_dlpack, "x": torch.zeros(256, device="cuda")})}


PEERS: dict[str, Callable[[Setup], Statements]] = {
    "cuda.bindings": cuda_bindings,
    "cuda.core": cuda_core,
    "cupy": cupy,
    "torch": torch,
    "numba": numba,
    "triton": triton,
    "jax": jax,
}


def add_to(cases: dict[str, Case], wanted: list[str], setup: Setup) -> dict[str, str]:
    """Add the statements of the peers to the cases, and return why which ones are left out."""
    left_out = {}
    for name in wanted:
        try:
            statements = PEERS[name](setup)
        except Exception as error:  # another library, of any version: what fails in it must not stop the benchmark
            left_out[name] = _reason(error)
            continue
        for case, (text, names) in statements.items():
            if case not in cases:
                continue
            statement = Statement(text, names)
            try:
                statement.mean(1)
                setup.device.synchronize()
            except Exception as error:
                left_out[f"{case} {name}"] = _reason(error)
            else:
                cases[case].who[name] = statement
    return left_out


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
