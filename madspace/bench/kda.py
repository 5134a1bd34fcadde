"""Time of Kimi Delta Attention forward: device time as a replayed graph, host time of a call, share of the byte floor.

On a GPU, D = 128, bfloat16, float32 states in and out. "replay": one call captured, events around back-to-back replays,
the usual figure; "cold": the same over so many sets of buffers that none is left in the L2 cache when it is used again
(only where a set would fit there); "host": enqueue of a call, one of 16 into a drained queue behind as many,
beside launches of the same kernels from C, as often.
Fast gates (normal logits) forget within 16 tokens, slow ones (-8) do not: implementations that skip work differ there.
Peers get the same inputs as torch tensors, where they are installed. On the CPU: time of a call on all threads.
Results are checked against a float64 recurrence before anything is timed.
"""

import argparse
import time
from typing import Any

import madspace
from madspace.bench import kda_peers
from madspace.bench.c_twin import CTwin
from madspace.bench.kda_cases import CASES, SMALL, Call, Case, Reference, chosen, host_inputs
from madspace.bench.terminal import Progress, table
from madspace.bench.timing import (
    ENQUEUED,
    REPLAYS,
    captured,
    interleaved,
    into_drained_queue,
    pinned,
    replays,
    timed,
)

COLD_BYTES = 160e6  # three times the L2 cache of an H200
MAX_SETS = 256
ROUNDS, QUICK_ROUNDS = 21, 3


def gpu_case(case: Case, gate: str, twin: CTwin, peers: list[str], rounds: int, seed: int = 0) -> dict[str, Any]:
    """All figures of a case, in microseconds."""
    stream = twin.stream
    inputs = host_inputs(case, gate, seed)
    reference = Reference(inputs, case.heads)
    with madspace.stream(stream):  # the memory belongs to it: nothing has to be ordered with other streams
        call = Call(inputs, "cuda")
    call(stream=stream)
    stream.synchronize()
    errors = reference.check(*call.results())

    enqueue = call.bound(stream=stream)
    recording = captured(stream, lambda: call(stream=stream))
    samples = {
        "replay": replays(stream, recording),
        "host": into_drained_queue(stream.synchronize, lambda: timed(enqueue, ENQUEUED)),
        "c_launch": twin.measurement(twin.kernels(recording), ENQUEUED),
    }
    sets = [call]
    if case.nbytes() < COLD_BYTES / 2:
        with madspace.stream(stream):
            sets += [call.copy() for _ in range(min(MAX_SETS, int(COLD_BYTES // case.nbytes())))]

        def call_all() -> None:
            for one in sets:
                one(stream=stream)

        samples["cold"] = replays(stream, captured(stream, call_all), len(sets))
    made, left_out = kda_peers.measurements(peers, inputs, reference, REPLAYS)
    samples |= made
    interleaved(samples, 1 + rounds // 5)  # wakes clocks
    result: dict[str, Any] = interleaved(samples, rounds)
    result["floor"] = case.floor()
    result["share_of_floor"] = case.floor() / result["replay"]["median"]
    result["host_ratio_to_c"] = result["host"]["median"] / result["c_launch"]["median"]
    result["error"] = {"out": errors[0], "state": errors[1]}
    result["sets_of_buffers"] = len(sets)
    result["left_out"] = left_out
    return result


def cpu_case(case: Case, gate: str, rounds: int, seed: int = 0) -> dict[str, Any]:
    """Microseconds per call on all threads."""
    inputs = host_inputs(case, gate, seed)
    call = Call(inputs, "cpu")
    call()
    errors = Reference(inputs, case.heads).check(*call.results())

    def once() -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    result: dict[str, Any] = interleaved({"call": once}, rounds)
    result["ns_per_token_head"] = result["call"]["median"] * 1e3 / (case.batches * case.tokens * case.heads)
    result["error"] = {"out": errors[0], "state": errors[1]}
    return result


def run(options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Measure the cases on one device.

    Parameters
    ----------
    options : argparse.Namespace
        ``device``, ``cases`` (patterns of names; on the CPU and with ``quick`` small ones by default), ``gates``,
        ``peers``, ``rounds`` and ``seed``.
    progress : Progress
        Told what is measured.

    Returns
    -------
    dict
        ``cases`` by name; ``rounds``; ``left_out``, the first reason why a peer is missing somewhere.
    """
    gpu = options.device != "cpu"
    default = tuple(case.name for case in CASES) if gpu and not options.quick else SMALL
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    peers = [name for name in kda_peers.PEERS if options.peers is None or name in options.peers.split(",")]
    twin = CTwin(madspace.Device(0)) if gpu else None
    cases: dict[str, Any] = {}
    for case in chosen(options.cases, default):
        for gate in options.gates.split(","):
            name = f"{options.device} {case.name} {gate}"
            progress.start(f"kda: {name}")
            if twin is None:
                cases[name] = cpu_case(case, gate, rounds, options.seed)  # on all threads
            else:
                with pinned():
                    cases[name] = gpu_case(case, gate, twin, peers, rounds, options.seed)
    left_out: dict[str, str] = {}
    for figures in cases.values():
        left_out = figures.get("left_out", {}) | left_out
    return {"cases": cases, "rounds": rounds, "left_out": left_out}


def tables(result: dict[str, Any]) -> str:
    """Return the table for people."""
    cases = result["cases"]
    if any("call" in x for x in cases.values()):
        rows = [[name, f"{x['call']['median']:.0f}", f"{x['ns_per_token_head']:.0f}"] for name, x in cases.items()]
        return table(["us", "call", "ns per token and head"], rows)
    peers = [peer for peer in kda_peers.PEERS if any(peer in x for x in cases.values())]
    head = ["us", "replay", "cold", "floor", "share", "host", "x C", *peers]
    rows = [
        [
            name,
            f"{x['replay']['median']:.1f}",
            f"{x['cold']['median']:.1f}" if "cold" in x else "-",
            f"{x['floor']:.1f}",
            f"{100 * x['share_of_floor']:.0f} %",
            f"{x['host']['median']:.1f}",
            f"{x['host_ratio_to_c']:.2f}",
            *(f"{x[peer]['median']:.1f}" if peer in x else "-" for peer in peers),
        ]
        for name, x in cases.items()
    ]
    return table(head, rows)
