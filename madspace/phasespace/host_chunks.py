"""Host arrays through a GPU and back: in chunks, whose copies and launches overlap.

A batch is cut into chunks of equal size. Each takes a slot: device memory, a block of page-locked host memory and a
side stream of the call's stream. The host packs the arguments of a chunk into the block, queues a copy to the device,
the launch and a copy back, and goes on with the next slot. When it comes back to this one it waits for the copy and
unpacks the results, while the device is at the chunks in the other slots. What lies in a `PinnedBuffer` already is
neither packed nor unpacked. The blocks are those of `PinnedBuffer`: later calls have them again, until
`PinnedBuffer.trim`.
"""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from numpy.typing import NDArray

from madspace.core._parts import download_part, page_locked_owner, refuse_captured, tensor_part, upload_part
from madspace.core.current import get_stream
from madspace.core.device import Device
from madspace.core.forks import fork_streams
from madspace.core.pinned import PinnedBuffer
from madspace.core.stream import Stream, to_stream
from madspace.core.tensor import Tensor
from madspace.cpu._columns import Columns, copy_rows
from madspace.errors import MadspaceError

__all__ = ["Launcher", "run_in_chunks"]

CHUNK_BYTES = 1 << 25  # arguments and results of a chunk, a power of two as blocks of page-locked memory are
SLOTS = 3  # one on its way to the device, one on its way back, one with the host
PAST_CACHES = (True, True)  # how the host writes arguments into a block, and results into arrays
ALIGNMENT = 256  # of each column: no two share a memory transaction

Array: TypeAlias = NDArray[Any]


class Launcher(Protocol):
    """What runs on a chunk."""

    def load(self, n: int, device: Device, stream: Stream) -> None:
        """Load or compile what runs on n events; raise where that cannot be."""

    def launch(
        self, arguments: list[Tensor | None], results: list[Tensor], begin: int, n: int, device: Device, stream: Stream
    ) -> None:
        """Queue the work on n events, the first of them number `begin` of the batch; None is drawn."""


def run_in_chunks(
    launcher: Launcher,
    arguments: Sequence[Array | None],
    results: Sequence[Array],
    is_shared: Sequence[bool],
    n: int,
    device: Device,
    stream: Any,
) -> None:
    """Compute results on a device; return when they are there.

    Parameters
    ----------
    launcher : Launcher
        What computes them.
    arguments : sequence of (ndarray or None)
        Float64 or int32, aligned, of shape ``(n, *shape)`` or ``(1, *shape)``, where all events have the same.
    results : sequence of ndarray
        The same, each event contiguous, without memory in common.
    is_shared : sequence of bool
        For each result whether all events share it.
    n : int
        Events.
    device : Device
        Where it is done.
    stream : optional
        What it comes behind, as of `FunctionRuntime.call`.
    """
    origin = get_stream(device) if stream is None else to_stream(stream, device)
    refuse_captured(origin, "map_forward(device=...)")
    if all(x.size == 0 for x in results):
        return
    launcher.load(n, device, origin)
    plan = _Plan(arguments, results, is_shared, n)
    begins = range(0, max(n, 1), plan.size)
    n_slots = min(SLOTS, len(begins))
    streams = [origin]
    try:
        with fork_streams(origin, n_slots) if n_slots > 1 else nullcontext([origin]) as sides:
            streams += sides
            slots: list[_Slot] = []
            try:
                slots.extend(_Slot(plan, device, side) for side in sides)
                for i, begin in enumerate(begins):
                    slots[i % n_slots].start(launcher, begin, min(plan.size, n - begin))
                for i in range(n_slots):
                    slots[(len(begins) + i) % n_slots].finish()
            finally:
                _close(slots)
        if plan.direct_results:
            origin.synchronize()
    except BaseException:
        # Who has the error may do with the arrays what they like. Side streams that were joined are closed: what was
        # queued on them comes before the end of the origin.
        for stream in streams:
            with suppress(MadspaceError):
                stream.synchronize()
        raise


@dataclass
class _Column:
    """An argument or result, and where its rows of a chunk are on the device."""

    array: Array
    is_fixed: bool  # one row for all events
    owner: PinnedBuffer | None  # page-locked memory that it lies in
    offset: int = 0  # on the device
    at: int = 0  # of its first row, in `owner`

    def __post_init__(self) -> None:
        self.row = self.array[:1].nbytes
        if self.owner is not None:
            self.at = self.array.__array_interface__["data"][0] - self.owner.ptr

    def view(self, memory: Any, n: int) -> Tensor:
        """Return the rows of n events as a tensor."""
        rows = 1 if self.is_fixed else n
        return tensor_part(memory, self.offset, (rows, *self.array.shape[1:]), self.array.dtype)


