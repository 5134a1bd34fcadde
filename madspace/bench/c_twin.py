"""Builds and loads c_twin.c, and the empty kernels that its launches run."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import madspace
from madspace.bench.timing import into_drained_queue

MAX_KERNELS = 16
COUNTS = (0, 16, 64)  # of parameters, beside the two of the usual kernel


def _empty_kernel(n: int) -> str:
    parameters = ", ".join(f".param .u64 p{i}" for i in range(n))
    return f".visible .entry empty_{n}({parameters}) {{ ret; }}\n"


EMPTY_KERNEL = (
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry empty(.param .u64 pointer, .param .u32 number) { ret; }\n" + "".join(map(_empty_kernel, COUNTS))
).encode()


class KernelNode(ctypes.Structure):
    """A launch as a graph's node has it; c_twin.c has the same fields."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("params", ctypes.c_void_p),
    )


class Operands(ctypes.Structure):
    """What the operations work on; c_twin.c has the same fields."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("other_stream", ctypes.c_void_p),
        ("event", ctypes.c_void_p),
        ("other_event", ctypes.c_void_p),
        ("pool", ctypes.c_void_p),
        ("graph", ctypes.c_void_p),
        ("template_graph", ctypes.c_void_p),
        ("host", ctypes.c_void_p),
        ("device", ctypes.c_ulonglong),
        ("nbytes", ctypes.c_size_t),
        ("n", ctypes.c_size_t),
        ("streams", ctypes.POINTER(ctypes.c_void_p)),
        ("events", ctypes.POINTER(ctypes.c_void_p)),
        ("kernels", ctypes.POINTER(KernelNode)),
    )


def handles(things: Sequence[madspace.Stream] | Sequence[madspace.Event]) -> Any:
    """Return an array of handles for `Operands`."""
    return (ctypes.c_void_p * max(1, len(things)))(*(x.handle for x in things))


class Operation:
    """An operation in C with what it works on.

    Parameters
    ----------
    library : ctypes.CDLL
        The compiled twin, which runs it.
    function : ctypes function
        ``int (*)(const void* given)``, 0 for success.
    name : str
        What messages call it.
    given : ctypes.Structure
        What it is given, with the context as the first field; kept alive with everything in it.
    keep : object
        Kept alive as well.
    """

    def __init__(
        self, library: ctypes.CDLL, function: Any, name: str, given: ctypes.Structure, keep: Any = None
    ) -> None:
        self._library, self._name, self._given, self._keep = library, name, ctypes.pointer(given), keep
        self._function = ctypes.cast(function, ctypes.c_void_p)

    def mean(self, n: int) -> float:
        """Return seconds per operation of n in a row."""
        seconds = float(self._library.twin_run(self._function, self._given, n))
        if seconds < 0:
            raise RuntimeError(f"c_twin: {self._name}: a driver call failed")
        return seconds

    def each(self, n: int) -> list[float]:
        """Return the seconds of each of n operations."""
        seconds = (ctypes.c_double * n)()
        if self._library.twin_run_each(self._function, self._given, n, seconds):
            raise RuntimeError(f"c_twin: {self._name}: a driver call failed")
        return list(seconds)


class CTwin:
    """The C side of a benchmark on one device.

    Parameters
    ----------
    device : Device
        Where.

    Raises
    ------
    RuntimeError
        When there is no C compiler, or the driver lacks a call.
    """

    def __init__(self, device: madspace.Device) -> None:
        self._lib = _compiled()
        driver = os.environ.get("MADSPACE_DRIVER_LIBRARY", "libcuda.so.1")
        missing = self._lib.twin_load(driver.encode())
        if missing is not None:
            raise RuntimeError(f"c_twin: {driver} lacks {missing.decode()}")
        self._context = self._lib.twin_context(device.id)
        if self._context is None:
            raise RuntimeError(f"c_twin: no primary context of device {device.id}")
        self.module = madspace.Module(EMPTY_KERNEL)
        self.kernel = self.module["empty"]
        self.stream = madspace.Stream(device)
        self.kernel.launch(1, 32, 0, 0, stream=self.stream)
        self.stream.synchronize()

    @contextmanager
    def context(self) -> Iterator[None]:
        """Make the device's primary context current in this thread for a block, as a framework would have it."""
        if self._lib.twin_enter(self._context):
            raise RuntimeError("c_twin: the context could not be made current")
        try:
            yield
        finally:
            self._lib.twin_leave()

    @contextmanager
    def no_context(self) -> Iterator[None]:
        """Make no context current in this thread for a block, whatever other libraries have left there."""
        n = self._lib.twin_hide()
        try:
            yield
        finally:
            self._lib.twin_show(n)

    def operation(self, name: str, keep: Any = None, **operands: Any) -> Operation:
        """Return one of the operations of c_twin.c.

        Parameters
        ----------
        name : str
            What follows ``op_`` there.
        keep : object
            What the operation needs alive.
        **operands
            Handles and sizes by their names in `Operands`; context, kernel and stream are those of the twin by default.
        """
        fixed = {"context": self._context, "kernel": self.kernel.handle, "stream": self.stream.handle}
        return self.run(self._lib[f"op_{name}"], name, Operands(**(fixed | operands)), keep)

    def run(self, function: Any, name: str, given: ctypes.Structure, keep: Any = None) -> Operation:
        """Return an operation of another library; see `Operation`."""
        return Operation(self._lib, function, name, given, keep)

    @property
    def context_handle(self) -> int:
        """The driver's handle of the device's primary context."""
        return int(self._context)

    def kernels(self, graph: madspace.Graph) -> Operation:
        """Return an operation: launches of each kernel of a graph as it was captured, and nothing else.

        Parameters
        ----------
        graph : Graph
            Of this device; kept, since the parameters belong to it.

        Raises
        ------
        RuntimeError
            When the graph has no kernel or too many.
        """
        kernels = (KernelNode * MAX_KERNELS)()
        n = int(self._lib.twin_kernels(ctypes.c_void_p(graph.handle), kernels, MAX_KERNELS))
        if n < 1:
            raise RuntimeError(f"c_twin: expected a graph of 1 to {MAX_KERNELS} kernels, got {graph!r}")
        return self.operation("launch_kernels", kernels=kernels, n=n, keep=graph)

    def measurement(self, operation: Operation, repeats: int) -> Callable[[], float]:
        """Return a measurement: seconds per operation of several in a row, into a drained queue."""
        return into_drained_queue(self.stream.synchronize, lambda: operation.mean(repeats))


