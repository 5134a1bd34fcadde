from collections.abc import Callable
from typing import SupportsIndex

from madspace.core.device import Device

def set_allocator(
    device: Device | SupportsIndex | str,
    allocate: Callable[[int, int, int], int] | SupportsIndex | None,
    free: Callable[[int, int, int, int], object] | SupportsIndex | None = None,
) -> None: ...
