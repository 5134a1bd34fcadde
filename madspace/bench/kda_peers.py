"""Other implementations of KDA forward on torch tensors, where they are installed, as replayed CUDA graphs."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np


def _flash_kda(torch: Any, x: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[], tuple[Any, Any]]]:
    """FlashKDA: writes out and final_state."""
    flash_kda = importlib.import_module("flash_kda")
    out, final = torch.empty_like(x["v"]), torch.empty_like(x["initial_state"])
    positional = [x[name] for name in ("q", "k", "v", "g", "beta")]
    gates = [x[name] for name in ("A_log", "dt_bias", "lower_bound")]
    states = {"initial_state": x["initial_state"], "final_state": final}

    def call() -> None:
        flash_kda.fwd(*positional, x["scale"], out, *gates, **states, cu_seqlens=x.get("cu_seqlens"))

    return call, lambda: (out, final)


def _fla(name: str) -> Callable[[Any, dict[str, Any]], tuple[Callable[[], Any], Callable[[], tuple[Any, Any]]]]:
    """Return the preparation of one of flash-linear-attention's kernels, with everything done inside."""

    def prepare(torch: Any, x: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[], tuple[Any, Any]]]:
        function = getattr(importlib.import_module("fla.ops.kda"), name)
        flags = {
            "use_qk_l2norm_in_kernel": True,
            "use_gate_in_kernel": True,
            "use_beta_sigmoid_in_kernel": True,
            "state_v_first": True,
            "output_final_state": True,
        }
        if name == "chunk_kda":
            flags["safe_gate"] = True
        found: list[Any] = []

        def call() -> None:
            with torch.no_grad():
                found[:] = function(**x, **flags)

        return call, lambda: (found[0], found[1])

    return prepare


PEERS = {
    "flash_kda": _flash_kda,
    "fla_chunk": _fla("chunk_kda"),
    "fla_recurrent": _fla("fused_recurrent_kda"),
}


def measurements(
    names: list[str], inputs: dict[str, Any], reference: Any, n_replays: int
) -> tuple[dict[str, Callable[[], float]], dict[str, str]]:
    """Return measurements by name (seconds per call of back-to-back replays), and why others are left out."""
    samples: dict[str, Callable[[], float]] = {}
    left_out: dict[str, str] = {}
    for name in names:
        try:
            samples[name] = _measurement(PEERS[name], inputs, reference, n_replays)
        except Exception as error:  # whatever another package raises where it cannot do this call
            left_out[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    return samples, left_out


def _measurement(prepare: Any, inputs: dict[str, Any], reference: Any, n_replays: int) -> Callable[[], float]:
    torch = importlib.import_module("torch")

    def put(x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x
        if x.dtype.itemsize == 2:
            return torch.from_numpy(x.view(np.int16)).cuda().view(torch.bfloat16)
        return torch.from_numpy(x).cuda()

    call, results = prepare(torch, {key: put(x) for key, x in inputs.items()})
    for _ in range(3):  # compiles, and tunes itself
        call()
    torch.cuda.synchronize()
    out, final = results()
    reference.check(out.float().cpu().numpy(), final.float().cpu().numpy(), limit=2e-2)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def measure() -> float:
        graph.replay()
        first.record()
        for _ in range(n_replays):
            graph.replay()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) * 1e-3 / n_replays

    return measure
