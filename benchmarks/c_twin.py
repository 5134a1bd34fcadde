"""Builds and loads c_twin.c, and the empty kernel that its launches run."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import madspace

EMPTY_KERNEL = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry empty(.param .u64 pointer, .param .u32 number) { ret; }
"""


class Operands(ctypes.Structure):
    """What the operations work on; c_twin.c has the same fields."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("other_stream", ctypes.c_void_p),
        ("event", ctypes.c_void_p),
        ("pool", ctypes.c_void_p),
        ("graph", ctypes.c_void_p),
        ("nbytes", ctypes.c_size_t),
    )


class CTwin:
    """The C side of a benchmark on one device."""

    def __init__(self, device: madspace.Device) -> None:
        compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            raise RuntimeError("c_twin: no C compiler found (gcc or cc on PATH, or CC)")
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "c_twin.so"
            source = Path(__file__).with_name("c_twin.c")
            subprocess.run([compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(library), "-ldl"], check=True)
            self._lib = ctypes.CDLL(str(library))
        self._lib.twin_load.restype = ctypes.c_char_p
        self._lib.twin_context.restype = ctypes.c_void_p
        self._lib.twin_enter.argtypes = [ctypes.c_void_p]
        self._lib.twin_run.restype = ctypes.c_double
        self._lib.twin_run.argtypes = [ctypes.c_void_p, ctypes.POINTER(Operands), ctypes.c_int]
        driver = os.environ.get("MADSPACE_DRIVER_LIBRARY", "libcuda.so.1")
        missing = self._lib.twin_load(driver.encode())
        if missing is not None:
            raise RuntimeError(f"c_twin: {driver} lacks {missing.decode()}")
        self._context = self._lib.twin_context(device.id)
        if self._context is None:
            raise RuntimeError(f"c_twin: no primary context of device {device.id}")
        self._module = madspace.Module(EMPTY_KERNEL)
        self.kernel = self._module["empty"]
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

    def operation(self, name: str, repeats: int, **operands: Any) -> Callable[[], float]:
        """Return a measurement of one of the operations of c_twin.c: seconds per operation of a run.

        Parameters
        ----------
        name : str
            ``nothing``, ``launch``, ``launch_and_wait``, ``launch_in_context``, ``allocate_and_free``,
            ``record_and_wait`` or ``launch_graph``.
        repeats : int
            Operations per run.
        **operands
            Handles and sizes by their names in `Operands`, beside context, kernel and stream.
        """
        function = ctypes.cast(self._lib[f"op_{name}"], ctypes.c_void_p)
        fixed = {"context": self._context, "kernel": self.kernel.handle, "stream": self.stream.handle}
        given = Operands(**(fixed | operands))

        def measure() -> float:
            seconds = self._lib.twin_run(function, given, repeats)
            if seconds < 0:
                raise RuntimeError(f"c_twin: {name}: a driver call failed")
            return float(seconds)

        return measure

    def launch(self, repeats: int, *, wait: bool) -> Callable[[], float]:
        """Return a measurement: seconds per launch, or per launch and wait; the stream is drained afterwards."""
        run = self.operation("launch_and_wait" if wait else "launch", repeats)

        def measure() -> float:
            seconds = run()
            self.stream.synchronize()
            return seconds

        return measure
