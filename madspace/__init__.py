"""madspace: a framework-free GPU runtime, phase-space mappings and attention kernels, on GPU and CPU."""

from importlib import metadata as _metadata

from madspace import kda, random
from madspace.capi import _table as _capi_table
from madspace.core._foreign import release_inputs
from madspace.core._library import is_available
from madspace.core.allocator import set_allocator
from madspace.core.binding import BoundKernel
from madspace.core.capture import capture
from madspace.core.compiler import compile as compile
from madspace.core.compiler import compile_image, get_include
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
    UnsupportedOpError,
    WorkspaceError,
)
from madspace.phasespace.builder import FunctionBuilder
from madspace.phasespace.context import Context, default_context
from madspace.phasespace.function import Function
from madspace.phasespace.generator import FunctionGenerator
from madspace.phasespace.graph import Instruction, InstructionCall
from madspace.phasespace.mapping import Mapping
from madspace.phasespace.program import Program
from madspace.phasespace.runtime import FunctionRuntime
from madspace.phasespace.t_propagator import TPropagatorMapping
from madspace.phasespace.types import (
    BatchSize,
    DataType,
    Type,
    batch_float,
    batch_float_array,
    batch_four_vec,
    batch_four_vec_array,
    batch_int,
    batch_size,
    multichannel_batch_size,
    single_float,
    single_int,
)
from madspace.phasespace.values import NamedTypes, NamedValues, Value

# The element types under the names that MadSpace gives them.
int = DataType.int
float = DataType.float
batch_sizes = DataType.batch_sizes

try:
    __version__ = _metadata.version("madspace-driver")
except _metadata.PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"

_C_API = _capi_table.capsule  # for ms_import() of madspace.h; see madspace.capi

__all__ = [
    "BatchSize",
    "BoundKernel",
    "Buffer",
    "CaptureError",
    "ClosedError",
    "CompileError",
    "Context",
    "DTypeError",
    "DataType",
    "Device",
    "DeviceMismatchError",
    "DriverError",
    "DriverNotFoundError",
    "Event",
    "Fork",
    "ForkError",
    "Function",
    "FunctionBuilder",
    "FunctionGenerator",
    "FunctionRuntime",
    "Graph",
    "GraphExec",
    "Instruction",
    "InstructionCall",
    "Kernel",
    "KernelFaultError",
    "KernelImageError",
    "MadspaceError",
    "MadspaceWarning",
    "Mapping",
    "MemoryPool",
    "MemoryStats",
    "Module",
    "NamedTypes",
    "NamedValues",
    "OutOfMemoryError",
    "PinnedBuffer",
    "Program",
    "ShapeError",
    "Stream",
    "StreamScopeError",
    "TPropagatorMapping",
    "Tensor",
    "Type",
    "UnsupportedOpError",
    "Value",
    "Workspace",
    "WorkspaceError",
    "WorkspaceLayout",
    "asarray",
    "batch_float",
    "batch_float_array",
    "batch_four_vec",
    "batch_four_vec_array",
    "batch_int",
    "batch_size",
    "batch_sizes",
    "capture",
    "compile_image",
    "default_context",
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
    "multichannel_batch_size",
    "preload",
    "random",
    "release_inputs",
    "set_allocator",
    "set_num_threads",
    "set_stream",
    "single_float",
    "single_int",
    "statistics",
    "stream",
    "zeros",
]
