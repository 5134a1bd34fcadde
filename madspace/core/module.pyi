import ctypes
import os
from types import TracebackType
from typing import Any, NamedTuple, Self, SupportsIndex, TypeAlias

import numpy as np

from madspace.core.device import Device
from madspace.core.memory import Buffer
from madspace.core.stream import StreamLike
from madspace.core.tensor import Tensor

KernelArgument: TypeAlias = (
    int
    | float
    | np.generic
    | ctypes._SimpleCData[Any]
    | ctypes.Structure
    | ctypes.Union
    | ctypes.Array[Any]
    | ctypes._Pointer[Any]
    | Tensor
    | Buffer
)
Extent: TypeAlias = int | tuple[int] | tuple[int, int] | tuple[int, int, int]

class KernelAttributes(NamedTuple):
    registers: int
    shared_bytes: int
    local_bytes: int
    max_threads_per_block: int
    max_dynamic_shared_bytes: int

class Module:
    def __init__(self, image: bytes | bytearray | memoryview | str | os.PathLike[str]) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    @property
    def kernel_names(self) -> tuple[str, ...]: ...
    def get(self, name: str) -> Kernel: ...
    def __getitem__(self, name: str) -> Kernel: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

class Kernel:
    @property
    def module(self) -> Module: ...
    @property
    def name(self) -> str: ...
    @property
    def handle(self) -> int: ...
    @property
    def param_sizes(self) -> tuple[int, ...]: ...
    def attributes(self, device: Device | SupportsIndex | str | None = None) -> KernelAttributes: ...
    def set_max_dynamic_shared(self, nbytes: int, device: Device | SupportsIndex | str | None = None) -> None: ...
    def launch(
        self, grid: Extent, block: Extent, *args: KernelArgument, stream: StreamLike, shared: int = 0
    ) -> None: ...

def loaded_images() -> dict[str, str]: ...
def preload(device: Device | SupportsIndex | str | None = None) -> int: ...
