from typing import final

from madspace.core.stream import Stream
from madspace.core.tensor import Tensor

@final
class Hold: ...

@final
class Lease:
    @property
    def tensor(self) -> Tensor: ...
    @property
    def stream(self) -> Stream | None: ...
