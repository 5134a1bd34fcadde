from typing import SupportsIndex, final

from madspace.core.device import Device

@final
class Foreign: ...

def release_inputs(device: Device | SupportsIndex | str | None = None, *, wait: bool = False) -> int: ...
