"""Host time of a call of a mapping on the arrays of other packages, beside own Tensors and launches from C."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import madspace
from madspace.bench.c_twin import CTwin
from madspace.bench.terminal import table
from madspace.bench.timing import ENQUEUED, captured, host_time, interleaved

N_EVENTS = 1000


def _torch(stream: madspace.Stream) -> tuple[Callable[[np.ndarray], Any], Any]:
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise RuntimeError("torch has no CUDA device")
    return lambda x: torch.from_numpy(x).cuda(), torch.cuda.stream(torch.cuda.ExternalStream(stream.handle))


def _cupy(stream: madspace.Stream) -> tuple[Callable[[np.ndarray], Any], Any]:
    cupy = importlib.import_module("cupy")
    return cupy.asarray, cupy.cuda.ExternalStream(stream.handle)


# How a package takes a host array to the device, and how it makes a stream its current one.
PACKAGES = {"torch": _torch, "cupy": _cupy}


@contextmanager
def arrays_of(package: str, stream: madspace.Stream) -> Iterator[Callable[[np.ndarray], Any]]:
    """Make a stream the current one of a package for a block; gives how a host array becomes one of its arrays."""
    put, current = PACKAGES[package](stream)
    with current:
        yield put


def missing(package: str, stream: madspace.Stream) -> str | None:
    """Return why a package has no arrays here; None where it has."""
    try:
        with arrays_of(package, stream) as put:
            put(np.zeros(1))
    except Exception as error:  # another package of any version, or one that is not installed
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def case(
    package: str, mapping: madspace.TPropagatorMapping, inputs: list[np.ndarray], twin: CTwin, rounds: int
) -> dict[str, Any]:
    """Figures of a mapping on the arrays of a package, in microseconds of the host.

    "host": inputs and ``out=`` are its arrays; "host_own_outputs": ``out=`` are Tensors; "host_fresh_outputs": its
    arrays in and out; "own": Tensors in and out. "intake": what its arrays cost more than Tensors, which is to find
    its current stream, to read the inputs and to order them.
    """
    device, stream = madspace.Device(0), twin.stream
    with arrays_of(package, stream) as put:
        arrays = [madspace.asarray(x, device=device, stream=stream) for x in inputs]
        out = list(mapping.map_forward(arrays, stream=stream))
        theirs, their_out = [put(x) for x in inputs], [put(np.zeros(x.shape)) for x in out]
        results = mapping.map_forward(theirs, out=their_out)
        stream.synchronize()
        for wanted, given, found in zip(out, their_out, results, strict=True):
            if found is not given or not np.array_equal(wanted.numpy(), madspace.from_dlpack(given).numpy()):
                raise RuntimeError(f"{package}: another result than with Tensors")
        recording = captured(stream, lambda: mapping.map_forward(arrays, out=out, stream=stream))
        calls: dict[str, Callable[[], Any]] = {
            "host": lambda: mapping.map_forward(theirs, out=their_out),
            "host_own_outputs": lambda: mapping.map_forward(theirs, out=out),
            "host_fresh_outputs": lambda: mapping.map_forward(theirs),
            "own": lambda: mapping.map_forward(arrays, out=out, stream=stream),
        }
        measured = {name: host_time(stream.synchronize, call) for name, call in calls.items()}
        measured["c_launch"] = twin.measurement(twin.kernels(recording), ENQUEUED)
        interleaved(measured, 1 + rounds // 5)
        result: dict[str, Any] = interleaved(measured, rounds)
    result["intake"] = result["host_own_outputs"]["median"] - result["own"]["median"]
    return result


def tables(cases: dict[str, Any]) -> str:
    """Return the table for people: microseconds of the host, and ratios to the launch of the same kernel from C."""
    head = ["us of the host", "C", "own Tensors", "x C", "out given", "x C", "own out", "intake", "fresh out", "x C"]
    rows = []
    for name, x in cases.items():
        c = x["c_launch"]["median"]
        own, given, fresh = (x[figure]["median"] for figure in ("own", "host", "host_fresh_outputs"))
        rows.append(
            [
                name,
                f"{c:.2f}",
                *(text for time in (own, given) for text in (f"{time:.2f}", f"{time / c:.2f}")),
                f"{x['host_own_outputs']['median']:.2f}",
                f"{x['intake']:.2f}",
                f"{fresh:.2f}",
                f"{fresh / c:.2f}",
            ]
        )
    return table(head, rows)
