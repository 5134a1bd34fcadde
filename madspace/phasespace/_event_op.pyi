from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex, final

from madspace.core.device import Device
from madspace.core.stream import Stream

@final
class EventOp:
    kernel: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    def __init__(
        self, stem: str, kernel: str, input_names: Sequence[str], output_names: Sequence[str], constant: float
    ) -> None: ...
    @property
    def isa(self) -> str: ...
    def load(self, device: Device, stream: Stream) -> None: ...
    def __call__(
        self, inputs: Iterable[Any], conditions: Iterable[Any], out: Sequence[Any] | None, stream: Any
    ) -> list[Any]: ...

def map_forward(
    self: Any,
    inputs: Sequence[Any] = (),
    conditions: Sequence[Any] = (),
    *,
    out: Sequence[Any] | None = None,
    stream: Any = None,
    device: Any = None,
    seed: SupportsIndex | None = None,
    offset: SupportsIndex = 0,
    n_events: SupportsIndex | None = None,
    **named: Any,
) -> Any: ...