def compiled(name: str, kind: type[ctypes.CDLL] = ctypes.CDLL, options: Sequence[str] = ()) -> ctypes.CDLL:
    """Compile a C file of this package, and load the result.

    Parameters
    ----------
    name : str
        Of the file.
    kind : type, optional
        How it is loaded.
    options : sequence of str, optional
        Of the compiler.
    """
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise RuntimeError(f"{name}: no C compiler found (gcc or cc on PATH, or CC)")
    source = resources.files("madspace.bench") / name
    with tempfile.TemporaryDirectory() as folder, resources.as_file(source) as path:
        library = Path(folder) / "library.so"
        command = [*compiler.split(), "-O2", "-shared", "-fPIC", *options, str(path), "-o", str(library), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{name}: {' '.join(command)}: {done.stderr.strip()}")
        return kind(str(library))


def _compiled() -> ctypes.CDLL:
    """Compile and load c_twin.c."""
    loaded = compiled("c_twin.c")
    loaded.twin_load.restype = ctypes.c_char_p
    loaded.twin_load.argtypes = [ctypes.c_char_p]
    loaded.twin_context.restype = ctypes.c_void_p
    loaded.twin_enter.argtypes = [ctypes.c_void_p]
    loaded.twin_run.restype = ctypes.c_double
    loaded.twin_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    loaded.twin_run_each.argtypes = [*loaded.twin_run.argtypes, ctypes.POINTER(ctypes.c_double)]
    return loaded
