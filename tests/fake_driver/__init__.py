"""Build, load and steer the fake CUDA driver (see README.md)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from pathlib import Path
from typing import NamedTuple

from compiled import compiled

HERE = Path(__file__).resolve().parent
SONAME = "libcuda.so.1"
HOOK = ctypes.CFUNCTYPE(None, ctypes.c_int)
KERNEL = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint), ctypes.POINTER(ctypes.c_uint)
)


class Call(NamedTuple):
    """One driver call: name, arguments by name (numbers as int), result code."""

    name: str
    args: dict
    code: int


class DriverFaultError(AssertionError):
    """The code under test used the driver wrongly."""


def build() -> Path:
    """Compile the fake driver where that has not been done yet; the path of the library.

    Built once per source text and user: later sessions, and processes that start at the same time, find it.
    """
    sources = sorted([*HERE.glob("*.cpp"), *HERE.glob("*.h")])
    flags = ["-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-shared", "-Wno-attributes", "-Wno-attribute-alias"]
    cpp = [path for path in sources if path.suffix == ".cpp"]
    return compiled(SONAME, sources, lambda scratch: [*flags, f"-Wl,-soname,{SONAME}", *cpp, "-ldl", "-lpthread"])


class Fake:
    """The fake driver of this process: what lives, what was called, what is to fail."""

    def __init__(self, path: str | os.PathLike):
        self.path = str(path)
        self.lib = ctypes.CDLL(self.path, mode=ctypes.RTLD_GLOBAL)
        self.lib.fake_log.restype = self.lib.fake_faults.restype = ctypes.c_size_t
        self.lib.fake_live.restype = self.lib.fake_pending.restype = ctypes.c_long
        self.lib.fake_failures_fired.restype = ctypes.c_long
        self.lib.fake_kind_name.restype = ctypes.c_char_p
        self.lib.fake_live_bytes.restype = self.lib.fake_null_stream_uses.restype = ctypes.c_ulonglong
        self.lib.fake_calls.restype = ctypes.c_ulonglong
        self._callbacks: dict[str, object] = {}

    def _text(self, function) -> list[str]:
        size = function(None, 0)
        buffer = ctypes.create_string_buffer(size)
        function(buffer, ctypes.c_size_t(size))
        return buffer.value.decode().splitlines()

    def counts(self) -> dict[str, int]:
        """Live handles by kind, ``bytes`` of live device memory, ``null_stream`` uses of stream handle 0."""
        counts = {}
        while name := self.lib.fake_kind_name(len(counts)):
            counts[name.decode()] = self.lib.fake_live(len(counts))
        return counts | {"bytes": self.lib.fake_live_bytes(), "null_stream": self.lib.fake_null_stream_uses()}

    def handles(self) -> dict[str, int]:
        """Return the counts but for events: idle ones are kept."""
        return {kind: n for kind, n in self.counts().items() if kind != "event"}

    def log(self, name: str | None = None) -> list[Call]:
        """Return the calls since the last ``clear_log()``, oldest first; only those of one name where it is given."""
        calls = []
        for line in self._text(self.lib.fake_log):
            left, code = line.rsplit(" -> ", 1)
            head, *pairs = left.split(" ")
            if name in (None, head):
                calls.append(Call(head, dict(_argument(pair) for pair in pairs), int(code)))
        return calls

    def names(self) -> list[str]:
        """Return the names of the calls since the last ``clear_log()``."""
        return [call.name for call in self.log()]

    def clear_log(self) -> None:
        """Forget the calls so far."""
        self.lib.fake_clear_log()

    def n_calls(self) -> int:
        """Return the number of calls since the process began."""
        return self.lib.fake_calls()

    def faults(self) -> list[str]:
        """Return what was done wrong: uses after free, double frees, unknown handles, calls after the end."""
        return self._text(self.lib.fake_faults)

    def clear_faults(self) -> None:
        """Forget the faults, for tests that provoke them."""
        self.lib.fake_clear_faults()

    def check(self) -> None:
        """Raise DriverFaultError where there were faults."""
        if faults := self.faults():
            raise DriverFaultError("\n".join(faults))

    def fail(self, name: str, nth: int = 1, code: int = 999) -> None:
        """Let the ``nth`` call from now of ``name`` ("*": of any) return ``code`` and do nothing else. Once."""
        self.lib.fake_fail(name.encode(), ctypes.c_long(nth), code)

    def failures_fired(self) -> int:
        """Return how many ``fail()`` rules have come true since ``clear_failures()``."""
        return self.lib.fake_failures_fired()

    def clear_failures(self) -> None:
        """Drop the ``fail()`` rules."""
        self.lib.fake_clear_failures()

    @contextlib.contextmanager
    def failing(self, name: str, nth: int = 1, code: int = 999):
        """Do ``fail()`` for the length of a block; the rule must come true in it."""
        self.clear_failures()
        self.fail(name, nth, code)
        try:
            yield
            if not self.failures_fired():
                raise AssertionError(f"{name}: expected at least {nth} calls, the injected failure never came true")
        finally:
            self.clear_failures()

    def each_failure(self, action, code: int = 999):
        """Run ``action`` again and again, its first, second, ... driver call failing, until none is left to fail.

        Yields the name of the failed call and the exception that came out, or None, each time.
        """
        nth, depth = 0, self.context_depth()
        while True:
            nth += 1
            self.clear_failures()
            self.clear_log()
            self.fail("*", nth, code)
            raised = None
            try:
                action()
            except Exception as error:
                raised = error.with_traceback(None)  # whose frames would keep alive what the action made
                raised.__context__ = None
            fired = self.failures_fired()
            self.clear_failures()
            if not fired:
                if raised is not None:
                    raise raised
                return
            name = next(call.name for call in self.log() if call.code == code)
            if name == "cuThreadExchangeStreamCaptureMode":
                # Swaps two words of the thread: it has no way to fail.
                mode = ctypes.c_int(0)
                self.lib.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
                continue
            if name == "cuCtxPopCurrent":  # what such a call leaves behind, nobody can mend
                self.lib.fake_trim_contexts(ctypes.c_size_t(depth))
            yield name, raised

    @contextlib.contextmanager
    def calling(self, name: str, action):
        """Do ``action(gil_held)`` at the start of every call of ``name`` in the block; other threads may make calls."""
        hook = HOOK(lambda held: action(bool(held)))
        self.lib.fake_on_call(name.encode(), hook)
        try:
            yield
        finally:
            self.lib.fake_on_call(b"", None)

    def sticky(self, code: int) -> None:
        """Let all calls that need a context return ``code``, as after a kernel fault; 0 ends it."""
        self.lib.fake_sticky(code)

    def defer(self, stream, on: bool = True) -> None:
        """Keep a stream's work queued until something waits for it; off: run it all and go back to the default."""
        self._stream_call(self.lib.fake_defer, stream, int(on))

    def defer_new(self, on: bool = True) -> None:
        """Let streams created from now on be deferred from their birth."""
        self.lib.fake_defer_new(int(on))

    def pending(self, stream) -> int:
        """Return the number of queued pieces of work of a deferred stream."""
        return self.lib.fake_pending(ctypes.c_void_p(_handle(stream)))

    def run(self, stream, n: int = -1) -> None:
        """Execute the first ``n`` queued pieces of work of a stream (all of them if negative)."""
        self._stream_call(self.lib.fake_run, stream, ctypes.c_long(n))

    def _stream_call(self, function, stream, value) -> None:
        code = function(ctypes.c_void_p(_handle(stream)), value)
        if code:
            raise ValueError(f"stream: expected a live stream of the fake driver, got {stream!r}")

    def register(self, name: str, fn, sizes=()) -> None:
        """Let launches of kernel ``name`` call ``fn``: an address, or ``fn(params, grid, block)`` in Python.

        ``sizes``: bytes of each parameter, where the image does not tell. A Python function is called with the
        driver locked: it must not wait for another thread that makes driver calls.
        """
        if not isinstance(fn, int):
            self._callbacks[name] = fn = KERNEL(fn)
        address = ctypes.cast(fn, ctypes.c_void_p)
        table = (ctypes.c_size_t * max(len(sizes), 1))(*sizes)
        self.lib.fake_register_kernel(name.encode(), address, len(sizes), table)

    def unregister(self, name: str) -> None:
        """Undo ``register()``."""
        self.lib.fake_unregister_kernel(name.encode())
        self._callbacks.pop(name, None)

    def set_condition(self, condition: int, value: int) -> None:
        """Set the condition of a conditional node, as a kernel in it would."""
        self.lib.fake_set_condition(ctypes.c_ulonglong(condition), ctypes.c_uint(value))

    def accept_all(self, on: bool = True) -> None:
        """Let every image have every kernel (unregistered ones do nothing)."""
        self.lib.fake_accept_all(int(on))

    def set_device_count(self, n: int) -> None:
        """Set how many devices there are."""
        self.lib.fake_set_device_count(n)

    def set_attribute(self, device: int, attribute: int, value: int) -> None:
        """Set a device attribute until the next ``reset()``."""
        self.lib.fake_set_attribute(device, attribute, value)

    def context_depth(self) -> int:
        """Return the depth of this thread's context stack."""
        return self.lib.fake_context_depth()

    def deinitialise(self) -> None:
        """Shut the driver down: every later call is a fault and answers CUDA_ERROR_DEINITIALIZED."""
        self.lib.fake_deinitialise()

    def reset(self) -> None:
        """Run all queued work, forget log, faults, rules and settings. Live handles stay."""
        self.lib.fake_reset()


def _handle(stream) -> int:
    return stream if isinstance(stream, int) else stream.handle


def _argument(pair: str):
    key, value = pair.split("=", 1)
    if re.fullmatch(r"-?\d+|0x[0-9a-f]+", value):
        return key, int(value, 0)
    return key, value


_loaded: Fake | None = None


def load() -> Fake:
    """Build and load the fake driver as this process's libcuda.so.1, and name it in the environment. Once."""
    global _loaded
    if _loaded is None:
        path = build()
        os.environ["MADSPACE_DRIVER_LIBRARY"] = str(path)
        _loaded = Fake(path)
    return _loaded
