"""madspace: a framework-free GPU runtime, phase-space mappings and attention kernels, on GPU and CPU."""

from importlib.metadata import PackageNotFoundError, version

from madspace import kda
from madspace.core._foreign import release_inputs
from madspace.core._library import is_available
from madspace.core.allocator import set_allocator
from madspace.core.binding import BoundKernel
from madspace.core.capture import capture
from madspace.core.compiler import compile, compile_image, get_include
from madspace.core.creation import asarray, empty, from_dlpack, zeros
from madspace.core.current import get_stream, set_stream, stream
from madspace.core.device import Device, device_count
from madspace.core.event import Event
from madspace.core.forks import Fork, fork_streams, join_streams
from madspace.core.graph import Graph
from madspace.core.graph_exec import GraphExec
from madspace.core.kernel import Kernel
from madspace.core.memory import Buffer, MemoryPool
from madspace.core.module import Module, preload
from madspace.core.pinned import PinnedBuffer
from madspace.core.pool import MemoryStats, memory_stats
from madspace.core.statistics import statistics
from madspace.core.stream import Stream
from madspace.core.tensor import Tensor
from madspace.core.workspace import Workspace, WorkspaceLayout
from madspace.cpu._lanes import get_num_threads, set_num_threads
from madspace.errors import (
    CaptureError,
    ClosedError,
    CompileError,
    DeviceMismatchError,
    DriverError,
    DriverNotFoundError,
    DTypeError,
    ForkError,
    KernelFaultError,
    KernelImageError,
    MadspaceError,
    MadspaceWarning,
    OutOfMemoryError,
    ShapeError,
    StreamScopeError,
    WorkspaceError,
)
from madspace.phasespace.mapping import Mapping
from madspace.phasespace.t_propagator import TPropagatorMapping

try:
    __version__ = version("madspace-driver")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"

__all__ = [
    "BoundKernel",
    "Buffer",
    "CaptureError",
    "ClosedError",
    "CompileError",
    "DTypeError",
    "Device",
    "DeviceMismatchError",
    "DriverError",
    "DriverNotFoundError",
    "Event",
    "Fork",
    "ForkError",
    "Graph",
    "GraphExec",
    "Kernel",
    "KernelFaultError",
    "KernelImageError",
    "MadspaceError",
    "MadspaceWarning",
    "Mapping",
    "MemoryPool",
    "MemoryStats",
    "Module",
    "OutOfMemoryError",
    "PinnedBuffer",
    "ShapeError",
    "Stream",
    "StreamScopeError",
    "TPropagatorMapping",
    "Tensor",
    "Workspace",
    "WorkspaceError",
    "WorkspaceLayout",
    "asarray",
    "capture",
    "compile",
    "compile_image",
    "device_count",
    "empty",
    "fork_streams",
    "from_dlpack",
    "get_include",
    "get_num_threads",
    "get_stream",
    "is_available",
    "join_streams",
    "kda",
    "memory_stats",
    "preload",
    "release_inputs",
    "set_allocator",
    "set_num_threads",
    "set_stream",
    "statistics",
    "stream",
    "zeros",
]
