"""Every exception and warning that madspace raises.

The tree has one root, `MadspaceError`. Each class also derives from the built-in exception that callers would look for
(`MemoryError`, `ValueError`, ...), so that code which knows nothing of madspace catches it as well.
"""

__all__ = [
    "CaptureError",
    "ClosedError",
    "CompileError",
    "DTypeError",
    "DeviceMismatchError",
    "DriverError",
    "DriverNotFoundError",
    "ForkError",
    "KernelFaultError",
    "KernelImageError",
    "MadspaceError",
    "MadspaceWarning",
    "OutOfMemoryError",
    "ShapeError",
    "StreamScopeError",
    "UnsupportedOpError",
    "WorkspaceError",
]


class MadspaceError(Exception):
    """Root of all madspace exceptions."""


class MadspaceWarning(RuntimeWarning):
    """What a destructor or a callback could not raise."""


class DriverNotFoundError(MadspaceError, OSError):
    """There is no usable CUDA driver: no library to load, or no device node."""


class ForkError(MadspaceError, RuntimeError):
    """The process was forked after the driver had started, which the driver does not survive."""


class DriverError(MadspaceError, RuntimeError):
    """A driver call failed.

    Parameters
    ----------
    message : str
        The whole text, as shown.
    code : int
        The driver's result code.
    name : str
        The code's name, ``CUDA_ERROR_...``.
    call : str
        The driver entry point that answered with it.

    Attributes
    ----------
    code, name, call
        As given.
    """

    # The defaults are what pickle calls the class with before it restores the attributes.
    def __init__(self, message: str, code: int = 0, name: str = "", call: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.name = name
        self.call = call


class OutOfMemoryError(DriverError, MemoryError):
    """The device has no memory left for the request."""


class KernelFaultError(DriverError):
    """A kernel crashed. The error is sticky: every later call of this process on that device fails the same way."""


class CaptureError(DriverError):
    """The operation cannot be part of a stream capture, or the capture was broken."""


class ClosedError(MadspaceError, ValueError):
    """The object was closed before this use."""


class ShapeError(MadspaceError, ValueError, RuntimeError):
    """An argument's shape, rank, strides or size is wrong."""


class DTypeError(MadspaceError, TypeError, RuntimeError):
    """An argument's element type is wrong."""


class DeviceMismatchError(MadspaceError, ValueError, RuntimeError):
    """An argument lives on another device than it must."""


class StreamScopeError(MadspaceError, RuntimeError):
    """Blocks of ``madspace.stream`` were left in another order than that of their nesting."""


class WorkspaceError(MadspaceError, ValueError, RuntimeError):
    """A workspace is too small, misaligned, read-only, or in use elsewhere."""


class UnsupportedOpError(MadspaceError, NotImplementedError):
    """An operation of the compute graph that this version cannot build or run. The message names it."""


class KernelImageError(MadspaceError, LookupError):
    """No kernel image, or no kernel of that name, fits the device. The message lists what there is."""


class CompileError(MadspaceError, RuntimeError):
    """Source code could not be compiled at run time.

    Parameters
    ----------
    message : str
        The whole text, as shown.
    log : str
        What the compiler wrote, empty where it was not reached.

    Attributes
    ----------
    log
        As given.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


OUT_OF_MEMORY = 2
CAPTURE_CODES = range(900, 909)
# After these the context answers every call with the same code until the process ends.
STICKY_CODES = frozenset({214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721})

_STICKY_HINT = (
    "a kernel that ran earlier caused this, not necessarily the last one; the device is lost to this process, restart "
    "it, and run it under compute-sanitizer to find the kernel"
)
_HINTS = {
    1: "an argument is out of the range that the driver accepts",
    2: "close buffers that are no longer needed, trim the pool, or split the work into smaller batches",
    4: "the driver is shutting down with the process; use no device objects after that",
    34: "the library that was loaded is the toolkit's link-time stub; put the driver's folder first in the search path",
    36: "update the NVIDIA driver to one for CUDA 13.0 or later (580 or newer)",
    100: "no device is visible: look at CUDA_VISIBLE_DEVICES and at what nvidia-smi lists",
    101: "the device number is not below madspace.device_count()",
    201: "no context is current in this thread",
    209: "the image has no code for this device",
    214: _STICKY_HINT,
    218: "the PTX does not compile for this device",
    222: "the PTX is newer than the driver; update the driver or load a cubin made for this device",
    400: "the handle was destroyed, or belongs to another device",
    700: _STICKY_HINT,
    701: "a block cannot have that many registers or that much shared memory; use fewer threads or less shared memory",
    702: _STICKY_HINT,
    710: _STICKY_HINT,
    715: _STICKY_HINT,
    716: _STICKY_HINT,
    717: _STICKY_HINT,
    718: _STICKY_HINT,
    719: _STICKY_HINT,
    720: "a cooperative grid must fit on the device at once; launch fewer blocks",
    802: "the system is not ready, often the fabric manager is not running",
    803: "the driver's kernel module and library differ in version; reboot after a driver update",
    804: "this driver's compatibility package does not support this device",
    900: "this operation is not allowed while its stream is captured; do it before the capture",
    901: "an earlier operation broke this capture; end it and capture again",
    902: "two separate captures would be joined; use streams of one capture only",
    903: "the capture must end on the stream on which it began",
    904: "a stream forked off inside the capture was not joined back before its end",
    905: "the captured stream would wait for work outside the capture; order them before the capture begins",
    906: "the legacy default stream takes part implicitly; use a non-blocking stream",
    907: "the event was recorded inside a capture and means nothing outside it",
    908: "the capture must end in the thread in which it began",
    910: "it is as before; instantiate() the other graph",
    912: "clusters of more than 8 blocks must be allowed for the kernel, and the device must have them",
}


def driver_error(code: int, name: str, description: str, call: str, detail: str = "") -> DriverError:
    """Build the exception for a driver result: its class by the code, its message with the known fix."""
    kind: type[DriverError]
    if code == OUT_OF_MEMORY:
        kind = OutOfMemoryError
    elif code in CAPTURE_CODES:
        kind = CaptureError
    elif code in STICKY_CODES:
        kind = KernelFaultError
    else:
        kind = DriverError
    message = f"{call}: {name} ({code}), {description}"
    if detail:
        message += f": {detail}"
    hint = _HINTS.get(code) or (_STICKY_HINT if code in STICKY_CODES else "")
    if hint:
        message += f"; {hint}"
    return kind(message, code, name, call)
