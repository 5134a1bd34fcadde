"""The operations of the latency benchmark: what each is in C and what in Python.

Names of cases stay what they are, so that results of all times compare.
"""

import ctypes
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any

import numpy as np

import madspace
from madspace.bench.c_api import OPERATIONS, CApi
from madspace.bench.c_twin import COUNTS, CTwin, handles
from madspace.bench.timing import Statement, Timed

KIB, MIB = 1 << 10, 1 << 20
N_GRAPH_NODES = 10
ALLOCATIONS = (KIB, 64 * KIB, 16 * MIB, 256 * MIB)
COPIES = (4, 64 * KIB, MIB, 16 * MIB, 256 * MIB, 1024 * MIB)
QUICK_COPIES = (4, 64 * KIB, 16 * MIB)
FORKS = (1, 2, 8)
FRAMEWORKS = ("numpy", "torch", "cupy", "jax")
# Who has no interpreter around: his empty loop is the one in C.
NATIVE = ("c", "c_api")


@dataclass
class Case:
    """One operation, by who does it.

    Attributes
    ----------
    who : dict
        ``c``, ``c_api`` (madspace from C), ``madspace`` and peers.
    current : bool
        The device's context is current while Python runs, as under a framework.
    prepare : callable, optional
        What is done before each sample, untimed.
    run : int, optional
        Operations of a sample, where it is not the usual number: long ones, and those that must be prepared.
    effort : float
        Rounds, as a share of the usual number.
    """

    who: dict[str, Timed]
    current: bool = True
    prepare: Callable[[], None] | None = None
    run: int | None = None
    effort: float = 1.0


Made = Iterator[tuple[str, Callable[[], Case]]]


def label(nbytes: int) -> str:
    """Return a size as part of a name, such as 16_mib."""
    for unit, size in (("gib", 1 << 30), ("mib", MIB), ("kib", KIB)):
        if nbytes >= size and nbytes % size == 0:
            return f"{nbytes // size}_{unit}"
    return f"{nbytes}_b"


def matches(name: str, patterns: str | None) -> bool:
    """Tell whether a name fits one of some patterns, separated by commas; none fits all."""
    return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns.split(","))


