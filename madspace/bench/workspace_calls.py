"""One KDA call, with its own workspace or without, on madspace's arrays or torch's: how it is timed and counted."""

import importlib.util
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import madspace
from madspace.bench.c_twin import CTwin
from madspace.bench.kda_cases import Call
from madspace.bench.timing import ENQUEUED, by_events, into_drained_queue, timed

KINDS = ("own", "torch")


def has_torch() -> bool:
    """Tell whether torch is installed."""
    return importlib.util.find_spec("torch") is not None


class HostCall:
    """A call on NumPy arrays, or torch's on the CPU."""

    def __init__(self, call: Call, **options: Any) -> None:
        self.call, self.enqueue = call, call.bound(**options)

    def __call__(self) -> None:
        """Do the call."""
        self.enqueue()

    def wait(self) -> None:
        """Wait for what is queued: nothing."""

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """Return output and final state as NumPy arrays."""
        self.wait()
        return self.call.results()

    def bits(self) -> list[bytes]:
        """Return the results as bytes."""
        return [x.tobytes() for x in self.results()]

    def host(self) -> list[float]:
        """Seconds to enqueue each of some calls, the first one into a drained queue."""
        return into_drained_queue(self.wait, lambda: [timed(self.enqueue, 1) for _ in range(ENQUEUED)])()

    def batch_and_wait(self, n: int) -> Callable[[], float]:
        """Return a measurement: seconds per call of a batch, the wait for it included."""

        def measure() -> float:
            start = time.perf_counter()
            for _ in range(n):
                self()
            self.wait()
            return (time.perf_counter() - start) / n

        return measure

    def allocations(self, n: int) -> float:
        """Return allocations per call; none is counted on the host."""
        return 0.0

    def added_peak(self, n: int) -> int:
        """Return by how many bytes calls raise the peak: of what Python's allocators know, NumPy's arrays included."""
        self()
        tracemalloc.start()
        try:
            self()
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(n):
                self()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return peak - before if peak - before > 65536 else 0  # less is objects of Python's own


class OwnCall(HostCall):
    """A call on madspace's tensors on the GPU."""

    def __init__(self, call: Call, stream: madspace.Stream) -> None:
        super().__init__(call, **self.options(stream))
        self.stream, self.pool = stream, stream.device.pool

    @staticmethod
    def options(stream: madspace.Stream) -> dict[str, Any]:
        """Return what the call is given beside its arrays."""
        return {"stream": stream}

    def wait(self) -> None:
        """Wait for the device."""
        self.stream.device.synchronize()

    def batch_by_events(self, n: int) -> Callable[[], float]:
        """Return a measurement: seconds per call of a batch, by events."""

        def run() -> None:
            for _ in range(n):
                self()

        return by_events(self.stream, run, n)

    def allocations(self, n: int) -> float:
        """Return allocations of the pool per call."""
        with madspace.statistics() as counted:
            for _ in range(n):
                self()
            self.wait()
            return counted.total_count / n

    def added_peak(self, n: int) -> int:
        """Return by how many bytes calls raise the pool's peak."""
        self.wait()
        self.pool.reset_peaks()
        before = self.pool.used_bytes
        for _ in range(n):
            self()
        self.wait()
        return self.pool.peak_used_bytes - before

    def replay_is_equal(self) -> bool:
        """Tell whether a replayed graph gives the same bits, with outputs spoiled before."""
        expected = self.bits()
        with madspace.capture(self.stream) as graph:
            self()
        for x in (self.call.out, self.call.final):
            x.fill(np.nan, stream=self.stream)
        graph.instantiate().launch(self.stream)
        return self.bits() == expected


class TorchCall(OwnCall):
    """A call on torch's tensors on the GPU, on torch's current stream."""

    def __init__(self, call: Call, stream: madspace.Stream) -> None:
        super().__init__(call, stream)
        self.torch = importlib.import_module("torch")

    @staticmethod
    def options(stream: madspace.Stream) -> dict[str, Any]:
        """Return nothing: the stream is torch's."""
        return {}

    def wait(self) -> None:
        """Wait for the device."""
        self.torch.cuda.synchronize()

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """Return output and final state as NumPy arrays."""
        return self.call.out.float().cpu().numpy(), self.call.final.cpu().numpy()

    def batch_by_events(self, n: int) -> Callable[[], float]:
        """Return a measurement: seconds per call of a batch, by events."""
        first, last = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))

        def measure() -> float:
            self.wait()
            first.record()
            for _ in range(n):
                self()
            last.record()
            last.synchronize()
            return float(first.elapsed_time(last)) * 1e-3 / n

        return measure

    def allocations(self, n: int) -> float:
        """Return allocations per call: torch's, by its profiler, and madspace's."""
        own = super().allocations(n)
        with self.torch.profiler.profile(activities=[self.torch.profiler.ProfilerActivity.CPU]) as profile:
            for _ in range(n):
                self()
        made = [x for x in profile.key_averages() if x.key.startswith("aten::empty")]
        return own + float(sum(x.count for x in made)) / n

    def added_peak(self, n: int) -> int:
        """Return by how many bytes calls raise torch's peak, and madspace's."""
        self.wait()
        self.torch.cuda.reset_peak_memory_stats()
        before = self.torch.cuda.memory_allocated()
        own = super().added_peak(n)
        return own + int(self.torch.cuda.max_memory_allocated()) - int(before)

    def replay_is_equal(self) -> bool:
        """Tell whether a replayed graph gives the same bits, with outputs spoiled before."""
        expected = self.bits()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            self()
        for x in (self.call.out, self.call.final):
            x.fill_(float("nan"))
        graph.replay()
        self.wait()
        return self.bits() == expected


def c_host(call: OwnCall, twin: CTwin) -> Callable[[], list[float]]:
    """Return a measurement: seconds to launch the kernels of each of some calls from C."""
    call()
    with madspace.capture(twin.stream) as graph:
        call()
    operation = twin.kernels(graph)
    return into_drained_queue(call.wait, lambda: operation.each(ENQUEUED))


def to_torch(x: Any, device: str) -> Any:
    """Return a NumPy array as a tensor of torch; anything else as it is."""
    torch = importlib.import_module("torch")
    if not isinstance(x, np.ndarray):
        return x
    if x.dtype.itemsize == 2:
        return torch.from_numpy(x.view(np.int16)).to(device).view(torch.bfloat16)
    return torch.from_numpy(x).to(device)


def make(kind: str, inputs: dict[str, Any], device: str, twin: CTwin | None, *, reuse: bool) -> Any:
    """Return a call on arrays of a kind, with its own workspace or without."""
    if kind == "torch":
        call = Call(inputs, device, own_workspace=reuse, put=lambda x: to_torch(x, device))
        return HostCall(call) if twin is None else TorchCall(call, twin.stream)
    if twin is None:
        return HostCall(Call(inputs, device, own_workspace=reuse))
    with madspace.stream(twin.stream):  # the memory belongs to it: nothing has to be ordered with other streams
        return OwnCall(Call(inputs, device, own_workspace=reuse), twin.stream)
