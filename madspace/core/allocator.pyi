from collections.abc import Callable
from typing import SupportsIndex, final

from madspace.core.device import Device

@final
class Allocator: ...

def set_allocator(
    device: Device | SupportsIndex | str,
    allocate: Callable[[int, int, int], int] | SupportsIndex | None,
    free: Callable[[int, int, int, int], object] | SupportsIndex | None = None,
) -> None: ...
