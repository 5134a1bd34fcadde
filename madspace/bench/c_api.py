"""Builds and loads c_api.c: operations of the latency benchmark through the C API."""

import ctypes
import sysconfig
import weakref
from collections.abc import Mapping
from typing import Any

import madspace
from madspace.bench.c_twin import CTwin, Operation, compiled

OPERATIONS = (
    "launch",
    "launch_and_wait",
    "allocate_and_free",
    "record",
    "wait",
    "record_and_wait",
    "query",
    "launch_graph",
)


class ApiOperands(ctypes.Structure):
    """What the operations work on; c_api.c has the same fields."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("device", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("other_stream", ctypes.c_void_p),
        ("event", ctypes.c_void_p),
        ("graph", ctypes.c_void_p),
        ("nbytes", ctypes.c_size_t),
    )


class CApi:
    """The C API's side of a benchmark.

    Parameters
    ----------
    twin : CTwin
        Which runs the operations.
    device : Device
        Where.

    Raises
    ------
    RuntimeError
        When c_api.c does not compile: there are no headers of Python, say.
    """

    def __init__(self, twin: CTwin, device: madspace.Device) -> None:
        headers = [f"-I{madspace.get_include()}", f"-I{sysconfig.get_path('include')}"]
        # Calls of Python keep the GIL; the operations are called by the twin, without it.
        self._lib: Any = compiled("c_api.c", ctypes.PyDLL, headers)
        self._lib.api_prepare.restype = ctypes.c_char_p
        self._lib.api_prepare.argtypes = [ctypes.POINTER(ApiOperands), ctypes.c_int, *5 * [ctypes.py_object]]
        self._lib.api_release.argtypes = [ctypes.POINTER(ApiOperands)]
        self._twin, self._device = twin, device

    def operation(self, name: str, things: Mapping[str, Any], nbytes: int = 0) -> Operation:
        """Return one of the operations of c_api.c.

        Parameters
        ----------
        name : str
            What follows ``op_`` there.
        things : mapping
            ``kernel``, ``stream``, ``other``, ``event`` and perhaps ``graph`` (a GraphExec).
        nbytes : int, optional
            Of an allocation.
        """
        given = ApiOperands(context=self._twin.context_handle, nbytes=nbytes)
        graph = things["graph"] if name == "launch_graph" else ctypes.py_object()
        objects = (*(things[key] for key in ("kernel", "stream", "other", "event")), graph)
        wrong = self._lib.api_prepare(given, self._device.id, *objects)
        if wrong is not None:
            raise RuntimeError(f"c_api: {name}: {wrong.decode()}")
        operation = self._twin.run(self._lib[f"op_{name}"], name, given)
        weakref.finalize(operation, self._lib.api_release, given)
        return operation
