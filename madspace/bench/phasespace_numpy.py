"""NumPy to NumPy through a GPU in one call, beside the copies alone.

Figures of one call of ``map_forward(.., device=)``: with results given ("call"), with new ones, and with all arrays in
page-locked memory. The copies alone, of the same bytes: the same call without its launches ("staged copies"); a copy of
each array between the device and page-locked memory, both directions at once ("pinned copies"), which is what the bus
can do; a copy of each array, one after the other ("plain copies").
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import madspace
from madspace.bench.terminal import table
from madspace.bench.timing import interleaved, timed
from madspace.phasespace.host_chunks import run_in_chunks

FIGURES = ("call", "call_fresh_outputs", "call_page_locked", "staged_copies", "pinned_copies", "plain_copies")
RATIOS = ("ratio_to_staged_copies", "ratio_to_pinned_copies", "page_locked_ratio")


class CopiesAlone:
    """Launches nothing, in place of a kernel."""

    def load(self, n: int, device: madspace.Device, stream: madspace.Stream) -> None:
        """Load nothing."""

    def launch(self, *args: Any) -> None:
        """Launch nothing."""


def numpy_case(
    mapping: madspace.TPropagatorMapping, arrays: list[np.ndarray], out: list[np.ndarray], rounds: int
) -> dict[str, Any]:
    """NumPy to NumPy through a GPU, in microseconds, and the ratios to the copies alone."""
    device = madspace.Device(0)
    up, down = madspace.Stream(device), madspace.Stream(device)
    # For each array page-locked memory, and a block of its size on the device.
    sources, targets = (
        [(madspace.PinnedBuffer(x.nbytes), device.pool.allocate(x.nbytes, stream=stream), x) for x in group]
        for group, stream in ((arrays, up), (out, down))
    )
    locked, locked_out = (
        [block.numpy(x.dtype).reshape(x.shape) for block, _, x in group] for group in (sources, targets)
    )
    for (_, buffer, x), place in zip((*sources, *targets), (*locked, *locked_out), strict=True):
        buffer.fill(0)
        place[...] = x

    def pinned_copies() -> None:
        for block, buffer, _ in sources:
            block.copy_to(buffer, stream=up)
        for block, buffer, _ in targets:
            block.copy_from(buffer, stream=down)
        up.synchronize()
        down.synchronize()

    def plain_copies() -> None:
        for _, buffer, x in sources:
            buffer.copy_from_host(x.data, stream=up)
        for _, buffer, x in targets:
            buffer.copy_to_host(x.data, stream=down)

    def staged_copies() -> None:
        run_in_chunks(CopiesAlone(), arrays, out, [False] * len(out), len(out[0]), device, None)

    calls: dict[str, Callable[[], Any]] = {
        "call": lambda: mapping.map_forward(arrays, out=out, device=device),
        "call_fresh_outputs": lambda: mapping.map_forward(arrays, device=device),
        "call_page_locked": lambda: mapping.map_forward(locked, out=locked_out, device=device),
        "staged_copies": staged_copies,
        "pinned_copies": pinned_copies,
        "plain_copies": plain_copies,
    }
    samples = {name: lambda function=function: timed(function, 1) for name, function in calls.items()}
    interleaved(samples, 2)
    result: dict[str, Any] = interleaved(samples, rounds)
    result["nbytes_up"], result["nbytes_down"] = (sum(x.nbytes for x in group) for group in (arrays, out))
    for name in ("staged_copies", "pinned_copies", "plain_copies"):
        result[f"ratio_to_{name}"] = result["call"]["median"] / result[name]["median"]
    result["page_locked_ratio"] = result["call_page_locked"]["median"] / result["pinned_copies"]["median"]
    return result


def numpy_table(cases: dict[str, Any]) -> str:
    """Return the table of these cases for people."""
    head = ["us", *(x.replace("_", " ") for x in (*FIGURES, *RATIOS))]
    rows = [
        [name, *(f"{x[figure]['median']:.1f}" for figure in FIGURES), *(f"{x[key]:.2f}" for key in RATIOS)]
        for name, x in cases.items()
    ]
    return table(head, rows)
