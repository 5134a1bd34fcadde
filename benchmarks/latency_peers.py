"""The operations of bench_latency.py through other libraries, for those that are installed.

Each function returns statements with the names that they use, by the name of the case. The device's context is current.
"""

import importlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from c_twin import EMPTY_KERNEL

Statements = dict[str, tuple[str, dict[str, Any]]]
N_GRAPH_NODES = 10


def cuda_core() -> Statements:
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
        "launch_graph": ("graph.launch(stream)", names),
    }


def cupy() -> Statements:
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
        "module": module,
        "kernel": kernel,
        "arguments": arguments,
        "stream": stream,
        "other": other,
        "event": cp.cuda.Event(disable_timing=True),
        "pool": cp.cuda.MemoryAsyncPool(),
        "graph": stream.end_capture(),
    }
    return {
        "launch": ("kernel((1,), (32,), arguments)", names),
        "launch_and_wait": ("kernel((1,), (32,), arguments); stream.synchronize()", names),
        "allocate_and_free_1_kib": (f"pool.malloc({1 << 10})", names),
        "allocate_and_free_16_mib": (f"pool.malloc({1 << 24})", names),
        "record_and_wait": ("event.record(stream); other.wait_event(event)", names),
        "launch_graph": ("graph.launch(stream)", names),
    }


def torch() -> Statements:
    """PyTorch: events and graphs; it has no launch of a foreign kernel, and its allocator keeps what is freed."""
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
    names = {"stream": stream, "other": other, "event": th.cuda.Event(), "graph": graph}
    return {
        "record_and_wait": ("event.record(stream); other.wait_event(event)", names),
        "launch_graph": ("graph.replay()", names),
    }


PEERS = {"cuda.core": cuda_core, "cupy": cupy, "torch": torch}


def add_to(cases: dict[str, Any], wanted: list[str]) -> dict[str, str]:
    """Add the statements of the peers to the cases, and return why which ones are left out."""
    left_out = {}
    for name in wanted:
        try:
            statements = PEERS[name]()
        except Exception as error:  # another library, of any version: what fails in it must not stop the benchmark
            left_out[name] = f"{type(error).__name__}: {error}"
            continue
        for case, statement in statements.items():
            if case in cases:
                cases[case].statements[name] = statement
    return left_out
