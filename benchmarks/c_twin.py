"""Builds and loads c_twin.c, and the empty kernel that its launches run."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import madspace

EMPTY_KERNEL = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry empty(.param .u64 pointer, .param .u32 number) { ret; }
"""


class CTwin:
    """The C side of a benchmark on one device."""

    def __init__(self, device: madspace.Device) -> None:
        compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            raise RuntimeError("c_twin: no C compiler found (gcc or cc on PATH, or CC)")
        self._folder = tempfile.TemporaryDirectory()
        library = Path(self._folder.name) / "c_twin.so"
        source = Path(__file__).with_name("c_twin.c")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(library), "-ldl"], check=True)
        self._lib = ctypes.CDLL(str(library))
        self._lib.twin_launch.restype = ctypes.c_double
        self._lib.twin_launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
        driver = os.environ.get("MADSPACE_DRIVER_LIBRARY", "libcuda.so.1")
        if self._lib.twin_load(driver.encode()):
            raise RuntimeError(f"c_twin: {driver} lacks the entry points")
        self._module = madspace.Module(EMPTY_KERNEL)
        self.kernel = self._module["empty"]
        self.stream = madspace.Stream(device)
        self.kernel.launch(1, 32, 0, 0, stream=self.stream)
        self.stream.synchronize()

    def launch(self, repeats: int, *, wait: bool) -> Callable[[], float]:
        """Return a measurement: seconds per launch, or per launch and wait."""

        def measure() -> float:
            seconds = self._lib.twin_launch(self.kernel.handle, self.stream.handle, repeats, wait)
            if seconds < 0:
                raise RuntimeError("c_twin: a driver call failed")
            self.stream.synchronize()
            return float(seconds)

        return measure
