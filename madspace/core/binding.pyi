from typing import SupportsIndex

from madspace.core._kernel_code import Extent
from madspace.core.kernel import Kernel, KernelArgument
from madspace.core.stream import Stream, StreamLike

class BoundKernel:
    @property
    def kernel(self) -> Kernel: ...
    @property
    def stream(self) -> Stream: ...
    def __call__(self, *, stream: StreamLike | None = None) -> None: ...
    def launch(self, *, stream: StreamLike | None = None) -> None: ...
    def set(self, index: SupportsIndex, value: KernelArgument) -> None: ...

def bind_kernel(
    kernel: Kernel,
    grid: Extent,
    block: Extent,
    args: tuple[KernelArgument, ...],
    stream: StreamLike,
    shared: SupportsIndex,
    cluster: Extent | None,
    cooperative: bool,
) -> BoundKernel: ...
