"""One call of Kimi Delta Attention told twice: to ``madspace.kda.fwd``, and to ``ms_kda_forward`` as its arguments."""

from __future__ import annotations

import ctypes
import dataclasses
import re

import numpy as np
from capi_table import HEADER, ApiError, structure_of
from dlpack_structs import DLDataType, Producer

import madspace

Args = structure_of(HEADER.read_text(), "ms_kda_args")

# Names of the arrays in Python and in C, in the order of the checks of what shares memory.
FIELDS = {
    "q": "q",
    "k": "k",
    "v": "v",
    "g": "g",
    "beta": "beta",
    "A_log": "a_log",
    "dt_bias": "dt_bias",
    "initial_state": "initial_state",
    "cu_seqlens": "cu_seqlens",
    "state_slots": "state_slots",
    "intermediate_tokens": "snapshot_tokens",
    "intermediate_offsets": "snapshot_offsets",
    "out": "out",
    "final_state": "final_state",
    "intermediate_state": "snapshots",
}
ROWS = ("q", "k", "v", "g", "beta")
TYPES = {"bf16": DLDataType(4, 16, 1), "f32": DLDataType(2, 32, 1), "i32": DLDataType(0, 32, 1)}
TYPES["i64"] = DLDataType(0, 64, 1)
# Flags of ms_kda_args: of an array, where it is of that type.
TYPE_FLAGS = {
    "initial_state": ("bf16", 1),
    "final_state": ("bf16", 1),
    "intermediate_state": ("bf16", 2),
    "cu_seqlens": ("i64", 4),
    "state_slots": ("i64", 8),
    "intermediate_tokens": ("i64", 16),
}
SPACING = 1 << 18  # bytes from one array to the next; the first and the last have room on both sides
ARENA = 2 * len(FIELDS) * SPACING
PAGE = 4096


@dataclasses.dataclass
class Array:
    """Where an array is, and what: strides in elements."""

    offset: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def itemsize(self):
        """Bytes of an element."""
        return TYPES[self.dtype].bits // 8


def compact(shape):
    """Return the strides of a row-major array."""
    return tuple(int(np.prod(shape[i + 1 :], dtype=object)) for i in range(len(shape)))


