from collections.abc import Sequence
from typing import Any, SupportsIndex

from numpy.typing import DTypeLike

from madspace.core.device import Device
from madspace.core.tensor import Tensor

__all__ = ["asarray", "empty", "from_dlpack", "zeros"]

def asarray(
    array: Any,
    device: str | SupportsIndex | Device | None = None,
    *,
    dtype: DTypeLike | None = None,
    stream: Any = None,
    copy: bool | None = None,
) -> Tensor: ...
def from_dlpack(x: Any, *, stream: Any = None) -> Tensor: ...
def empty(
    shape: SupportsIndex | Sequence[SupportsIndex],
    dtype: DTypeLike = ...,
    *,
    device: str | SupportsIndex | Device | None = None,
    stream: Any = None,
) -> Tensor: ...
def zeros(
    shape: SupportsIndex | Sequence[SupportsIndex],
    dtype: DTypeLike = ...,
    *,
    device: str | SupportsIndex | Device | None = None,
    stream: Any = None,
) -> Tensor: ...
