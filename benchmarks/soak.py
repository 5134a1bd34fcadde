"""A million mixed operations of the runtime, after which memory and handles must be what they were.

    python benchmarks/soak.py [--operations N] [--seed S] [--json FILE] [--quick]

Allocations, frees, fills, copies, launches, events, streams, views, pinned memory and graphs in random order on several
streams. The first tenth fills caches; what the process, the pool and the device hold is noted then and again at the
end, both times with nothing of the run alive. Exit status 1 where a figure has grown past its limit.
"""

import argparse
import gc
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import madspace
from madspace.bench.c_twin import EMPTY_KERNEL
from madspace.bench.command import write
from madspace.bench.provenance import provenance

MIB = 1 << 20
SIZES = (1, 256, 4096, 65536, 1 * MIB)
N_KEPT = 64  # buffers alive at a time
# How much more there may be at the end. Python's blocks move with its caches, resident memory with malloc's, and the
# device's with other processes; one event or buffer lost in every thousand operations is more than any of these.
LIMITS = {
    "pool_used_bytes": 0,
    "pool_reserved_bytes": 0,
    "device_used_bytes": 64 * MIB,
    "resident_bytes": 16 * MIB,
    "python_blocks": 2000,
    "file_descriptors": 0,
    "threads": 0,
}


class Soak:
    """What the operations work on, and the operations."""

    def __init__(self, device: madspace.Device, seed: int) -> None:
        self.device, self.pool = device, device.pool
        self.random = random.Random(seed)
        self.kernel = madspace.Module(EMPTY_KERNEL)["empty"]
        self.kernel.load(device)  # which a capture does not allow
        self.streams = [madspace.Stream(device) for _ in range(4)]
        self.events = [madspace.Event(device, timing=bool(i % 2)) for i in range(8)]
        self.buffers: list[madspace.Buffer] = []
        self.tensors: list[madspace.Tensor] = []
        self.graphs: list[Any] = []
        # How often each comes, relative to the others.
        self.operations: dict[Callable[[], None], int] = {
            self.allocate: 20,
            self.free: 18,
            self.fill: 10,
            self.copy: 8,
            self.launch: 20,
            self.record_and_wait: 12,
            self.make_event: 4,
            self.make_stream: 1,
            self.make_tensor: 6,
            self.to_host_and_back: 1,
            self.stage: 4,
            self.end_stream: 1,
        }
        if hasattr(madspace, "capture"):
            self.operations |= {self.launch_graph: 4, self.make_graph: 1}

    def run(self, n: int) -> None:
        """Do a number of operations, and let go of everything."""
        chosen = self.random.choices(list(self.operations), list(self.operations.values()), k=n)
        for number, operation in enumerate(chosen):
            operation()
            if number % 1000 == 999:
                self.device.synchronize()  # or memory that is free in stream order only would pile up
        self.clear()

    def clear(self) -> None:
        """Drop what the operations have kept, and wait until the device has done so as well."""
        self.buffers.clear()
        self.tensors.clear()
        self.graphs.clear()
        gc.collect()
        self.device.synchronize()
        self.pool.trim()
        madspace.PinnedBuffer.trim()

    def end(self) -> None:
        """Give everything back, what the operations work on as well."""
        self.clear()
        for each in (*self.streams, *self.events):
            each.close()
        self.device.synchronize()

    def stream(self) -> madspace.Stream:
        """Choose a stream."""
        return self.random.choice(self.streams)

    def buffer(self) -> madspace.Buffer:
        """Choose a buffer."""
        if not self.buffers:
            self.allocate()
        return self.random.choice(self.buffers)

    def allocate(self) -> None:
        """Keep a buffer more."""
        if len(self.buffers) == N_KEPT:
            self.free()
        self.buffers.append(self.pool.allocate(self.random.choice(SIZES), stream=self.stream()))

    def free(self) -> None:
        """Close a buffer, or only forget it."""
        if self.buffers:
            buffer = self.buffers.pop(self.random.randrange(len(self.buffers)))
            if self.random.random() < 0.5:
                buffer.close()

    def fill(self) -> None:
        """Fill a buffer on any stream."""
        self.buffer().fill(self.random.randrange(256), stream=self.stream())

    def copy(self) -> None:
        """Copy a buffer to a new one, on any stream."""
        source = self.buffer()
        target = self.pool.allocate(source.nbytes, stream=self.stream())
        target.copy_from(source, stream=self.stream())

    def launch(self) -> None:
        """Launch a kernel on a buffer, on any stream."""
        self.kernel.launch(1, 32, self.buffer(), 0, stream=self.stream())

    def record_and_wait(self) -> None:
        """Order two streams."""
        event = self.random.choice(self.events)
        event.record(self.stream())
        self.stream().wait(event)

    def make_event(self) -> None:
        """Make an event, use it and forget it."""
        self.stream().wait(self.stream().record())

    def make_stream(self) -> None:
        """Make a stream, allocate on it, and let the buffer outlive it."""
        stream = madspace.Stream(self.device)
        self.buffers.append(self.pool.allocate(256, stream=stream))
        if len(self.buffers) > N_KEPT:
            self.free()

    def make_tensor(self) -> None:
        """Make a tensor, write to a view of it, and keep the view alone."""
        tensor = madspace.zeros((16, 64), device=self.device, stream=self.stream())
        self.tensors = [*self.tensors[-7:], tensor[4:8].fill(0.1, stream=self.stream()).reshape(-1)]

    def to_host_and_back(self) -> None:
        """Copy a buffer to the host and from there."""
        buffer = self.buffer()
        buffer.copy_from_host(buffer.copy_to_host(), stream=self.stream())

    def stage(self) -> None:
        """Copy through pinned memory that is dropped at once."""
        buffer = self.buffer()
        madspace.PinnedBuffer(buffer.nbytes).copy_to(buffer, stream=self.stream())

    def end_stream(self) -> None:
        """End a stream that buffers were allocated on and used on, and go on with another."""
        i = self.random.randrange(len(self.streams))
        self.streams[i].close()
        self.streams[i] = madspace.Stream(self.device)

    def make_graph(self) -> None:
        """Capture a few launches and keep the graph."""
        stream = self.stream()
        with madspace.capture(stream) as graph:
            for _ in range(4):
                self.kernel.launch(1, 32, 0, 0, stream=stream)
        self.graphs = [*self.graphs[-3:], graph.instantiate()]

    def launch_graph(self) -> None:
        """Launch one of the graphs."""
        if not self.graphs:
            self.make_graph()
        self.random.choice(self.graphs).launch(self.stream())


