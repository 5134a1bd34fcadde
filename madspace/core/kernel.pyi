import ctypes
from typing import Any, Protocol, SupportsIndex, TypeAlias

import numpy as np

from madspace.core._kernel_code import Extent, KernelCode
from madspace.core.binding import BoundKernel
from madspace.core.memory import Buffer
from madspace.core.module import Module
from madspace.core.stream import StreamLike
from madspace.core.tensor import Tensor

class _SupportsDLPack(Protocol):
    def __dlpack__(self, *, stream: Any = None) -> Any: ...
    def __dlpack_device__(self) -> Any: ...

class _SupportsCudaArrayInterface(Protocol):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

KernelArgument: TypeAlias = (
    int
    | float
    | complex
    | np.generic
    | ctypes._SimpleCData[Any]
    | ctypes.Structure
    | ctypes.Union
    | ctypes.Array[Any]
    | ctypes._Pointer[Any]
    | Tensor
    | Buffer
    | _SupportsDLPack
    | _SupportsCudaArrayInterface
)

class Kernel(KernelCode):
    def launch(
        self,
        grid: Extent,
        block: Extent,
        *args: KernelArgument,
        stream: StreamLike | None = None,
        shared: SupportsIndex = 0,
        cluster: Extent | None = None,
        cooperative: bool = False,
    ) -> None: ...
    def bind(
        self,
        grid: Extent,
        block: Extent,
        *args: KernelArgument,
        stream: StreamLike | None = None,
        shared: SupportsIndex = 0,
        cluster: Extent | None = None,
        cooperative: bool = False,
    ) -> BoundKernel: ...

def make_kernel(module: Module, name: str, handle: int) -> Kernel: ...
