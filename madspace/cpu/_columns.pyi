from typing import Any, final

from numpy.typing import NDArray

@final
class Columns:
    def __init__(self, arrays: list[NDArray[Any]], offsets: list[int], writable: bool, past_caches: bool) -> None: ...

def copy_rows(copies: list[tuple[Columns, int, int, int, bool]]) -> None: ...