@dataclass
class Setup:
    """What the operations work on."""

    twin: CTwin
    device: madspace.Device
    copies: tuple[int, ...] = COPIES
    api: CApi | None = None
    names: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make streams, events and a buffer."""
        twin, device = self.twin, self.device
        self.stream, self.other, self.pool = twin.stream, madspace.Stream(device), device.pool
        self.event, self.first, self.last = madspace.Event(device), *(madspace.Event(device, True) for _ in range(2))
        for event in (self.event, self.first, self.last):
            event.record(self.stream)
        self.stream.synchronize()
        self.names = {
            "madspace": madspace,
            "kernel": twin.kernel,
            "device": device,
            "stream": self.stream,
            "other": self.other,
            "event": self.event,
            "first": self.first,
            "last": self.last,
            "pool": self.pool,
            "buffer": self.pool.allocate(KIB, stream=self.stream),
        }

    def statement(self, text: str, **names: Any) -> Statement:
        """Return a line of Python on these names and more."""
        return Statement(text, self.names | names)

    def case(self, text: str, operation: str, *, names: dict[str, Any] | None = None, **operands: Any) -> Case:
        """Return a case of madspace, from Python and where there is such an operation from C, and its C twin."""
        who: dict[str, Timed] = {"c": self.twin.operation(operation, **operands)}
        if self.api is not None and operation in OPERATIONS:
            things = self.names | (names or {})
            who["c_api"] = self.api.operation(operation, things, operands.get("nbytes", 0))
        return Case(who | {"madspace": self.statement(text, **names or {})})

    def graph(self, n_nodes: int) -> tuple[madspace.Graph, madspace.GraphExec]:
        """Return a graph of launches of the empty kernel, one behind the other."""
        with madspace.capture(self.stream) as graph:
            for _ in range(n_nodes):
                self.twin.kernel.launch(1, 32, 0, 0, stream=self.stream)
        return graph, graph.instantiate()


def launches(s: Setup) -> Made:
    """Yield launches: of the two usual arguments, of other numbers of them, bound, with the context pushed."""

    def pushed(text: str, operation: str, **operands: Any) -> Case:
        case = s.case(text, operation, **operands)
        case.current = False
        return case

    def counted(n: int) -> Case:
        kernel = s.twin.module[f"empty_{n}"]
        text = f"kernel.launch(1, 32, {'0, ' * n}stream=stream)"
        return s.case(text, "launch_n", names={"kernel": kernel}, kernel=kernel.handle, n=n)

    def bound() -> Case:
        return s.case("bound()", "launch", names={"bound": s.twin.kernel.bind(1, 32, 0, 0, stream=s.stream)})

    launch = "kernel.launch(1, 32, 0, 0, stream=stream)"
    yield "launch", lambda: s.case(launch, "launch")
    yield "launch_buffer", lambda: s.case("kernel.launch(1, 32, buffer, 0, stream=stream)", "launch")
    for n in COUNTS:
        yield f"launch_{n}_arguments", partial(counted, n)
    yield "launch_bound", bound
    yield "launch_push_context", lambda: pushed(launch, "launch_in_context")
    yield "launch_and_wait", lambda: s.case(f"{launch}; stream.synchronize()", "launch_and_wait")
    yield "query_event_push_context", lambda: pushed("event.query()", "query_in_context", event=s.event.handle)
    # Python has no call for this alone; what it costs there is the difference of the cases named push_context.
    yield "push_and_pop_context", lambda: Case({"c": s.twin.operation("push_and_pop")})


def memory(s: Setup) -> Made:
    """Yield allocations and frees: from what the pool holds, and from an empty pool."""

    def warm(nbytes: int) -> Case:
        text = f"pool.allocate({nbytes}, stream=stream).close()"
        return s.case(text, "allocate_and_free", pool=s.pool.handle, nbytes=nbytes)

    def cold(nbytes: int) -> Case:
        case = warm(nbytes)
        case.prepare, case.run, case.effort = s.pool.trim, 1, 0.1
        return case

    for nbytes in ALLOCATIONS:
        yield f"allocate_and_free_{label(nbytes)}", partial(warm, nbytes)
    for nbytes in ALLOCATIONS:
        yield f"allocate_and_free_cold_{label(nbytes)}", partial(cold, nbytes)


def order(s: Setup) -> Made:
    """Yield events and streams."""
    one: dict[str, Any] = {"event": s.event.handle, "other_stream": s.other.handle}
    two: dict[str, Any] = {"event": s.first.handle, "other_event": s.last.handle}

    def new_stream() -> Case:
        case = s.case("madspace.Stream(device).close()", "make_stream")
        case.run, case.effort = 4, 0.1
        return case

    def forked(n: int) -> Case:
        streams = [madspace.Stream(s.device) for _ in range(n)]
        events = [madspace.Event(s.device) for _ in range(n)]
        operands = {"n": n, "streams": handles(streams), "events": handles(events), "event": s.event.handle}
        text = f"madspace.join_streams(stream, madspace.fork_streams(stream, {n}))"
        return s.case(text, "fork_and_join", names={"kept": (streams, events)}, **operands)

    yield "record_and_wait", lambda: s.case("event.record(stream); other.wait(event)", "record_and_wait", **one)
    yield "record_event", lambda: s.case("event.record(stream)", "record", **one)
    yield "wait_event", lambda: s.case("other.wait(event)", "wait", **one)
    yield "query_event", lambda: s.case("event.query()", "query", **one)
    yield "elapsed", lambda: s.case("last.elapsed_since(first)", "elapsed", **two)
    yield "make_event", lambda: s.case("madspace.Event(device).close()", "make_event")
    yield "make_stream", new_stream
    if hasattr(madspace, "fork_streams") and hasattr(madspace, "join_streams"):
        for n in FORKS:
            yield f"fork_and_join_{n}", partial(forked, n)


def graphs(s: Setup) -> Made:
    """Yield launches and updates of graphs."""

    def launched(n_nodes: int) -> Case:
        _, made = s.graph(n_nodes)
        case = s.case("graph.launch(stream)", "launch_graph", names={"graph": made}, graph=made.handle)
        if n_nodes > 100:
            case.run, case.effort = 2, 0.1
        return case

    def updated() -> Case:
        source, made = s.graph(N_GRAPH_NODES)
        names = {"graph": made, "source": source}
        operands = {"graph": made.handle, "template_graph": source.handle}
        return s.case("graph.update(source)", "update_graph", names=names, **operands)

    yield "launch_graph_1", partial(launched, 1)
    yield "launch_graph", partial(launched, N_GRAPH_NODES)
    yield "launch_graph_1000", partial(launched, 1000)
    yield "update_graph", updated


def copies(s: Setup) -> Made:
    """Yield copies and the wait for them, from and to page-locked and pageable host memory."""

    @cache
    def device_memory(nbytes: int) -> madspace.Buffer:
        return s.pool.allocate(nbytes, stream=s.stream)

    @cache
    def host_memory(nbytes: int, pinned: bool) -> Any:
        # Not zeros: those would all be one page until something is written.
        return madspace.PinnedBuffer(nbytes, s.device) if pinned else np.ones(nbytes, np.uint8)

    def case(nbytes: int, text: str, operation: str, pinned: bool) -> Case:
        host, buffer = host_memory(nbytes, pinned), device_memory(nbytes)
        address = host.ptr if pinned else host.ctypes.data
        operands = {"host": ctypes.c_void_p(address), "device": buffer.ptr, "nbytes": nbytes}
        made = s.case(text, operation, names={"host": host, "buffer": buffer}, **operands)
        if nbytes > MIB:
            made.run = 1 if nbytes > 16 * MIB else 2
            made.effort = 0.1 * min(1.0, 16 * MIB / nbytes)
        return made

    wait = "stream.synchronize()"
    to_device, from_device = "copy_to_device", "copy_from_device"
    free = s.device.free_memory
    for nbytes in s.copies:
        if nbytes > free // 8:
            continue
        for name, text, operation, pinned in (
            ("h2d_pinned", f"host.copy_to(buffer, stream=stream); {wait}", to_device, True),
            ("d2h_pinned", f"host.copy_from(buffer, stream=stream); {wait}", from_device, True),
            ("h2d_pageable", "buffer.copy_from_host(host, stream=stream)", to_device, False),
            ("d2h_pageable", "buffer.copy_to_host(host, stream=stream)", from_device, False),
        ):
            yield f"{name}_{label(nbytes)}", partial(case, nbytes, text, operation, pinned)
    yield (
        "h2d_pinned_64_kib_queued",
        partial(case, 64 * KIB, "host.copy_to(buffer, stream=stream)", "queue_to_device", True),
    )


def exchange(device: str) -> Made:
    """Yield DLPack in and out, by framework; there is no C to compare with."""

    def taken(framework: str) -> Case:
        array = array_of(framework, device)
        return Case({"madspace": Statement("from_dlpack(x)", {"from_dlpack": madspace.from_dlpack, "x": array})})

    def given(framework: str) -> Case:
        values = np.zeros(256, np.float32)
        tensor = (
            madspace.from_dlpack(values) if device == "cpu" or framework == "numpy" else madspace.asarray(values, 0)
        )
        consumer = importlib.import_module("jax.dlpack" if framework == "jax" else framework)
        return Case({"madspace": Statement("from_dlpack(x)", {"from_dlpack": consumer.from_dlpack, "x": tensor})})

    for framework in FRAMEWORKS:
        yield f"dlpack_in_{framework}", partial(taken, framework)
        yield f"dlpack_out_{framework}", partial(given, framework)


def array_of(framework: str, device: str) -> Any:
    """Return an array of a framework, NumPy's on the host."""
    if framework == "numpy":
        return np.zeros(256)
    module: Any = importlib.import_module(framework)
    if framework == "torch":
        return module.zeros(256, device="cpu" if device == "cpu" else "cuda")
    if framework == "jax":
        return module.device_put(np.zeros(256, np.float32), module.devices("cpu" if device == "cpu" else "cuda")[0])
    if device == "cpu":
        raise RuntimeError(f"{framework} has no arrays on the host")
    return module.zeros(256)


def make_cases(setup: Setup | None, patterns: str | None) -> tuple[dict[str, Case], dict[str, str]]:
    """Prepare the operations whose names fit; on a device, or those of the host alone.

    Returns
    -------
    cases : dict of Case
        By name.
    left_out : dict of str
        Why others are missing: frameworks that are not installed or do not work.
    """
    families: list[Made] = [exchange("cpu" if setup is None else "cuda")]
    if setup is not None:
        families = [launches(setup), memory(setup), order(setup), graphs(setup), copies(setup), *families]
    cases: dict[str, Case] = {}
    left_out: dict[str, str] = {}
    for family in families:
        for name, make in family:
            if not matches(name, patterns):
                continue
            try:
                cases[name] = make()
            except Exception as error:  # another library of any version, or one that is missing
                if not name.startswith("dlpack_"):
                    raise
                left_out[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    return cases, left_out
