from typing import final

@final
class HostBlock:
    @property
    def nbytes(self) -> int: ...