class Call:
    """Arrays by Python's names at offsets in an arena, and numbers."""

    def __init__(self, *, batches=1, tokens=20, key_heads=2, heads=4, channels=64, sequences=None, extras=()):
        states = (batches if sequences is None else sequences, heads, channels, channels)
        self.arrays, self.numbers = {}, {"scale": 0.125, "lower_bound": -5.0}
        self.workspace = None  # offset and size in bytes
        shapes = {
            "q": ("bf16", (batches, tokens, key_heads, channels)),
            "k": ("bf16", (batches, tokens, key_heads, channels)),
            "v": ("bf16", (batches, tokens, heads, channels)),
            "g": ("bf16", (batches, tokens, heads, channels)),
            "beta": ("bf16", (batches, tokens, heads)),
            "A_log": ("f32", (heads,)),
            "dt_bias": ("f32", (heads, channels)),
            "out": ("bf16", (batches, tokens, heads, channels)),
        }
        optional = {
            "cu_seqlens": ("i32", (states[0] + 1,)),
            "initial_state": ("f32", states),
            "final_state": ("f32", states),
            "state_slots": ("i32", states[:1]),
            "intermediate_tokens": ("i32", (2,)),
            "intermediate_offsets": ("i32", (states[0] + 1,)),
            "intermediate_state": ("f32", (2, *states[1:])),
        }
        for name, (dtype, shape) in (shapes | {name: optional[name] for name in extras}).items():
            self.put(name, dtype, shape)

    def put(self, name, dtype, shape, strides=None):
        """Replace an array; its memory begins where it always does."""
        place = (1 + list(FIELDS).index(name)) * SPACING
        self.arrays[name] = Array(place, dtype, tuple(shape), compact(shape) if strides is None else tuple(strides))

    def change(self, name, **members):
        """Change an array."""
        self.arrays[name] = dataclasses.replace(self.arrays[name], **members)

    def move(self, name, nbytes):
        """Move an array."""
        self.change(name, offset=self.arrays[name].offset + nbytes)

    def drop(self, *names):
        """Leave arrays or numbers out."""
        for name in names:
            (self.arrays if name in self.arrays else self.numbers).pop(name)

    def python(self, base, device_type, stream=None):
        """Call ``fwd`` on the arena at an address; returns its error, or None."""
        given = {}
        for name, x in self.arrays.items():
            given[name] = Producer(np.empty(1), shape=x.shape, strides=x.strides)
            given[name].tensor.dtype, given[name].tensor.data = TYPES[x.dtype], base + x.offset
            given[name].device = given[name].tensor.device.type, given[name].tensor.device.id = device_type, 0
        if self.workspace is not None:
            memory = Producer(np.empty(1, np.uint8), shape=(self.workspace[1],), strides=(1,))
            memory.tensor.data = base + self.workspace[0]
            memory.device = memory.tensor.device.type, memory.tensor.device.id = device_type, 0
            given["workspace"] = memory
        try:
            madspace.kda.fwd(**{name: given.get(name) for name in ROWS}, **self.numbers | _others(given), stream=stream)
        except (TypeError, ValueError, madspace.MadspaceError) as error:
            return error
        finally:
            madspace.release_inputs(wait=True)  # the deleters end with the arrays
        return None

    def c_arguments(self, base):
        """Return the same as ms_kda_args."""
        args = Args(size=ctypes.sizeof(Args))
        q, v = self.arrays.get("q"), self.arrays.get("v")
        args.batches, args.tokens, args.key_heads, args.channels = (q or self.arrays["k"]).shape
        args.value_heads = (v or self.arrays["g"]).shape[2]
        for name, x in self.arrays.items():
            setattr(args, FIELDS[name], base + x.offset)
            dtype, flag = TYPE_FLAGS.get(name, ("", 0))
            args.flags |= flag if x.dtype == dtype else 0
            if name in ROWS:
                steps = getattr(args, f"{name}_strides")
                steps.batch, steps.token, steps.head = x.strides[:3]
        args.scale, args.lower_bound = self.numbers["scale"], self.numbers.get("lower_bound", 0.0)
        args.flags |= 0 if self.numbers.get("use_qk_l2norm", True) else 32
        args.flags |= 64 if self.numbers.get("gate_activated") else 0
        pools = [self.arrays[name] for name in ("initial_state", "final_state") if name in self.arrays]
        if "cu_seqlens" in self.arrays:
            args.sequences = self.arrays["cu_seqlens"].shape[0] - 1
        if "state_slots" in self.arrays and pools:
            args.n_slots = pools[0].shape[0]
        if "intermediate_state" in self.arrays:
            args.n_snapshots = self.arrays["intermediate_state"].shape[0]
        elif "intermediate_tokens" in self.arrays:
            args.n_snapshots = self.arrays["intermediate_tokens"].shape[0]
        if self.workspace is not None:
            args.workspace, args.workspace_nbytes = base + self.workspace[0], self.workspace[1]
        return args

    def c(self, api, device, base, stream=None):
        """Call ``ms_kda_forward`` on the arena at an address; returns its error, or None."""
        try:
            api.kda_forward(device, ctypes.byref(self.c_arguments(base)), stream)
        except ApiError as error:
            return error
        return None


class Arenas:
    """Two pieces of memory with the same contents, for a call each, on the CPU or on device 0."""

    def __init__(self, where, handle, stream=None, queue=None):
        self.handle, self.stream, self.queue = handle, stream, queue
        self.device_type = 1 if where == "cpu" else 2
        self.kept = []

    def fill(self, contents):
        """Return the addresses of two copies of the contents, at the beginning of pages."""
        self.kept = []
        for _ in range(2):
            room = np.zeros(ARENA + PAGE, np.uint8)
            array = room[-room.ctypes.data % PAGE :][:ARENA] if self.device_type == 1 else None
            if array is None:
                array = madspace.asarray(contents, device="cuda")
            else:
                array[:] = contents
            self.kept.append(array)
        if self.device_type == 2:
            madspace.Device(0).synchronize()
        return [x.ctypes.data if self.device_type == 1 else x.ptr for x in self.kept]

    def read(self):
        """Return what the copies hold."""
        if self.device_type == 2:
            madspace.Device(0).synchronize()
        return [np.array(x if self.device_type == 1 else x.numpy()) for x in self.kept]

    def both(self, call, api, bases):
        """Return the errors of Python and of C, None where there is none."""
        found = call.python(bases[0], self.device_type, self.stream)
        return found, call.c(api, self.handle, bases[1], self.queue)


def _others(given):
    return {name: x for name, x in given.items() if name not in ROWS}


def named(error):
    """Return which arguments an error names, as Python spells them."""
    text = error.message if isinstance(error, ApiError) else str(error)
    missing = re.match(r"fwd\(\) missing .*: (.*)", text)
    names = re.findall(r"'(\w+)'", missing[1]) if missing else text.partition(":")[0].split(", ")
    return {_spelt(name).removesuffix("_strides") for name in names}


def sharer(error):
    """Return the array with which memory is shared, None where the error is of something else."""
    found = re.search(r"memory shared with (\w+)", error.message if isinstance(error, ApiError) else str(error))
    return found and _spelt(found[1])


def _spelt(field):
    return next((name for name, in_c in FIELDS.items() if in_c == field), field)
