"""Libraries that a test makes up: a type with an exchange table over Tensors of madspace."""

import ctypes
from ctypes import addressof, cast

from dlpack_structs import DLDataType, DLDevice, DLTensor, Table, new_capsule, table_of

import madspace

OURS = table_of(madspace.Tensor)
FIELDS = dict(Table._fields_)
_kept = []  # tables live for ever


def describe(obj, out):
    """Tell where the tensor of an object is, and nothing else: madspace's own table puts it in order as well."""
    tensor = obj.tensor
    on_device = tensor.device != "cpu"
    shape, strides = ((ctypes.c_int64 * tensor.ndim)(*x) for x in (tensor.shape, tensor.strides))
    kind = 4 if tensor.dtype.name == "bfloat16" else {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}[tensor.dtype.kind]
    place = DLDevice(2, tensor.device.id) if on_device else DLDevice(1, 0)
    told = DLTensor(tensor.ptr, place, tensor.ndim, DLDataType(kind, 8 * tensor.itemsize, 1), shape, strides, 0)
    ctypes.memmove(out, addressof(told), ctypes.sizeof(told))
    obj.lent = shape, strides
    return 0


def framework(*, major=1, older=None, current=None, **members):
    """Return a new type whose instances hold a madspace Tensor, with an exchange table of its own.

    ``current["stream"]`` is the handle of the stream on which it works; ``current["allocated"]`` counts what it was
    asked to allocate, which fails where ``current["full"]``.
    """
    table = Table()
    current = current if current is not None else {"stream": None}

    def from_object(obj, out):
        current["exports"] = current.get("exports", 0) + 1
        return OURS.from_object(obj.tensor, out)

    def current_stream(device_type, device_id, out):
        out[0] = current["stream"]
        return 0

    def allocate(prototype, out, context, set_error):
        if current.get("full"):
            set_error(context, b"MemoryError", b"no room left")
            return -1
        current["allocated"] = current.get("allocated", 0) + 1
        return OURS.allocate(prototype, out, context, set_error)

    table.major, table.minor = major, 0
    if major == 1:
        table.allocate = FIELDS["allocate"](allocate)
        table.from_object = FIELDS["from_object"](from_object)
        table.borrow = FIELDS["borrow"](describe)
        table.to_object = OURS.to_object
        table.current_stream = FIELDS["current_stream"](current_stream)
    if older is not None:
        table.prev_api = addressof(older)

    def hold(self, tensor):
        self.tensor = tensor

    name = ctypes.create_string_buffer(b"dlpack_exchange_api")
    capsule = new_capsule(addressof(table), cast(name, ctypes.c_char_p), None)
    kind = type("Array", (), {"__init__": hold, "__dlpack_c_exchange_api__": capsule, **members})
    _kept.append((table, name))
    kind.current = current
    return kind, table
