"""Runs a call of ``madspace.kda.fwd`` on NumPy arrays or on device tensors, into memory that was spoiled before."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import warp_machine
from kda.inputs import BF16, FP32

import madspace
from madspace.kda._launch import ARGS_NBYTES, run_host_kernel

ALIGNMENT = 128  # of a workspace
# What outputs and the workspace hold before a call: nothing of it may be seen afterwards.
POISONS = ("nan", "ones", "zeros", "noise")

# For tests that are too large for a driver that is only played: the CPU, and a real GPU.
ON_CPU_AND_GPU = pytest.mark.parametrize("place", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)], indirect=True)
ON_CPU = pytest.mark.parametrize("place", ["cpu"], indirect=True)
ON_GPU = pytest.mark.parametrize("place", [pytest.param("cuda", marks=pytest.mark.gpu)], indirect=True)


def spoiled(shape, dtype, poison="nan"):
    """Return an array of poison, the same bytes at each call."""
    dtype = np.dtype(dtype)
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if poison == "nan":
        words = np.full(nbytes // 2 + 1, np.nan, BF16) if dtype == BF16 else np.full(nbytes // 4 + 1, np.nan, FP32)
        data = words.view(np.uint8)[:nbytes]
    elif poison == "noise":
        data = np.random.default_rng(9).integers(0, 256, nbytes, np.uint8)
    else:
        data = np.full(nbytes, {"ones": 0xFF, "zeros": 0}[poison], np.uint8)
    return data.view(dtype).reshape(shape)


@dataclass
class Outcome:
    """Results of a call, as NumPy arrays; None for what was not asked for."""

    out: np.ndarray
    final: np.ndarray | None
    snapshots: np.ndarray | None

    def bits(self):
        """Return everything as bytes, for exact comparison."""
        return [x if x is None else x.tobytes() for x in (self.out, self.final, self.snapshots)]


class Place:
    """Where tests run: puts arrays there and brings results back."""

    def __init__(self, name):
        self.name = name

    def put(self, array):
        """Return an array there, or each of a dict's; anything else as it is."""
        if isinstance(array, dict):
            return {name: self.put(x) for name, x in array.items()}
        if not isinstance(array, np.ndarray) or self.name == "cpu":
            return array
        return madspace.asarray(array, device=self.name)

    def get(self, array):
        """Return an array from there as a NumPy array."""
        if array is None:
            return None
        return array.numpy() if isinstance(array, madspace.Tensor) else np.asarray(array)

    def spoiled(self, shape, dtype, poison="nan"):
        """Return an array of poison there."""
        dtype = np.dtype(dtype)
        if self.name == "cpu" or poison == "noise" or (poison == "nan" and dtype not in (BF16, FP32)):
            return self.put(spoiled(shape, dtype, poison))
        return madspace.empty(shape, dtype, device=self.name).fill(spoiled((1,), dtype, poison)[0])

    def workspace(self, inputs, poison="nan", extra=0):
        """Return a spoiled workspace for a call with these inputs."""
        batches, tokens, heads = inputs["v"].shape[:3]
        n = n_sequences(inputs)
        nbytes = madspace.kda.get_workspace_size(batches * tokens, heads, n)
        if self.name != "cpu":
            return self.spoiled((nbytes + extra,), np.uint8, poison)
        memory = spoiled((nbytes + extra + ALIGNMENT,), np.uint8, poison)  # NumPy aligns to 16 bytes or so
        return memory[-memory.ctypes.data % ALIGNMENT :][: nbytes + extra]

    def run(self, inputs, *, final=FP32, n_states=None, poison="nan", snapshots=None, workspace=True, **options):
        """Call ``fwd`` with all outputs given and spoiled.

        Parameters
        ----------
        inputs : dict
            Arguments by name: NumPy arrays, or arrays of this place.
        final : numpy.dtype or array, optional
            The type of the final state, or the array for it; None for no final state.
        n_states : int, optional
            Places in the final state, one per sequence by default.
        snapshots : numpy.dtype, optional
            The type of the snapshots, if there are any.
        workspace : bool or array
            A spoiled workspace of the right size, none, or this one.
        **options
            Further arguments of ``fwd``, or those to replace.

        Returns
        -------
        Outcome
        """
        arguments = self.put(inputs | options)
        heads, channels = inputs["v"].shape[2:]
        matrix = (heads, channels, channels)
        if arguments.get("out") is None:
            arguments["out"] = self.spoiled(inputs["v"].shape, BF16, poison)
        if isinstance(final, np.dtype):
            final = self.spoiled((n_sequences(inputs) if n_states is None else n_states, *matrix), final, poison)
        if snapshots is not None:
            n = len(inputs["intermediate_tokens"])
            arguments["intermediate_state"] = self.spoiled((n, *matrix), snapshots, poison)
        if workspace is True:
            workspace = self.workspace(inputs, poison)
        if workspace is not False:
            arguments["workspace"] = workspace
        result = fwd(arguments | {"final_state": final})
        assert result is arguments["out"]
        return Outcome(*(self.get(x) for x in (result, final, arguments.get("intermediate_state"))))


def fwd(arguments) -> Any:
    """Call ``madspace.kda.fwd`` with arguments by name."""
    return madspace.kda.fwd(**arguments)


def n_sequences(inputs):
    """Return the number of sequences."""
    cu_seqlens = inputs.get("cu_seqlens")
    return inputs["v"].shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1


def _twin(channels):
    def launch(params, grid, block):
        run_host_kernel(params[0], channels)

    return launch


def problem_of_kernels():
    """Return what a kernel did wrong that no result shows; empty where nothing is known."""
    return warp_machine.problem()


def register_kernels(fake):
    """Let the fake driver run the CUDA kernels lane by lane, or where that cannot be the host's kernel."""
    if platform.machine() == "x86_64":
        warp_machine.register(fake, "kda")
    else:
        register_host_kernels(fake)


def register_host_kernels(fake):
    """Let the fake driver run the host's kernel where the last kernel of a call is launched: for many calls."""
    for channels in (64, 128):
        for name in ("kda_forward", "kda_scan", "kda_decode"):
            fake.register(f"{name}_{channels}", _twin(channels), [ARGS_NBYTES])
    fake.register("kda_forward_wide_128", _twin(128), [ARGS_NBYTES])
    for channels in (64, 128):
        fake.register(f"kda_prepare_{channels}", lambda params, grid, block: None, [ARGS_NBYTES])
