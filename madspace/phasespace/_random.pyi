from collections.abc import Sequence
from typing import Any, SupportsIndex

from madspace.core.device import Device
from madspace.core.tensor import Tensor

def make_uniform(
    shape: SupportsIndex | Sequence[SupportsIndex],
    seed: int,
    offset: int,
    device: str | SupportsIndex | Device | None,
    stream: Any,
) -> Tensor: ...
