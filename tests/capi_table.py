"""The C API's table by ctypes, read from the header: every function of it can be called from Python."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

HEADER = Path(__file__).resolve().parent.parent / "madspace" / "include" / "madspace" / "madspace.h"

TYPES = {
    "int": ctypes.c_int,
    "unsigned": ctypes.c_uint,
    "size_t": ctypes.c_size_t,
    "int64_t": ctypes.c_int64,
    "uint32_t": ctypes.c_uint32,
    "float": ctypes.c_float,
}


class ApiError(Exception):
    """A code other than MS_OK, with the message."""

    def __init__(self, code: int, name: str, message: str, driver_code: int):
        super().__init__(f"{name} ({code}): {message}")
        self.code, self.name, self.message, self.driver_code = code, name, message, driver_code


def without_comments(text: str) -> str:
    """Return C without its comments."""
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def constants(text: str) -> dict[str, int]:
    """Return the enumerators of the header by name."""
    return {name: int(value) for name, value in re.findall(r"\b(M\w+) = (\d+)", without_comments(text))}


def version(text: str) -> tuple[int, int]:
    """Return the version of the API that the header is of."""
    major, minor = (re.search(rf"#define MADSPACE_API_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR"))
    return int(major), int(minor)


def structure_of(text: str, name: str):
    """Return a structure of the header as a ctypes class."""
    body = re.search(rf"typedef struct {name} \{{(.*?)\}} {name};", without_comments(text), re.S)[1]
    fields = []
    for declaration in filter(None, (" ".join(part.split()) for part in body.split(";"))):
        kind, names = re.fullmatch(r"(?:const )?(\w+ ?\**) ?(.+)", declaration).groups()
        for each in names.split(", "):
            base, _, count = each.partition("[")
            ctype = field_type(text, kind.strip(), each)
            fields.append((base.lstrip("*"), ctype * int(count[:-1]) if count else ctype))
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def field_type(text, kind, name):
    if "*" in kind or name.startswith("*"):
        return ctypes.c_char_p if kind.startswith("char") else ctypes.c_void_p
    return TYPES[kind] if kind in TYPES else structure_of(text, kind)


def functions(text: str) -> list[tuple[str, str, str]]:
    """Return name, result and parameters of the table's functions, in order."""
    body = re.search(r"typedef struct ms_api \{(.*?)\} ms_api;", without_comments(text), re.S)[1]
    found = re.findall(r"([\w ]+\*?) ?\(\*(\w+)\)\((.*?)\);", body, re.S)
    return [(name, " ".join(result.split()), " ".join(parameters.split())) for result, name, parameters in found]


def parameter_types(parameters: str) -> list:
    """Return the ctypes of a parameter list; addresses and handles are all c_void_p, Python objects py_object."""
    if parameters == "void":
        return []
    types = []
    for parameter in re.sub(r"\(\*\w+\)\([^)]*\)", "*callback", parameters).split(", "):
        kind = re.sub(r"^(const|struct) ", "", parameter).split(" ")[0]
        is_address = "*" in parameter or "[" in parameter or kind not in TYPES
        is_object = parameter.startswith("PyObject* ")
        types.append(ctypes.py_object if is_object else ctypes.c_void_p if is_address else TYPES[kind])
    return types


class Table:
    """The table of a capsule; ``table.alloc(...)`` raises ApiError for a code other than 0.

    Parameters
    ----------
    capsule : capsule
        ``madspace._C_API``.
    keep_gil : bool
        Whether the GIL is held in calls; ctypes gives it up otherwise.
    """

    def __init__(self, capsule, keep_gil: bool = False):
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        self.address = get(capsule, b"madspace._C_API")
        text = HEADER.read_text()
        self.major, self.minor = (
            ctypes.c_uint32.from_address(self.address),
            ctypes.c_uint32.from_address(self.address + 4),
        )
        self.size = ctypes.c_size_t.from_address(self.address + 8)
        self.raw = {}
        prototype = ctypes.PYFUNCTYPE if keep_gil else ctypes.CFUNCTYPE
        for i, (name, result, parameters) in enumerate(functions(text)):
            kind = ctypes.c_char_p if "*" in result else ctypes.c_int
            pointer = ctypes.c_void_p.from_address(self.address + 24 + 8 * i).value
            self.raw[name] = prototype(kind, *parameter_types(parameters))(pointer)
        for name, value in constants(text).items():
            setattr(self, name, value)

    def __getattr__(self, name):
        function = self.raw[name]
        if name in ("last_error", "last_driver_code", "status_name", "is_alive"):
            return function

        def call(*arguments):
            code = function(*arguments)
            if code:
                raise ApiError(
                    code,
                    self.raw["status_name"](code).decode(),
                    self.raw["last_error"]().decode(),
                    self.raw["last_driver_code"](),
                )

        return call

    def make(self, name, *arguments):
        """Return the handle, or the address, that a function writes to its last argument."""
        out = ctypes.c_void_p()
        getattr(self, name)(*arguments, ctypes.byref(out))
        return out.value

    def number(self, name, *arguments, kind=ctypes.c_int):
        """Return the number that a function writes to its last argument."""
        out = kind()
        getattr(self, name)(*arguments, ctypes.byref(out))
        return out.value

    def object(self, name, *arguments):
        """Return the Python object of which a function writes a reference to its last argument."""
        out = ctypes.py_object()
        getattr(self, name)(*arguments, ctypes.byref(out))
        value = out.value
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(value))  # the one that the function gave; `value` has its own
        return value


def extent(*numbers):
    """Return three unsigned numbers for a launch."""
    return (ctypes.c_uint * 3)(*numbers)


def parameters(*values):
    """Return the addresses of ctypes objects, for a launch."""
    addresses = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(value) for value in values))
    addresses.kept = values
    return addresses


def fill(api, kernel, queue, address, value, n=1024):
    """Launch ``ms_test_fill``, which writes a value to n words."""
    arguments = ctypes.c_void_p(address), ctypes.c_uint(value), ctypes.c_uint(n)
    api.kernel_launch(kernel, extent(4, 1, 1), extent(256, 1, 1), 0, queue, parameters(*arguments))


def refused(name, call, *arguments):
    """Expect a call to give this code; return the message."""
    with pytest.raises(ApiError) as raised:
        call(*arguments)
    assert raised.value.name == name, raised.value
    return raised.value.message