def holdings(device: madspace.Device | None) -> dict[str, int]:
    """Return what the process holds, in bytes and numbers; of the device as well where there is one."""
    status = Path("/proc/self/status").read_text().splitlines()
    resident = next(line for line in status if line.startswith("VmRSS:"))
    held = {
        "resident_bytes": int(resident.split()[1]) * 1024,
        "python_blocks": sys.getallocatedblocks(),
        "file_descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
    }
    if device is not None:
        held |= {
            "pool_used_bytes": device.pool.used_bytes,
            "pool_reserved_bytes": device.pool.reserved_bytes,
            "device_used_bytes": device.total_memory - device.free_memory,
        }
    return held


def growth(before: dict[str, int], after: dict[str, int], limits: dict[str, int]) -> dict[str, int]:
    """Return what has grown past its limit, and by how much."""
    grown = {name: after[name] - before[name] for name in before}
    return {name: value for name, value in grown.items() if value > limits[name]}


def compare(
    run: Callable[[int], None], n: int, hold: Callable[[], dict[str, int]], limits: dict[str, int]
) -> dict[str, Any]:
    """Run a tenth, note what is held, run the rest, and print and return how that has changed."""
    run(n // 10)
    before = hold()
    start = time.perf_counter()
    run(n - n // 10)
    seconds = time.perf_counter() - start
    after = hold()
    grown = growth(before, after, limits)
    for name in before:
        verdict = "GROWN" if name in grown else "ok"
        print(f"{name:20} {before[name]:14} -> {after[name]:14}  (limit +{limits[name]})  {verdict}")
    print(f"{n} operations, {(n - n // 10) / seconds:.3g} per second")
    return {"operations": n, "seconds": seconds, "before": before, "after": after, "grown": grown}


def options_of(doc: str) -> argparse.ArgumentParser:
    """Return the parser of the options that every soak has."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--operations", type=int, default=1_000_000, help="default: a million")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random order")
    parser.add_argument("--json", metavar="FILE", help="write the result there")
    parser.add_argument(
        "--quick", action="store_const", dest="operations", const=20_000, help="twenty thousand operations"
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run, compare and print; the exit status is 1 where something has grown."""
    options = options_of(__doc__).parse_args(arguments)
    device = madspace.Device(0)
    result = compare(Soak(device, options.seed).run, options.operations, lambda: holdings(device), LIMITS)
    if options.json:
        write(options.json, {"provenance": provenance("cuda"), "seed": options.seed} | result)
    return 1 if result["grown"] else 0


if __name__ == "__main__":
    sys.exit(main())
