"""What `fwd` reads on the host with ``validate=True``."""

from typing import Any

import numpy as np

SNAPSHOT_TOKENS = 16  # the chunks of all kernels end at these


def check_contents(tokens: int, cu_seqlens: Any, state_slots: Any, n_slots: int, snapshots: Any) -> None:
    """Check index arrays by their contents.

    Parameters
    ----------
    tokens : int
        Length of the packed sequences.
    cu_seqlens, state_slots : Tensor or None
        As given to `fwd`.
    n_slots : int
        Places in the pool; 0 where it is not written.
    snapshots : tuple of Tensor or None
        ``intermediate_tokens``, ``intermediate_offsets``.

    Raises
    ------
    ValueError
        When one of them breaks its rule.

    Notes
    -----
    Waits for a device.
    """
    if cu_seqlens is not None:
        _check_offsets("cu_seqlens", cu_seqlens.numpy(), tokens, "T")
    if state_slots is not None:
        slots = state_slots.numpy()
        used, counts = np.unique(slots[(slots >= 0) & (slots < n_slots)], return_counts=True)
        if (counts > 1).any():
            raise ValueError(f"state_slots: expected each slot once, got {used[counts > 1][0]} more than once")
    if snapshots is not None:
        marks, offsets = (tensor.numpy() for tensor in snapshots)
        _check_offsets("intermediate_offsets", offsets, len(marks), "M")
        _check_marks(marks, offsets)


def _check_offsets(name: str, offsets: Any, last: int, last_name: str) -> None:
    if offsets[0] != 0:
        raise ValueError(f"{name}: expected 0 at the start, got {offsets[0]}")
    falls = np.flatnonzero(offsets[1:] < offsets[:-1])
    if falls.size:
        i = int(falls[0])
        raise ValueError(f"{name}: expected nondecreasing numbers, got {offsets[i]}, {offsets[i + 1]} at {i}")
    if offsets[-1] != last:
        raise ValueError(f"{name}: expected {last_name} = {last} at the end, got {offsets[-1]}")


def _check_marks(marks: Any, offsets: Any) -> None:
    bad = np.flatnonzero((marks <= 0) | (marks % SNAPSHOT_TOKENS != 0))
    if bad.size:
        raise ValueError(
            f"intermediate_tokens: expected positive multiples of {SNAPSHOT_TOKENS}, got {marks[bad[0]]} at {bad[0]}"
        )
    rises = np.append(marks[1:] > marks[:-1], True)[: len(marks)]
    rises[offsets[1:][offsets[1:] > 0] - 1] = True  # the last one of each sequence
    if not rises.all():
        i = int(np.flatnonzero(~rises)[0])
        raise ValueError(
            f"intermediate_tokens: expected ascending numbers within a sequence, got {marks[i]}, {marks[i + 1]} at {i}"
        )
