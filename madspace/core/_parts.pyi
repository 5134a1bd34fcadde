from typing import Any

from numpy.typing import DTypeLike, NDArray

from madspace.core.memory import Buffer
from madspace.core.pinned import PinnedBuffer
from madspace.core.stream import Stream
from madspace.core.tensor import Tensor

def refuse_captured(stream: Stream, call: str) -> None: ...
def upload_part(
    pinned: PinnedBuffer, at: int, buffer: Buffer, offset: int, nbytes: int, stream: Stream
) -> None: ...
def download_part(
    pinned: PinnedBuffer, at: int, buffer: Buffer, offset: int, nbytes: int, stream: Stream
) -> None: ...
def tensor_part(buffer: Buffer, offset: int, shape: tuple[int, ...], dtype: DTypeLike) -> Tensor: ...
def page_locked_owner(array: NDArray[Any]) -> PinnedBuffer | None: ...
