"""How things are timed: in turn, without garbage collection, on one core."""

import gc
import os
import time
import timeit
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import numpy as np

import madspace
from madspace.bench.terminal import Progress

# What is to be measured: seconds of one operation, or of several, one by one.
Measurement = Callable[[], float | list[float]]
S = TypeVar("S", float, list[float])

ENQUEUED = 16  # calls of a sample of host time
SPINS, SPIN_LENGTH, MOST_CORES = 15, 10_000, 16  # 2 ms a core
WARM_SECONDS = 0.3
REPLAYS = 20  # calls of a sample of device time, at least
COPY_BANDWIDTH = 4.27e12  # bytes per second, read and written, of a device copy on an H200


class Timed(Protocol):
    """An operation that can be timed in a run and one by one."""

    def mean(self, n: int) -> float:
        """Return seconds per operation of n in a row."""

    def each(self, n: int) -> list[float]:
        """Return the seconds of each of n operations."""


class Statement:
    """A line of Python as an operation.

    Parameters
    ----------
    statement : str
        What to run.
    names : dict
        What it uses.
    """

    TEMPLATE = """
def each(n, keep, clock=clock):
    for _ in range(n):
        start = clock()
        {}
        keep(clock() - start)
"""

    def __init__(self, statement: str, names: Mapping[str, Any]) -> None:
        self._timer = timeit.Timer(statement, globals=dict(names))
        space = dict(names) | {"clock": time.perf_counter}
        exec(self.TEMPLATE.format(statement), space)
        self._each = space["each"]

    def mean(self, n: int) -> float:
        """Return seconds per operation of n in a row."""
        return self._timer.timeit(n) / n

    def each(self, n: int) -> list[float]:
        """Return the seconds of each of n operations."""
        seconds: list[float] = []
        self._each(n, seconds.append)
        return seconds


@contextmanager
def pinned() -> Iterator[None]:
    """Keep this thread on one core meanwhile: one that is fast now, see `_quietest`.

    What a thread starts inherits its core, so a driver and thread pools come first.
    """
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {_quietest(sorted(cores))})
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _quietest(cores: list[int]) -> int:
    """Return the core on which a short loop is the fastest; not the first of several, which serves interrupts.

    It is too short to see processes of this machine that wait for their turn on a core: there should be none.
    """
    seconds = {}
    for core in cores[1:][-MOST_CORES:] or cores:
        os.sched_setaffinity(0, {core})
        # Another machine's work beside it on the same core shows in all of them, an interrupt in few.
        seconds[core] = sorted(timed(_spin, 1) for _ in range(SPINS))[SPINS // 2]
    return min(seconds, key=seconds.__getitem__)


def _spin() -> int:
    return sum(range(SPIN_LENGTH))


@contextmanager
def quiet_interpreter() -> Iterator[None]:
    """No garbage collection meanwhile."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def timed(call: Callable[[], Any], repeats: int) -> float:
    """Seconds per call of a run of calls."""
    clock = time.perf_counter
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


def into_drained_queue(wait: Callable[[], object], sample: Callable[[], S]) -> Callable[[], S]:
    """Return a measurement: a sample that begins with nothing queued, and leaves nothing queued.

    It comes behind one that does not count: the processor's caches have forgotten the code while others were measured.
    """

    def measure() -> S:
        sample()
        wait()
        seconds = sample()
        wait()
        return seconds

    return measure


def host_time(wait: Callable[[], object], call: Callable[[], Any]) -> Callable[[], float]:
    """Return a measurement: seconds per call of those that find room in a drained queue."""
    return into_drained_queue(wait, lambda: timed(call, ENQUEUED))


def by_events(
    stream: madspace.Stream, run: Callable[[], Any], n: int, ahead: Callable[[], Any] | None = None
) -> Callable[[], float]:
    """Return a measurement: seconds of the device per call, where `run` queues n of them on the stream.

    What `ahead` queues before them does not count: it keeps the device busy until the host has queued the first one.
    """
    first, last = (madspace.Event(stream.device, timing=True) for _ in range(2))

    def measure() -> float:
        stream.device.synchronize()
        if ahead is not None:
            ahead()
        first.record(stream)
        run()
        last.record(stream)
        last.synchronize()
        return last.elapsed_since(first) * 1e-3 / n

    return measure


def captured(stream: madspace.Stream, run: Callable[[], Any]) -> madspace.Graph:
    """Return the graph of what `run` queues on a stream, which has run once before."""
    run()
    stream.synchronize()
    with madspace.capture(stream) as graph:
        run()
    return graph


def replays(stream: madspace.Stream, graph: madspace.Graph, n_calls: int = 1) -> Callable[[], float]:
    """Return a measurement: seconds of the device per call of a graph of n, by events around back-to-back replays.

    Where n is large the host takes no part in it, even if it needs longer for a call than the device; a graph of one
    short call is launched no faster than the host can.
    """
    executable = graph.instantiate()
    launches = -(-REPLAYS // n_calls)

    def launch() -> None:
        executable.launch(stream)

    def launch_all() -> None:
        for _ in range(launches):
            executable.launch(stream)

    return by_events(stream, launch_all, launches * n_calls, ahead=launch)


def warmed_up(measurement: Callable[[], float]) -> Callable[[], float]:
    """Measure for a while, and return the measurement: under load clocks and powers take that long to settle."""
    end = time.perf_counter() + WARM_SECONDS
    while time.perf_counter() < end:
        measurement()
    return measurement


def sampled(calls: Mapping[str, Measurement], rounds: int, progress: Progress | None = None) -> dict[str, list[float]]:
    """Measure several things in turn, so that drifts of the machine meet all of them; samples in microseconds.

    Each round begins with another one, so that none always comes behind the same neighbour's mess.
    """
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    with quiet_interpreter():
        for k in range(rounds):
            if progress is not None:
                progress.step(k, rounds)
            start = k % len(order)
            for name in order[start:] + order[:start]:
                seconds = calls[name]()
                if isinstance(seconds, list):
                    samples[name] += [1e6 * x for x in seconds]
                else:
                    samples[name].append(1e6 * seconds)
    return samples


def interleaved(
    calls: Mapping[str, Callable[[], float]], rounds: int, progress: Progress | None = None
) -> dict[str, dict[str, float]]:
    """Measure several things in turn; statistics in microseconds."""
    return {name: spread(x) for name, x in sampled(calls, rounds, progress).items()}


def spread(samples: list[float], offset: float = 0.0) -> dict[str, float]:
    """Return median and 5 % tails of samples, less an offset."""
    p05, median, p95 = (float(x) - offset for x in np.quantile(samples, (0.05, 0.5, 0.95)))
    return {"median": median, "p05": p05, "p95": p95}


def distribution(samples: list[float], offset: float = 0.0) -> dict[str, float]:
    """Return the quantiles of samples of single operations, less an offset."""
    percents = (5, 25, 50, 75, 95, 99)
    found = {f"p{q:02}": float(x) - offset for q, x in zip(percents, np.percentile(samples, percents), strict=True)}
    return found | {"max": max(samples) - offset}
