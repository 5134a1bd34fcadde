"""Device time of programs: fused and interpreted kernels, gradients, random numbers drawn inside, as a replayed graph.

Calls on Tensors, one behind the other, results given where the call takes them; the floor is the time in which a device
copy moves as many bytes as the call reads and writes. "shared": energy and masses are one number each for all events.
Results are compared with those of the CPU before anything is timed.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import madspace
from madspace import random
from madspace.bench.terminal import table
from madspace.bench.timing import COPY_BANDWIDTH, REPLAYS, captured, interleaved, replays, warmed_up

SEED = 1
N_CHECKED = 1000  # events
Arrays = list[Any]
# A call on the device, the same on the host for some events, and its bytes.
Case = tuple[Callable[[], Any], Callable[[], Any], int]


def nbytes_of(*arrays: Any) -> int:
    """Return the bytes of arrays; views of length 1 have those of one element."""
    return sum(x.size * x.dtype.itemsize for x in arrays)


def mapped(order: list[int], n: int, kernels: str, stream: madspace.Stream, how: str) -> Case:
    """Return a program of a chain of particles: "read" its random numbers, "read shared", or "own" ones."""
    function = madspace.TPropagatorMapping(order, 0.8).forward_function()
    runtime = madspace.FunctionRuntime(function)
    runtime._kernels = kernels
    n_particles, n_random = len(order) + 1, 3 * len(order) - 1
    draws = np.random.default_rng(SEED).random((n_random, n))
    conditions = [1000.0, *(10.0 * i for i in range(n_particles))]
    host = [*draws, *(np.full(n if how == "read" else 1, x) for x in conditions)]
    arrays: Arrays = [madspace.asarray(x, device=stream.device, stream=stream) for x in host]
    if how == "own":
        host[:n_random] = arrays[:n_random] = [None] * n_random
    options: dict[str, Any] = {} if how != "own" else {"seed": SEED, "n_events": n}
    out = runtime.call(arrays, stream=stream, **options)
    few = [x if x is None or len(x) == 1 else x[:N_CHECKED] for x in host]
    few_options = options if how != "own" else options | {"n_events": min(n, N_CHECKED)}
    nbytes = nbytes_of(*(x for x in (*arrays, *out) if x is not None))

    def call() -> Any:
        return runtime.call(arrays, out=out, stream=stream, **options)

    return call, lambda: madspace.FunctionRuntime(function).call(few, **few_options), nbytes


def gradients(order: list[int], n: int, stream: madspace.Stream) -> Case:
    """Return the gradients of a chain by its random numbers, with those of all results given."""
    mapping = madspace.TPropagatorMapping(order, 0.8)
    rng = np.random.default_rng(SEED)
    n_particles, n_random = len(order) + 1, 3 * len(order) - 1
    host = [*0.05 + 0.9 * rng.random((n_random, n)), *(np.full(n, x) for x in (1000.0, *(10.0,) * n_particles))]
    grads = [rng.normal(size=x.shape) for x in mapping.map_forward(host)]
    wanted = [True] * n_random + [False] * (n_particles + 1)
    arrays, given = (
        [madspace.asarray(x, device=stream.device, stream=stream) for x in group] for group in (host, grads)
    )

    def call() -> Any:
        with madspace.stream(stream):
            return mapping.vjp(arrays, [], given, input_requires_grad=wanted)[:n_random]

    def reference() -> Any:
        few = [x[:N_CHECKED] for x in host], [x[:N_CHECKED] for x in grads]
        return mapping.vjp(few[0], [], few[1], input_requires_grad=wanted)[:n_random]

    return call, reference, nbytes_of(*arrays, *given) + 8 * n * n_random


def uniform(width: int, n: int, stream: madspace.Stream) -> Case:
    """Return random numbers alone."""

    def call() -> Any:
        return [random.uniform((n, width), seed=SEED, device=stream.device, stream=stream)]

    return call, lambda: [random.uniform((min(n, N_CHECKED), width), seed=SEED)], 8 * n * width


def cases(n: int, stream: madspace.Stream) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Yield the names of cases, and how they are made."""
    for order in ([0, 1], [0, 1, 2], [0, 1, 2, 3]):
        for kernels in ("shipped", "interpreted"):
            for how in ("read", "read shared", "own"):
                if kernels == "shipped" or how == "read":
                    name = f"program {kernels} order={order} {how} n={n}"
                    yield name, partial(mapped, order, n, kernels, stream, how)
    yield f"program gradients order=[0, 1] n={n}", partial(gradients, [0, 1], n, stream)
    for width in (5, 8):
        yield f"program uniform width={width} n={n}", partial(uniform, width, n, stream)


def measure(case: Case, stream: madspace.Stream, rounds: int) -> dict[str, Any]:
    """Return the time of a call in microseconds, its floor and the share of it."""
    call, reference, nbytes = case
    for found, wanted in zip(call(), reference(), strict=True):
        x, y = found.numpy()[:N_CHECKED], np.asarray(wanted.numpy() if hasattr(wanted, "numpy") else wanted)
        if not np.abs(x - y).max() <= 1e-9 * np.abs(y).max():
            raise RuntimeError("other results than on the CPU")

    def launch() -> None:
        for _ in range(REPLAYS):
            call()

    device = warmed_up(replays(stream, captured(stream, launch), REPLAYS))
    result: dict[str, Any] = interleaved({"device": device}, rounds)
    result["floor"] = nbytes / COPY_BANDWIDTH * 1e6
    result["share_of_floor"] = result["floor"] / result["device"]["median"]
    return result


def tables(found: dict[str, Any]) -> str:
    """Return the table for people."""
    rows = [
        [name, f"{x['device']['median']:.1f}", f"{x['floor']:.1f}", f"{100 * x['share_of_floor']:.0f} %"]
        for name, x in found.items()
    ]
    return table(["us", "device", "floor", "share"], rows)