class _Plan:
    """How a batch is cut, and where everything is in device memory and in the block of a slot.

    Device memory has arguments that all events share, arguments, arguments in page-locked memory, results in
    page-locked memory, other results. The block has the same without what is in page-locked memory.
    """

    def __init__(
        self, arguments: Sequence[Array | None], results: Sequence[Array], is_shared: Sequence[bool], n: int
    ) -> None:
        self.arguments = [None if x is None else _column(x, x.shape[0] == 1) for x in arguments]
        self.results = [_column(x, flag) for x, flag in zip(results, is_shared, strict=True)]
        given = [x for x in self.arguments if x is not None]
        fixed = [x for x in given if x.is_fixed]
        moving = [x for x in given if not x.is_fixed]
        self.direct_arguments = [x for x in moving if x.owner is not None]
        self.direct_results = [x for x in self.results if x.owner is not None]
        staged_arguments = [x for x in moving if x.owner is None]
        staged_results = [x for x in self.results if x.owner is None]
        columns = [*given, *self.results]
        row = sum(x.row for x in columns if not x.is_fixed)
        rest = sum(x.row for x in columns if x.is_fixed) + ALIGNMENT * len(columns)
        room = max(CHUNK_BYTES - rest, CHUNK_BYTES // 2)  # also where much is shared
        n_chunks = max(1, -(-n // max(1, room // max(row, 1))))
        self.size = max(1, -(-n // n_chunks))
        rows = min(n, self.size)
        self.fixed_end = _place(fixed, 0, rows)
        self.staged_end = _place(staged_arguments, self.fixed_end, rows)
        direct_end = _place(self.direct_arguments, self.staged_end, rows)
        self.results_at = _place(self.direct_results, direct_end, rows)
        self.nbytes = _place(staged_results, self.results_at, rows)
        self.block_nbytes = self.staged_end + self.nbytes - self.results_at
        skipped = self.results_at - self.staged_end
        self.fixed_arguments = _packed(fixed, 0, False)
        self.staged_arguments = _packed(staged_arguments, 0, False)
        self.fixed_results = _packed((x for x in staged_results if x.is_fixed), skipped, True)
        self.staged_results = _packed((x for x in staged_results if not x.is_fixed), skipped, True)


def _column(array: Array, is_fixed: bool) -> _Column:
    is_candidate = not is_fixed and array.flags.c_contiguous
    return _Column(array, is_fixed, page_locked_owner(array) if is_candidate else None)


def _place(columns: Iterable[_Column], at: int, rows: int) -> int:
    """Give columns their places in a row from here on; return the end."""
    for column in columns:
        column.offset = at
        nbytes = column.row * (1 if column.is_fixed else rows)
        at += -(-nbytes // ALIGNMENT) * ALIGNMENT
    return at


def _packed(columns: Iterable[_Column], skipped: int, is_written: bool) -> Columns:
    found = list(columns)
    offsets = [x.offset - skipped for x in found]
    return Columns([x.array for x in found], offsets, is_written, PAST_CACHES[is_written])


class _Slot:
    """What one chunk at a time has: memory here and there, and a stream."""

    def __init__(self, plan: _Plan, device: Device, stream: Stream) -> None:
        self.plan, self.device, self.stream = plan, device, stream
        self.block = PinnedBuffer(plan.block_nbytes, device)
        self.memory = device.pool.allocate(plan.nbytes, stream=stream)
        self.chunk: tuple[int, int] | None = None  # its first event, and how many
        self.is_new = True
        self.tensors: dict[int, tuple[list[Tensor | None], list[Tensor]]] = {}

    def start(self, launcher: Launcher, begin: int, n: int) -> None:
        """Unpack what is here, and queue the next chunk."""
        plan, memory, block = self.plan, self.memory, self.block
        copies = self.arrived()
        uploaded = plan.fixed_end
        if self.is_new:
            copies.append((plan.fixed_arguments, block.ptr, 0, 1, True))
            uploaded, self.is_new = 0, False
        copies.append((plan.staged_arguments, block.ptr, begin, n, True))
        copy_rows(copies)
        upload_part(block, uploaded, memory, uploaded, plan.staged_end - uploaded, self.stream)
        for x in plan.direct_arguments:
            assert x.owner is not None
            upload_part(x.owner, x.at + begin * x.row, memory, x.offset, n * x.row, self.stream)
        launcher.launch(*self.views(n), begin, n, self.device, self.stream)
        for x in plan.direct_results:
            assert x.owner is not None
            download_part(x.owner, x.at + begin * x.row, memory, x.offset, n * x.row, self.stream)
        download_part(block, plan.staged_end, memory, plan.results_at, plan.nbytes - plan.results_at, self.stream)
        self.chunk = begin, n

    def views(self, n: int) -> tuple[list[Tensor | None], list[Tensor]]:
        """Return arguments and results of n events on the device."""
        if n not in self.tensors:
            arguments = [None if x is None else x.view(self.memory, n) for x in self.plan.arguments]
            self.tensors[n] = arguments, [x.view(self.memory, n) for x in self.plan.results]
        arguments, results = self.tensors[n]
        return list(arguments), list(results)

    def arrived(self) -> list[tuple[Columns, int, int, int, bool]]:
        """Wait until the block is free and has the results of its chunk; return what unpacks them."""
        if self.chunk is None:
            return []
        self.block.synchronize()
        begin, n = self.chunk
        self.chunk = None
        fixed, staged = self.plan.fixed_results, self.plan.staged_results
        return [(fixed, self.block.ptr, 0, 1, False), (staged, self.block.ptr, begin, n, False)]

    def finish(self) -> None:
        """Wait for the results of its chunk and unpack them."""
        copy_rows(self.arrived())

    def close(self) -> None:
        """Let the memory go."""
        self.tensors.clear()
        try:
            self.memory.close()
        finally:
            self.block.close()


def _close(slots: list[_Slot]) -> None:
    """Close all of them, whatever fails."""
    if slots:
        try:
            slots.pop().close()
        finally:
            _close(slots)
